"""Where a sink stands: what the ledger says of each partition, what Kafka holds of it, and what that means.

Not for changing it (`offset_reset`), nor for the progress of one run (`run_report`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from firn.connector.config import SinkConfig
from firn.errors import ConfigError
from firn.kafka import cluster
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Owner, spoken
from firn.ledger.positions import Position, State, missing_positions, state_of
from firn.ledger.rows import View
from firn.ledger.table import LedgerTable
from firn.operations.life import LifeWatch, ReportWatch, hear
from firn.sinks.topics import matching_topics, partitions_in
from firn.snowflake.identifiers import quoted, table_for

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

COLUMNS = ("topic", "partition", "table", "next_offset", "earliest", "latest", "lag", "updated_at", "state")

MISSED_HEARTBEATS = 3
LEAST_SILENCE_SECONDS = 60.0
SILENCE_WITHOUT_HEARTBEAT_SECONDS = 900.0


@dataclass(frozen=True)
class PartitionOffsets:
    """One partition. table: its name, ready for a statement. committed: its row in the ledger, if any. seen: what Kafka
    holds, if it has the partition.
    start: where the sink goes on; None where that is for a person to say. read: whether the configuration names it.
    """

    where: TopicPartition
    table: str
    committed: Position | None
    seen: KafkaPartition | None
    start: int | None
    read: bool = True

    @property
    def state(self) -> State | Literal["new", "gone", "unread", "blocked"]:
        """One word: `state_of`, or new (not in the ledger yet), gone (not in Kafka), unread (not in the file), blocked
        (by an open transaction: what is there cannot be read yet)."""
        if self.seen is None:
            return "gone"
        if not self.read:
            return "unread"
        if self.committed is None:
            return "new"
        state = state_of(self.committed, self.seen)
        return "blocked" if state == "ok" and self.seen.blocked(self.committed.next_offset) else state

    @property
    def lag(self) -> int | None:
        """Records that Kafka holds and the table does not, at most: gaps count too. None where nobody can say."""
        if self.seen is None or self.start is None:
            return None
        return self.seen.latest - max(self.start, self.seen.earliest)

    def row(self) -> dict[str, Any]:
        """Plain values by the names of `COLUMNS`."""
        updated = self.committed and self.committed.updated_at
        values = (
            *self.where,
            self.table,
            self.committed and self.committed.next_offset,
            self.seen and self.seen.earliest,
            self.seen and self.seen.latest,
            self.lag,
            updated and updated.isoformat(timespec="seconds").replace("+00:00", "Z"),
            self.state,
        )
        return dict(zip(COLUMNS, values, strict=True))


@dataclass(frozen=True)
class SinkOffsets:
    """Where a sink stands. absent: topics of the configuration that neither Kafka nor the ledger knows."""

    sink: str
    owner: Owner | None
    partitions: tuple[PartitionOffsets, ...]
    absent: tuple[str, ...] = ()

    def spoken_owner(self, running_within: float) -> str:
        """Who runs the sink, as one line."""
        if self.owner is None:
            return f"Sink {self.sink}: not in the ledger yet."
        silent = spoken(self.owner.silent_seconds)
        if self.owner.runs(running_within):
            state = f"running, last sign of life {silent} ago"
        elif self.owner.run_id:
            state = f"silent for {silent}: it counts as not running after {spoken(running_within)}"
        else:
            state = f"not running for {silent}"
        return f"Sink {self.sink}, epoch {self.owner.epoch}: {state}."


def running_within(config: SinkConfig) -> float:
    """For how many seconds after its last sign of life a run counts as alive: three heartbeats, one minute at least.

    Without heartbeats commits and claims are the only signs, so it is a quarter of an hour. The limit is a courtesy:
    a run that is silent for longer and lives all the same is fenced by a reset, and writes nothing more.
    """
    if config.heartbeat_seconds <= 0:
        return SILENCE_WITHOUT_HEARTBEAT_SECONDS
    return max(MISSED_HEARTBEATS * config.heartbeat_seconds, LEAST_SILENCE_SECONDS)


def look(
    config: SinkConfig,
    table: LedgerTable,
    connection: SnowflakeConnection,
    admin: cluster.KafkaAdmin,
    *,
    reports: bool = True,
) -> SinkOffsets:
    """Look at ledger and Kafka; changes nothing, also where there is no ledger yet or a topic is gone.

    reports: whether positions that tasks report ahead of the ledger count.
    """
    view = table.view(connection) or View("", None, {})
    signs = hear(admin, view.ledger_id, config.name)
    owner, (ahead, _) = LifeWatch().owner(view, signs.sign), ReportWatch().positions(view, signs.reports)
    return compare(config, owner, ahead if reports else view.positions, admin)


def compare(
    config: SinkConfig, owner: Owner | None, positions: Mapping[TopicPartition, Position], admin: cluster.KafkaAdmin
) -> SinkOffsets:
    """Look at Kafka alone, and hold what the ledger said against it."""
    names = list(config.topics) if config.topics_regex is None else matching_topics(admin, config.topics_regex)
    topics = cluster.find_topics(admin, {*names, *(where.topic for where in positions)})
    seen = partitions_in(admin, topics)
    starts = _starts(config, owner, positions, {where: at for where, at in seen.items() if where.topic in names})
    partitions = tuple(
        PartitionOffsets(
            where,
            quoted(table_for(where.topic, config.table_map)),
            positions.get(where),
            seen.get(where),
            starts.get(where),
            read=where.topic in names,
        )
        for where in sorted({*positions, *seen})
    )
    shown = {each.where.topic for each in partitions}
    return SinkOffsets(config.name, owner, partitions, tuple(name for name in names if name not in shown))


def select(found: SinkOffsets, topic: str | None, partition: int | None) -> list[PartitionOffsets]:
    """The partitions of a topic, or one of them, or all. Raises ConfigError for what the sink does not have."""
    topics = sorted({each.where.topic for each in found.partitions})
    if topic is not None and topic not in topics:
        near = difflib.get_close_matches(topic, topics, n=3) or topics
        raise ConfigError(
            f"Sink {found.sink} has no topic {topic}.",
            where="--topic",
            next_step=f"Name one of: {', '.join(near)}." if near else "Neither Kafka nor the ledger has any.",
        )
    if topic is None and partition is not None and len(topics) != 1:
        raise ConfigError(
            f"Partition {partition} of which topic? The sink has {len(topics)}.",
            where="--partition",
            next_step=f"Add --topic: {', '.join(topics)}." if topics else "Make the topic first.",
        )
    chosen = [each for each in found.partitions if topic in (None, each.where.topic)]
    kept = [each for each in chosen if partition in (None, each.where.partition)]
    if chosen and not kept:
        raise ConfigError(
            f"Topic {chosen[0].where.topic} has no partition {partition}.",
            where="--partition",
            next_step=f"Name one of: {', '.join(str(each.where.partition) for each in chosen)}.",
        )
    return kept


def _starts(
    config: SinkConfig,
    owner: Owner | None,
    positions: Mapping[TopicPartition, Position],
    seen: Mapping[TopicPartition, KafkaPartition],
) -> dict[TopicPartition, int]:
    """Where the next run goes on: the ledger's position where Kafka can continue, else what a claim would insert."""
    first_claim = owner is None or not owner.claimed
    added = missing_positions(positions, seen, first_claim=first_claim, first_offset=config.first_offset)
    able = {w: p for w, p in positions.items() if w in seen and state_of(p, seen[w]) in ("ok", "expired")}
    return {where: position.next_offset for where, position in {**able, **added}.items()}
