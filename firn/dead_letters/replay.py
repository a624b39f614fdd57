"""Replaying dead letters: each becomes its record again, in its topic, once.

What was replayed stands in a group of its own: everything below its offset, and single dead letters above it, listed in
the metadata. Both move in the transaction that sends the records, and so does a replay position (`replay_positions`)
that outlives the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from firn.connector.config import SinkConfig
from firn.dead_letters import envelope
from firn.dead_letters.envelope import without_envelope
from firn.dead_letters.offset_list import LIMIT, UnreadableError, read_list, write_list
from firn.dead_letters.queue import DeadLetterQueue, reads
from firn.dead_letters.reader import DeadLetter, DeadLetterReader, Range, number
from firn.dead_letters.replay_positions import ReplayPositions
from firn.errors import ConfigError
from firn.kafka.partitions import TopicPartition
from firn.kafka.settled_offsets import settled_offsets
from firn.kafka.transactional_producer import CommittedOffset, Message, TransactionalProducer, lost_race

AT_ONCE = 1000
AT_ONCE_BYTES = 32 * 1024 * 1024
"""Dead letters and their bytes in one transaction; a single one may be larger."""

NOTHING = CommittedOffset(-1, "")

Before = tuple[int, frozenset[int]]
"""What was replayed of a partition: all dead letters below an offset, and these above it."""

NEVER: Before = (0, frozenset())


@dataclass(frozen=True)
class Replayed:
    """What went, or would go, back to one source partition; -1: a partition by the record's key."""

    topic: str
    partition: int
    letters: int


@dataclass(frozen=True)
class _Partition:
    """One partition of the dead-letter topic: what is to be read, and what was replayed before.

    held: what the group holds. done: all dead letters below it were replayed. singly: and these above it.
    """

    where: TopicPartition
    topic_id: str
    within: Range
    held: CommittedOffset
    done: int
    singly: frozenset[int]


