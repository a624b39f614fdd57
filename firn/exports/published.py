"""What became of one batch in Kafka: a plain value that travels from tasks to the marker and into the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class PublishedBatch:
    """A batch that is committed in Kafka.

    rows: of the outbox; letters: those of them that became dead letters; tombstones: messages without a value beside
    the rows' own; bytes: of keys and values. offsets: by topic and partition the first and the last one. Times are
    UTC; published_at is the publisher's clock.
    """

    batch: int
    shard: int
    rows: int
    letters: int = 0
    tombstones: int = 0
    bytes: int = 0
    offsets: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)
    moved_at: datetime | None = None
    published_at: datetime | None = None

    @property
    def document(self) -> dict[str, Any]:
        """Plain values, for JSON; `read_published` reads them."""
        offsets = {topic: {str(p): list(span) for p, span in each.items()} for topic, each in self.offsets.items()}
        times = {name: at and at.isoformat() for name in ("moved_at", "published_at") if (at := getattr(self, name))}
        return {**asdict(self), "offsets": offsets, "moved_at": None, "published_at": None, **times}


def read_published(document: Mapping[str, Any]) -> PublishedBatch:
    """The batch of a document. Raises KeyError, TypeError or ValueError for what is none."""
    counts = {name: int(document[name]) for name in ("batch", "shard", "rows", "letters", "tombstones", "bytes")}
    offsets = {
        str(topic): {int(number): (int(span[0]), int(span[1])) for number, span in partitions.items()}
        for topic, partitions in document["offsets"].items()
    }
    return PublishedBatch(
        **counts, offsets=offsets, moved_at=_time(document["moved_at"]), published_at=_time(document["published_at"])
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
