"""The number of records in a batch follows the size that records were seen to have."""

from __future__ import annotations

from firn.connector.config import BufferConfig, SinkConfig
from spark_jobs.sink.limits import BatchLimit


def limit(*, waits: bool = False) -> BatchLimit:
    buffer = BufferConfig(records=100, bytes=2_000)
    return BatchLimit(SinkConfig("s", batch_records=1000, batch_bytes=10_000, buffer=buffer), waits=waits)


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
    batch.observe(100, 1_500)  # 666 fit where 1000 are planned
    assert not batch.outgrown()
    batch.observe(100, 10_000)
    assert batch.outgrown()
    batch.settle()
    assert not batch.outgrown()
    for _ in range(9):
        batch.observe(100, 1_000)  # small again: the limit may rise
    assert batch.outgrown()


def test_bursts_of_large_records_do_not_make_the_limit_swing() -> None:
    batch, claims = limit(), 0
    for number in range(100):
        batch.observe(100, 100_000 if number % 4 == 3 else 1_000)
        if batch.outgrown():
            batch.settle()
            claims += 1
    assert claims <= 2


def test_a_batch_begins_when_the_buffer_is_full_by_count_or_by_bytes() -> None:
    batch = limit(waits=True)
    assert batch.waiting == 100
    batch.observe(10, 1_000)
    assert batch.outgrown()
    batch.settle()
    assert batch.waiting == 20
    assert limit().waiting == 1


def test_a_batch_without_rows_says_nothing_about_sizes() -> None:
    batch = limit()
    batch.observe(0, 0)
    assert batch.unknown
