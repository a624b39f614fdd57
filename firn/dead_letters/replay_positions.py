"""What was replayed, kept where it does not expire: Kafka drops the offsets of a group that is idle for a week.

A compacted topic holds the same as the group, written in the same transactions. It is read only where the group tells
nothing. Not for what a position means (`replay`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import orjson
from confluent_kafka import IsolationLevel

from firn.dead_letters.queue import DeadLetterQueue
from firn.dead_letters.reader import Letter, LetterReader
from firn.dead_letters.topic import make_topic, settings_of
from firn.errors import ConfigError, TerminalError, TransientError
from firn.kafka import cluster
from firn.kafka.transactional_producer import Committed, Message

Place = tuple[str, int]
"""Topic id and partition of a dead-letter topic."""


class UnreadableMarkError(TerminalError):
    """The topic of the marks holds something else."""


class ReplayMarks:
    """The marks of one sink's replays: the newest of each partition of the dead-letter topic counts."""

    def __init__(self, queue: DeadLetterQueue) -> None:
        # Names of sinks may hold what names of topics may not; whose a mark is, its key says.
        self.topic = re.sub(r"[^A-Za-z0-9._-]", "_", queue.replay_group)
        self._queue = queue
        self._reader = LetterReader(replace(queue, topic=self.topic))
        self._admin = cluster.admin_client(queue.client)

    def ensure(self, replication: int) -> None:
        """Make the topic where it is absent, with so many replicas; one that would forget is a ConfigError."""
        if not cluster.find_topics(self._admin, [self.topic]):
            make_topic(self._admin, self._queue.sink, self.topic, replication, {"cleanup.policy": "compact"})
            return
        policy = settings_of(self._admin, self.topic).get("cleanup.policy", "compact")
        if policy != "compact":
            raise ConfigError(
                f"Topic {self.topic} would forget which letters were replayed: its cleanup.policy is {policy}.",
                where=f"brokers {self._queue.client.brokers}",
                next_step="Set its cleanup.policy to compact alone.",
            )

    def message(self, place: Place, position: Committed) -> Message:
        """The mark that goes out with the letters and with the group's new position."""
        value = orjson.dumps({"offset": position.offset, "list": position.metadata})
        note = f"the mark of the replay to {self.topic}"
        return Message(self.topic, 0, orjson.dumps([self._queue.sink, *place]), value, [], -1, note)

    def read(self, fence: Callable[[], None]) -> dict[Place, Committed]:
        """The newest mark of each partition; none where there is no topic yet.

        fence: ends the transactions that replays of this sink left open, behind which nothing can be read. Raises
        TransientError where one stays open, UnreadableMarkError for what is no mark.
        """
        if not cluster.find_topics(self._admin, [self.topic]):
            return {}
        if self._in_doubt():
            fence()
        if self._in_doubt():
            raise TransientError(
                f"A transaction in topic {self.topic} stays open: a replay runs, or was killed.",
                where=f"brokers {self._queue.client.brokers}",
                next_step="Wait until it ends: that takes five minutes at most.",
            )
        marks = (self._mark(letter) for letter in self._reader.read(self._reader.ranges()))
        return {place: position for sink, place, position in marks if sink == self._queue.sink}

    def sinks(self) -> set[str] | None:
        """Whose marks the topic holds; None where there is no topic. Raises UnreadableMarkError for what is no mark."""
        if not cluster.find_topics(self._admin, [self.topic]):
            return None
        return {self._mark(letter)[0] for letter in self._reader.read(self._reader.ranges())}

    def _in_doubt(self) -> bool:
        reader, where = replace(self._admin, isolation=IsolationLevel.READ_COMMITTED), [(self.topic, 0)]
        return cluster.offsets(reader, where, "latest") != cluster.offsets(reader, where, "high_watermark")

    def _mark(self, letter: Letter) -> tuple[str, Place, Committed]:
        try:
            sink, topic_id, partition = orjson.loads(letter.key or b"")
            value = orjson.loads(letter.value or b"")
            return str(sink), (str(topic_id), int(partition)), Committed(int(value["offset"]), str(value["list"]))
        except (ValueError, TypeError, KeyError):
            raise UnreadableMarkError(
                f"Which letters were replayed cannot be told: topic {self.topic} holds what is no mark of a replay.",
                where=f"partition {letter.partition}, offset {letter.offset}",
                next_step="Find out who writes to it. Without the topic all letters count as not replayed.",
            ) from None
