"""The verdict of a soak names every way in which records can be doubled, lost or counted wrongly."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest

from firn.kafka.partitions import TopicPartition
from tests.soak.traffic import Acknowledged
from tests.soak.verdict import Found, Verdict

WHERE = TopicPartition("orders", 0)
# Offsets 0 to 9: 2 is malformed, 5 a tombstone.
SENT = Acknowledged(good=8, amount=800, tombstones=1, malformed={2}, end=10)
FOUND = Found(
    committed=10,
    end=10,
    rows=9,
    offsets=9,
    last=9,
    good=8,
    sequences=8,
    amount=800,
    holes=frozenset({2}),
    letters=Counter({2: 1}),
)


def verdict(drained: bool = True, **changed: Any) -> Verdict:
    made = Verdict()
    made.judge(WHERE, dataclasses.replace(FOUND, **changed), SENT, drained=drained)
    return made


def test_everything_once_is_clean() -> None:
    assert verdict() == Verdict(rows=9, amount=800, letters=1)


@pytest.mark.parametrize(
    ("changed", "duplicates", "losses", "words"),
    [
        ({"rows": 10, "good": 9}, 1, 0, "there again"),
        ({"letters": Counter({2: 2})}, 1, 0, "there again"),
        ({"letters": Counter({2: 1, 4: 1})}, 1, 0, "with a row"),
        ({"holes": frozenset({2, 4}), "rows": 8, "offsets": 8}, 0, 1, "the first is 4"),
        ({"letters": Counter()}, 0, 1, "the first is 2"),
        ({"first": 1, "rows": 8, "offsets": 8}, 0, 1, "the first is 0"),
        ({"last": 8, "rows": 8, "offsets": 8}, 0, 1, "the first is 9"),
        ({"rows": 0, "offsets": 0, "last": -1, "holes": frozenset()}, 0, 9, "neither row nor letter"),
        ({"holes": frozenset({2, 4}), "letters": Counter({2: 1, 4: 1})}, 0, 0, "records that were good"),
        ({"committed": 8}, 0, 0, "not committed"),
        ({"committed": 8, "last": 7}, 0, 0, "the ledger, and Kafka's end: 8 and 10"),
        ({"end": 11, "committed": 11}, 0, 1, "Kafka's end, and acknowledged: 11 and 10"),
        ({"astray": 1}, 0, 0, "do not follow"),
        ({"sequences": 7}, 0, 0, "sequence numbers, and good records"),
        ({"good": 9}, 0, 0, "rows with content"),
        ({"amount": 799}, 0, 0, "sums of amounts: 799 and 800"),
    ],
)
def test_each_fault_is_counted_and_named(changed: dict[str, Any], duplicates: int, losses: int, words: str) -> None:
    found = verdict(**changed)
    assert (found.duplicates, found.losses) == (duplicates, losses)
    assert any(words in fault for fault in found.faults), found.faults


def test_before_the_end_only_what_is_committed_counts() -> None:
    behind = {"committed": 8, "last": 7, "rows": 7, "offsets": 7, "good": 6, "sequences": 6, "amount": 600}
    assert verdict(drained=False, **behind).faults == []
    assert verdict(drained=False, **behind | {"holes": frozenset({2, 3})}).losses == 1
