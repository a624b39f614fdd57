"""Replay positions, kept where they do not expire: Kafka drops the offsets of a group that is idle for a week.

A compacted topic holds the same as the group, written in the same transactions. It is read only where the group holds
nothing any more. Not for what a position means (`replay`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import orjson
from confluent_kafka import IsolationLevel

from firn.dead_letters.queue import DeadLetterQueue
from firn.dead_letters.reader import DeadLetter, DeadLetterReader
from firn.dead_letters.topic import make_topic, settings_of
from firn.errors import ConfigError, TerminalError, TransientError
from firn.kafka import cluster
from firn.kafka.transactional_producer import CommittedOffset, Message

Place = tuple[str, int]
"""Topic id and partition of a dead-letter topic."""


class UnreadablePositionError(TerminalError):
    """The topic of replay positions holds something else."""


class ReplayPositions:
    """The positions of one sink's replays: the newest of each partition of the dead-letter topic counts."""

    def __init__(self, queue: DeadLetterQueue) -> None:
        # Names of sinks may hold what names of topics may not; which sink a position is of, its key says.
        self.topic = re.sub(r"[^A-Za-z0-9._-]", "_", queue.replay_group)
        self._queue = queue
        self._reader = DeadLetterReader(queue.client, self.topic, queue.sink)
        self._admin = cluster.admin_client(queue.client)

    def ensure(self, replication: int) -> None:
        """Create the topic where it is absent, with so many replicas. Raises ConfigError unless it is compacted."""
        if not cluster.find_topics(self._admin, [self.topic]):
            make_topic(self._admin, self._queue.sink, self.topic, replication, {"cleanup.policy": "compact"})
            return
        policy = settings_of(self._admin, self.topic).get("cleanup.policy", "compact")
        if policy != "compact":
            raise ConfigError(
                f"Topic {self.topic} would forget which dead letters were replayed: its cleanup.policy is {policy}.",
                where=f"brokers {self._queue.client.brokers}",
                next_step="Set its cleanup.policy to compact alone.",
            )

    def message(self, place: Place, position: CommittedOffset) -> Message:
        """The position as a record: it goes out with the replayed records and with the group's new position."""
        value = orjson.dumps({"offset": position.offset, "list": position.metadata})
        description = f"the replay position to {self.topic}"
        return Message(self.topic, 0, orjson.dumps([self._queue.sink, *place]), value, [], -1, description)

    def read(self, fence: Callable[[], None]) -> dict[Place, CommittedOffset]:
        """The newest position of each partition; none where there is no topic yet.

        fence: ends the transactions that replays of this sink left open, behind which nothing can be read. Raises
        TransientError where one stays open, UnreadablePositionError for what is no position.
        """
        if not cluster.find_topics(self._admin, [self.topic]):
            return {}
        if self._in_doubt():
            fence()
        if self._in_doubt():
            raise TransientError(
                f"A transaction in topic {self.topic} stays open: a replay is running, or was killed.",
                where=f"brokers {self._queue.client.brokers}",
                next_step="Wait until it ends: that takes five minutes at most.",
            )
        found = (self._position(each) for each in self._reader.read(self._reader.ranges()))
        return {place: position for sink, place, position in found if sink == self._queue.sink}

    def sinks(self) -> set[str] | None:
        """The sinks whose positions the topic holds; None where there is no topic. Raises UnreadablePositionError."""
        if not cluster.find_topics(self._admin, [self.topic]):
            return None
        return {self._position(each)[0] for each in self._reader.read(self._reader.ranges())}

    def _in_doubt(self) -> bool:
        reader, where = replace(self._admin, isolation=IsolationLevel.READ_COMMITTED), [(self.topic, 0)]
        return cluster.offsets(reader, where, "latest") != cluster.offsets(reader, where, "high_watermark")

    def _position(self, letter: DeadLetter) -> tuple[str, Place, CommittedOffset]:
        try:
            sink, topic_id, partition = orjson.loads(letter.key or b"")
            value = orjson.loads(letter.value or b"")
            return str(sink), (str(topic_id), int(partition)), CommittedOffset(int(value["offset"]), str(value["list"]))
        except (ValueError, TypeError, KeyError):
            raise UnreadablePositionError(
                f"Nobody knows which dead letters were replayed: topic {self.topic} holds a record that is no "
                "replay position.",
                where=f"partition {letter.partition}, offset {letter.offset}",
                next_step="Find out who writes to it. Without the topic all dead letters count as not replayed.",
            ) from None
