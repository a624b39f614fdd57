"""Partitions as values: which one, and what the brokers hold of it. Not for asking brokers (`cluster`)."""

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
