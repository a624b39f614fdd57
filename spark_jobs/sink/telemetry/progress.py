"""How far a sink is: committed positions from the ledger against Kafka's end offsets. Not whether a process lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.plural import counted

if TYPE_CHECKING:  # flows read reports without loading Spark
    from spark_jobs.sink.batch import Committed


TOLD = 8
"""So many partitions are told apart in a line of the log."""


def waiting(committed: Mapping[TopicPartition, int], kafka: Mapping[TopicPartition, KafkaPartition]) -> int:
    """Records above the committed positions, at most: gaps count too."""
    return sum(max(0, kafka[where].latest - at) for where, at in committed.items() if where in kafka)


def spoken_start(committed: Mapping[TopicPartition, int], kafka: Mapping[TopicPartition, KafkaPartition]) -> str:
    """From where a run reads and how many records wait there, at most (gaps count); the longest backlogs first."""
    waiting = {where: max(0, kafka[where].latest - at) for where, at in committed.items() if where in kafka}
    first = sorted(waiting, key=lambda where: (-waiting[where], where))[:TOLD]
    told = [f"{where} from {committed[where]} ({waiting[where]} waiting)" for where in first]
    if len(waiting) > TOLD:
        told.append(f"{len(waiting) - TOLD} more")
    head = f"{counted(len(waiting), 'partition')}, {counted(sum(waiting.values()), 'record')} waiting"
    return f"{head}: {', '.join(told)}" if told else head


@dataclass(frozen=True)
class PartitionProgress:
    """One partition: the next offset to commit, Kafka's end offset, and the records between them."""

    topic: str
    partition: int
    table: str
    next_offset: int
    end_offset: int
    lag: int


@dataclass
class RunReport:
    """What one run did: totals of its commits and, at its end, the progress of each partition.

    bad_records: left out of the tables by errors.tolerance=all; dead_letters: how many of them were published;
    reasons: how many for each reason. schema_changes: statements that changed tables.
    """

    sink: str
    epoch: int = 0
    batches: int = 0
    records: int = 0
    bad_records: int = 0
    dead_letters: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    schema_changes: int = 0
    staged_bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    tables: dict[str, str] = field(default_factory=dict)
    partitions: list[PartitionProgress] = field(default_factory=list)

    def add(self, batch: Committed) -> None:
        """Count one commit."""
        self.batches += 1
        self.records += batch.rows
        self.bad_records += batch.bad_records
        self.dead_letters += batch.dead_letters
        for each in batch.tolerated:
            for reason, count in each.reasons.items():
                self.reasons[reason] = self.reasons.get(reason, 0) + count
        self.staged_bytes += batch.size
        self.files += batch.files

    def measure(self, committed: Mapping[TopicPartition, int], kafka: Mapping[TopicPartition, KafkaPartition]) -> None:
        """Take the positions of the ledger and of Kafka at the end of the run."""
        self.partitions = [
            PartitionProgress(
                where.topic,
                where.partition,
                self.tables.get(where.topic, ""),
                committed.get(where, seen.earliest),
                seen.latest,
                max(0, seen.latest - committed.get(where, seen.earliest)),
            )
            for where, seen in sorted(kafka.items())
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)
