"""What one run of an export did, as plain values: the last line that a run writes to stdout.

Not for the status of an export that runs (`observer`), nor for its batches one by one (`firn.exports.history`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from firn.exports.published import PublishedBatch


@dataclass
class SourceProgress:
    """What one run published of one source. rows: letters included; last_batch: the newest one, 0 before the first."""

    source: str
    topic: str
    batches: int = 0
    rows: int = 0
    letters: int = 0
    last_batch: int = 0


@dataclass
class ExportReport:
    """Totals of one run, and each source's part of it.

    moves: transactions that moved changes into an outbox; rows: of the outbox that were published, letters: those of
    them that became dead letters; tombstones: messages without a value; bytes: of keys and values.
    """

    export: str
    epoch: int = 0
    moves: int = 0
    batches: int = 0
    rows: int = 0
    letters: int = 0
    tombstones: int = 0
    bytes: int = 0
    seconds: float = 0.0
    sources: list[SourceProgress] = field(default_factory=list)

    def add(self, source: str, topic: str, published: PublishedBatch) -> None:
        """Count a batch that is committed in Kafka."""
        self.batches += 1
        self.rows += published.rows
        self.letters += published.letters
        self.tombstones += published.tombstones
        self.bytes += published.bytes
        progress = self._progress(source, topic)
        progress.batches += 1
        progress.rows += published.rows
        progress.letters += published.letters
        progress.last_batch = max(progress.last_batch, published.batch)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def _progress(self, source: str, topic: str) -> SourceProgress:
        for each in self.sources:
            if each.source == source:
                return each
        self.sources.append(SourceProgress(source, topic))
        return self.sources[-1]
