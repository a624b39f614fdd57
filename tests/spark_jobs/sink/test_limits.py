"""The number of records in a batch follows the size that records were seen to have."""

from __future__ import annotations

from firn.connector.config import SinkConfig
from spark_jobs.sink.limits import BatchLimit


def limit(**config: int) -> BatchLimit:
    return BatchLimit(SinkConfig("s", **({"batch_records": 1000, "batch_bytes": 10_000} | config)))  # type: ignore[arg-type]


def test_small_records_fill_a_batch_by_count() -> None:
    batch = limit()
    batch.observe(100, 100)
    batch.settle()
    assert batch.records == 1000
    assert not batch.outgrown()


def test_large_records_fill_it_by_bytes_and_one_always_fits() -> None:
    batch = limit()
    batch.observe(10, 5_000)
    batch.settle()
    assert batch.records == 20
    batch = limit()
    batch.observe(1, 1_000_000)
    batch.settle()
    assert batch.records == 1


def test_the_limit_changes_only_when_it_is_far_off() -> None:
    batch = limit()
    batch.observe(100, 1_000)
    batch.settle()
    batch.observe(100, 2_500)  # 17 bytes on average: 588 fit where 1000 are planned
    assert not batch.outgrown()
    batch.observe(100, 10_000)
    assert batch.outgrown()
    batch.settle()
    assert not batch.outgrown()
    for _ in range(9):
        batch.observe(100, 1_000)  # small again: the limit may rise
    assert batch.outgrown()


def test_a_batch_without_rows_says_nothing_about_sizes() -> None:
    batch = limit()
    batch.observe(0, 0)
    assert batch.unknown
