"""Which offsets the next batch reads, when it is worth a batch, how it is shared among tasks, and how large it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.connector.config import BufferConfig, SinkConfig
from firn.errors import TransientError
from firn.kafka.partitions import OffsetRange, TopicPartition
from spark_jobs.sink.planner import BatchLimit, Planner, cut, grouped

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
BUFFER = BufferConfig(records=10, seconds=120, bytes=5_000_000)


class Topic:
    """Kafka's end offsets, and a clock."""

    def __init__(self, **ends: int) -> None:
        self.ends = {TopicPartition("t", int(name[1:])): end for name, end in ends.items()}
        self.now = 0.0
        self.targets: dict[TopicPartition, int] = {}

    def __call__(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {where: self.ends[where] for where in partitions}

    def planner(self, buffer: BufferConfig | None = BUFFER, batch_records: int = 1_000) -> Planner:
        config = SinkConfig("s", buffer=buffer or BufferConfig(), batch_records=batch_records)
        return Planner(self, BatchLimit(config, waits=buffer is not None), buffer, self.targets, lambda: self.now)


def spans(ranges: list[OffsetRange]) -> dict[int, tuple[int, int]]:
    return {each.partition: (each.start, each.end) for each in ranges}


def test_a_batch_reads_from_the_positions_to_the_ends() -> None:
    assert spans(Topic(p0=30, p1=7).planner().next({P0: 10, P1: 7})) == {0: (10, 30)}


def test_the_first_batch_waits_for_nothing_and_the_next_for_a_full_buffer_or_its_time() -> None:
    topic = Topic(p0=1)
    planner = topic.planner()
    assert spans(planner.next({P0: 0})) == {0: (0, 1)}
    topic.ends[P0], topic.now = 4, 100.0
    assert planner.next({P0: 1}) == []
    topic.ends[P0] = 11
    assert spans(planner.next({P0: 1})) == {0: (1, 11)}
    topic.ends[P0], topic.now = 12, 219.0
    assert planner.next({P0: 11}) == []
    topic.now = 220.0
    assert spans(planner.next({P0: 11})) == {0: (11, 12)}


def test_a_run_that_takes_what_is_available_ends_where_it_began_to_look() -> None:
    topic = Topic(p0=5, p1=0)
    planner = topic.planner(buffer=None, batch_records=3)
    assert not planner.done({P0: 0, P1: 0})
    assert spans(planner.next({P0: 0, P1: 0})) == {0: (0, 3)}
    topic.ends = {P0: 50, P1: 50}
    assert spans(planner.next({P0: 3, P1: 0})) == {0: (3, 5)}
    assert planner.done({P0: 5, P1: 0})
    assert planner.next({P0: 5, P1: 0}) == []


def test_such_a_run_keeps_its_end_when_it_claims_again_and_takes_new_partitions_whole() -> None:
    topic = Topic(p0=5)
    topic.planner(buffer=None).next({P0: 0})
    topic.ends = {P0: 50, P1: 7}
    again = topic.planner(buffer=None)
    assert not again.done({P0: 5, P1: 0})
    assert spans(again.next({P0: 2, P1: 0})) == {0: (2, 5), 1: (0, 7)}
    assert again.done({P0: 5, P1: 7})


def test_where_not_every_partition_gets_an_offset_the_longest_backlogs_come_first() -> None:
    backlog = [OffsetRange("t", number, 0, length) for number, length in enumerate((1, 9, 3, 8))]
    assert spans(cut(backlog, 2)) == {1: (0, 1), 3: (0, 1)}


def test_a_fault_of_kafka_is_the_callers_and_no_batch_is_counted() -> None:
    topic = Topic(p0=20)

    def away(_partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        raise TransientError("Kafka does not answer")

    planner = Planner(away, BatchLimit(SinkConfig("s"), waits=True), BUFFER, {}, lambda: topic.now)
    with pytest.raises(TransientError):
        planner.next({P0: 0})


@given(
    st.lists(st.tuples(st.integers(0, 1_000), st.integers(1, 10_000)), min_size=1, max_size=40), st.integers(1, 20_000)
)
def test_a_cut_takes_the_beginnings_as_many_as_fit_and_starves_nobody(
    backlogs: list[tuple[int, int]], records: int
) -> None:
    backlog = [OffsetRange("t", n, start, start + length) for n, (start, length) in enumerate(backlogs)]
    ranges = cut(backlog, records)
    assert sum(map(len, ranges)) == min(records, sum(map(len, backlog)))
    by_partition = {each.partition: each for each in ranges}
    for whole in backlog:
        part = by_partition.get(whole.partition)
        assert part is None or (part.start == whole.start and whole.start < part.end <= whole.end)
    if records >= len(backlog):
        assert len(ranges) == len(backlog)


@given(st.lists(st.integers(1, 1_000), max_size=30), st.integers(1, 8))
def test_groups_hold_each_work_once_and_are_about_equal(sizes: list[int], count: int) -> None:
    groups = grouped(list(enumerate(sizes)), count, lambda work: work[1])
    assert sorted(work for group in groups for work in group) == list(enumerate(sizes))
    assert len(groups) == min(count, len(sizes))
    totals = [sum(size for _, size in group) for group in groups]
    if sizes:
        assert max(totals) - min(totals) <= max(sizes)


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
