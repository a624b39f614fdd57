"""What the events say that stand for many: sums, in a sentence for a person."""

from __future__ import annotations

from firn.supervisor.reporter import EventAggregator


def test_one_is_not_told_as_many() -> None:
    aggregator = EventAggregator()
    aggregator.add("committed", {"rows": 1})
    aggregator.add("dead_letters", {"records": 1, "letters": 0})
    assert [sentence for _, sentence, _ in aggregator.due(0)] == [
        "1 record committed in 1 batch",
        "1 record left out, 0 dead letters published",
    ]


def test_what_comes_within_the_time_is_summed_up_and_told_later() -> None:
    aggregator = EventAggregator(30)
    aggregator.add("committed", {"rows": 1, "schema_ids": [1], "batch": "1-0"})
    assert len(list(aggregator.due(0))) == 1
    for number in (1, 2):
        aggregator.add("committed", {"rows": 10, "schema_ids": [number], "batch": f"1-{number}"})
    assert list(aggregator.due(29)) == []
    ((_, sentence, data),) = aggregator.due(30)
    assert sentence == "20 records committed in 2 batches"
    assert (data["schema_ids"], data["batch"], data["events"]) == ([1, 2], "1-2", 2)
