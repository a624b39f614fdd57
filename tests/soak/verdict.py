"""The verdict of a soak: what was found of each partition against what Kafka acknowledged. Pure; `evidence` asks.

Each offset below the committed position must be one row or one dead letter and not both; where the soak has drained,
counts and sums must equal those of the producer's acknowledged records, and the ledger Kafka's end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from firn.kafka.partitions import TopicPartition
from tests.soak.traffic import Acknowledged


@dataclass(frozen=True)
class Found:
    """What is there of one partition. `holes` are offsets without a row between the first row and the last.

    `rows` counts rows, `offsets` their distinct offsets, `good` those with a sequence number, `sequences` the distinct
    ones, `astray` those that do not follow the one before; `letters` has each record's dead letters.
    """

    committed: int
    end: int
    rows: int = 0
    offsets: int = 0
    first: int = 0
    last: int = -1
    good: int = 0
    sequences: int = 0
    astray: int = 0
    amount: int = 0
    holes: frozenset[int] = frozenset()
    letters: Counter[int] = field(default_factory=Counter)


@dataclass
class Verdict:
    """Counts, and a sentence for everything that is wrong."""

    rows: int = 0
    amount: int = 0
    letters: int = 0
    duplicates: int = 0
    losses: int = 0
    faults: list[str] = field(default_factory=list)

    def judge(self, where: TopicPartition, found: Found, sent: Acknowledged, *, drained: bool) -> None:
        """Take one partition into the verdict."""
        without_row = found.holes | set(range(found.first)) | set(range(found.last + 1, found.committed))
        lost, both = without_row - set(found.letters), set(found.letters) - without_row
        again = found.rows - found.offsets + found.letters.total() - len(found.letters)
        self.rows += found.rows
        self.amount += found.amount
        self.letters += found.letters.total()
        self.duplicates += again + len(both & set(range(found.committed)))
        self.losses += len(lost)
        wrong = [
            (again, "rows or letters are there again"),
            (len(lost), f"offsets are neither row nor letter, the first is {min(lost, default=None)}"),
            (len(both), f"letters are of records with a row, or not committed, the first is {min(both, default=None)}"),
            (max(0, found.last + 1 - found.committed), "offsets have rows and are not committed"),
            (len(set(found.letters) - sent.malformed), "letters are of records that were good"),
            (found.astray, "sequence numbers do not follow the one before"),
        ]
        self.faults += [f"{where}: {count} {what}" for count, what in wrong if count]
        if drained:
            self.faults += [f"{where}: {fault}" for fault in _differences(found, sent)]


def _differences(found: Found, sent: Acknowledged) -> Iterable[str]:
    """What should be equal in the end, and is not."""
    pairs = [
        ("Kafka's end, and acknowledged", found.end, sent.end),
        ("the ledger, and Kafka's end", found.committed, found.end),
        ("dead letters, and malformed records", len(found.letters), len(sent.malformed)),
        ("rows, and acknowledged good records and tombstones", found.rows, sent.good + sent.tombstones),
        ("rows with content, and good records", found.good, sent.good),
        ("sequence numbers, and good records", found.sequences, sent.good),
        ("sums of amounts", found.amount, sent.amount),
    ]
    return (f"{what}: {left} and {right}" for what, left, right in pairs if left != right)
