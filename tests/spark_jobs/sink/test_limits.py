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
    assert batch.records == 1000


def test_large_records_fill_it_by_bytes_and_one_always_fits() -> None:
    batch = limit()
    batch.observe(10, 5_000)
    assert batch.records == 20
    batch = limit()
    batch.observe(1, 1_000_000)
    assert batch.records == 1


def test_larger_records_count_at_once_and_smaller_ones_bit_by_bit() -> None:
    batch = limit()
    batch.observe(100, 1_000)
    assert batch.records == 1_000
    batch.observe(100, 10_000)
    assert batch.records == 100
    batch.observe(100, 1_000)
    assert 100 < batch.records < 120
    for _ in range(50):
        batch.observe(100, 1_000)
    assert batch.records > 900


def test_a_batch_begins_when_the_buffer_is_full_by_count_or_by_bytes() -> None:
    batch = limit(waits=True)
    assert batch.waiting == 100
    batch.observe(10, 1_000)
    assert batch.waiting == 20
    assert limit().waiting == 1


def test_a_batch_without_rows_says_nothing_about_sizes() -> None:
    batch = limit()
    batch.observe(0, 0)
    assert (batch.records, batch.waiting) == (1000, 1)


def test_a_range_has_its_share_of_a_batchs_bytes() -> None:
    assert [limit().range_bytes(share) for share in (1.0, 0.25, 0.0)] == [10_000, 2_500, 1]
