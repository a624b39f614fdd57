"""Partitions as values: which one, what the brokers hold of it, and a range of its offsets.

Plain data, for whoever plans and reports. Not for asking brokers (`cluster`) nor for reading (`ranges`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka's tools print it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class KafkaPartition:
    """A partition as the brokers see it: offsets [earliest, latest) are there.

    stable: with `isolation.level=read_committed`, where the first open transaction begins; behind it nothing is read
    until that ends. None where everything is read.
    """

    topic_id: str
    earliest: int
    latest: int
    stable: int | None = None

    @property
    def readable(self) -> int:
        """The end of what can be read now."""
        return self.latest if self.stable is None else self.stable

    def blocked(self, position: int) -> bool:
        """Whether records are there and an open transaction keeps all of them from being read."""
        return self.latest > position >= self.readable


@dataclass(frozen=True)
class OffsetRange:
    """Offsets [start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets {self.start} to {self.end - 1}"

    def __len__(self) -> int:
        return max(0, self.end - self.start)
