"""What one run of a sink did and how far it came, as plain values: the last line that a run writes to stdout.

Not for the status of a sink that runs (`status`), nor for the archive that goes with a bug report (`report_bundle`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Totals


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

    def add(self, totals: Totals, reasons: Mapping[str, int], *, staged_bytes: int, files: int) -> None:
        """Count one commit: what it added to the totals, and what it came from. reasons: of its bad records."""
        self.batches += totals.batches
        self.records += totals.records
        self.bad_records += totals.bad_records
        self.dead_letters += totals.dead_letters
        for reason, count in reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        self.staged_bytes += staged_bytes
        self.files += files

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