class Replay:
    """One replay of a sink's dead letters: those that exist when it is made. `count` looks, `send` acts."""

    def __init__(self, queue: DeadLetterQueue, config: SinkConfig, only: tuple[int, int] | None = None) -> None:
        """only: (partition, offset) of the one dead letter to replay; without it all that were not replayed yet."""
        self._queue, self._config, self._only = queue, config, only
        self._reader, self._positions = DeadLetterReader(queue.client, queue.topic, queue.sink), ReplayPositions(queue)
        if reads(config, self._positions.topic):
            raise ConfigError(
                f"The sink would read the positions of its own replays: topics.regex matches {self._positions.topic}.",
                where=f"sink {queue.sink}",
                next_step="Correct topics.regex.",
            )
        self._partitions = self._look()

    def count(self) -> list[Replayed]:
        """What would go where. Raises ConfigError for a dead letter whose topic nobody knows."""
        counted = Counter(
            (message.topic, message.partition) for each in self._partitions for _, message in self._messages(each)
        )
        return _rows(counted)

    def send(self) -> list[Replayed]:
        """Send, in transactions; returns what went where. Raises TransientError where another replay interferes."""
        sent: Counter[tuple[str, int]] = Counter()
        self._positions.ensure(self._reader.topic().replication_factor)
        for each in self._partitions:
            sent += self._send(each)
        return _rows(sent)

    def _look(self) -> list[_Partition]:
        info, ranges = self._reader.topic(), self._reader.ranges()
        if self._only:
            self._reader.one(*self._only)  # or says that there is none
            ranges = {self._only[0]: Range(self._only[1], self._only[1] + 1)}
        wheres = [TopicPartition(info.name, number) for number, there in ranges.items() if there.start < there.end]
        ids = {where: self._id(info.topic_id, where) for where in wheres}
        held = settled_offsets(self._queue.client, self._queue.replay_group, ids)
        before = self._before(info.topic_id, held, ids)
        return [
            _partition(where, info.topic_id, ranges[where.partition], held[where] or NOTHING, before[where])
            for where in wheres
        ]

    def _id(self, topic_id: str, where: TopicPartition) -> str:
        return f"{self._queue.replay_group}-{topic_id}-{where.partition}"

    def _before(
        self, topic_id: str, held: Mapping[TopicPartition, CommittedOffset | None], ids: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, Before]:
        """What was replayed of this very topic, not of an older one of its name.

        The group first, and replay positions where it expired: while it has offsets, it is as new as these, and an open
        transaction hides none of it.
        """
        by_group = {where: _before(topic_id, position) for where, position in held.items()}
        if None in by_group.values():
            kept = self._positions.read(lambda: self._fence(ids))
            by_topic = {where: _before(topic_id, kept.get((topic_id, where.partition))) for where in by_group}
        return {where: before or by_topic[where] or NEVER for where, before in by_group.items()}

    def _fence(self, ids: Mapping[TopicPartition, str]) -> None:
        for where, name in ids.items():
            with TransactionalProducer(self._queue.client, name, self._queue.replay_group, where, where.topic):
                pass  # entering aborts what an older replay left open

    def _messages(self, partition: _Partition) -> Iterator[tuple[int, Message]]:
        """(offset in the dead-letter topic, record) of each dead letter that was not replayed yet."""
        for letter in self._reader.read({partition.where.partition: partition.within}):
            if letter.offset not in partition.singly:
                yield letter.offset, self._message(letter)

    def _message(self, letter: DeadLetter) -> Message:
        topic = letter.envelope.get(envelope.TOPIC) or self._only_topic(letter)
        if not reads(self._config, topic):
            raise ConfigError(
                f"The dead letter at partition {letter.partition}, offset {letter.offset} came from topic {topic}, "
                "which the sink does not read.",
                where=f"topic {self._queue.topic}",
                next_step="Add the topic to the sink, or replay the others one by one with --partition and --offset.",
            )
        place = number(letter.envelope.get(envelope.PARTITION))
        description = f"the record of dead letter {letter.partition}/{letter.offset} to {topic}"
        kept = without_envelope(letter.headers)
        return Message(
            topic, -1 if place is None else place, letter.key, letter.value, kept, letter.timestamp, description
        )

    def _only_topic(self, letter: DeadLetter) -> str:
        if len(self._config.topics) == 1:
            return self._config.topics[0]
        raise ConfigError(
            f"The dead letter at partition {letter.partition}, offset {letter.offset} does not say its topic, and the "
            "sink reads several.",
            where=f"topic {self._queue.topic}",
            next_step="Produce its record by hand. With errors.deadletterqueue.context.headers.enable=true later dead "
            "letters name their topic.",
        )

    def _send(self, partition: _Partition) -> Counter[tuple[str, int]]:
        sent: Counter[tuple[str, int]] = Counter()
        if partition.within.start >= partition.within.end:
            return sent
        name = self._id(partition.topic_id, partition.where)
        sources = ", ".join(self._config.topics) or str(self._config.topics_regex)
        group, to = self._queue.replay_group, f"{sources}, {self._positions.topic}"
        place = (partition.topic_id, partition.where.partition)
        with TransactionalProducer(self._queue.client, name, group, partition.where, to) as transactions:
            if transactions.committed() != partition.held:
                raise lost_race(name)
            for chunk in _chunks(self._messages(partition)):
                position = self._position(partition, chunk[-1][0])
                kept = self._positions.message(place, position)
                transactions.send(chain((message for _, message in chunk), [kept]), position, lambda: None)
                sent.update((message.topic, message.partition) for _, message in chunk)
        return sent

    def _position(self, partition: _Partition, last: int) -> CommittedOffset:
        """What the group holds once the dead letter at `last` is replayed, and those before it."""
        if self._only is None:
            left = (offset for offset in partition.singly if offset > last)
            return CommittedOffset(last + 1, write_list(partition.topic_id, left))
        metadata = write_list(partition.topic_id, {*partition.singly, last})
        if len(metadata) > LIMIT:
            raise ConfigError(
                "Too many dead letters were replayed one by one.",
                where=f"metadata of group {self._queue.replay_group}",
                next_step="Replay all that are left: leave out --partition and --offset.",
            )
        return CommittedOffset(partition.done, metadata)


def _partition(where: TopicPartition, topic_id: str, asked: Range, held: CommittedOffset, before: Before) -> _Partition:
    done, singly = before
    return _Partition(where, topic_id, Range(max(asked.start, done), asked.end), held, done, singly)


def _before(topic_id: str, position: CommittedOffset | None) -> Before | None:
    """What a position says of the topic with this id; None where it says nothing."""
    if position is None:
        return None
    try:
        of, offsets = read_list(position.metadata)
    except UnreadableError:
        return None
    return (position.offset, frozenset(offsets.tolist())) if of == topic_id else None


def _chunks(messages: Iterator[tuple[int, Message]]) -> Iterator[list[tuple[int, Message]]]:
    chunk: list[tuple[int, Message]] = []
    size = 0
    for offset, message in messages:
        chunk.append((offset, message))
        size += len(message.value or b"") + len(message.key or b"")
        if len(chunk) == AT_ONCE or size >= AT_ONCE_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _rows(counted: Counter[tuple[str, int]]) -> list[Replayed]:
    return [Replayed(*place, letters) for place, letters in sorted(counted.items())]
