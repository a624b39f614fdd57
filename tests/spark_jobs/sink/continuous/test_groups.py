"""Groups of partitions: who is in which, and which of them have to start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firn.kafka.partitions import TopicPartition
from spark_jobs.sink.continuous.groups import Groups

PARTITIONS = [TopicPartition("t", number) for number in range(4)]


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 40)), st.integers(0, 10**9), min_size=1
    ),
    st.integers(1, 8),
)
def test_each_partition_is_in_one_group_and_there_are_no_more_groups_than_slots(
    backlog: dict[TopicPartition, int], most: int
) -> None:
    groups = Groups.balanced(backlog, most).groups
    assert sorted(where for each in groups for where in each.partitions) == sorted(backlog)
    assert 1 <= len(groups) <= most


def test_three_hundred_partitions_on_two_slots_are_two_groups_of_about_the_same_size() -> None:
    groups = Groups.balanced({TopicPartition("t", number): 0 for number in range(300)}, 2).groups
    assert [len(each.partitions) for each in groups] == [150, 150]


def test_a_partition_with_a_long_backlog_is_with_few_others() -> None:
    backlog = dict.fromkeys(PARTITIONS, 10) | {PARTITIONS[2]: 1000}
    groups = Groups.balanced(backlog, 2).groups
    assert sorted(len(each.partitions) for each in groups) == [1, 3]


def test_a_group_starts_when_records_wait_and_once_at_a_time() -> None:
    groups = Groups.balanced(dict.fromkeys(PARTITIONS, 0), 2)
    assert groups.due(set()) == []
    (due,) = groups.due({PARTITIONS[0]})
    assert PARTITIONS[0] in due.partitions
    groups.started(due, 1.0)
    assert groups.due({PARTITIONS[0]}) == []
    assert groups.running == [due]


def test_all_groups_of_a_run_that_goes_on_start_before_their_first_record() -> None:
    groups = Groups.balanced(dict.fromkeys(PARTITIONS, 0), 2, at_once=True)
    assert groups.due(set()) == groups.groups
    for group in groups.groups:
        groups.started(group, 1.0)
        groups.ended(group, again=False)
    assert groups.due(set()) == []


def test_a_group_that_ended_idle_starts_again_with_its_next_record() -> None:
    groups = Groups.balanced(dict.fromkeys(PARTITIONS, 0), 1)
    (group,) = groups.due({PARTITIONS[0]})
    groups.started(group, 1.0)
    groups.ended(group, again=False)
    assert groups.due(set()) == []
    assert groups.due({PARTITIONS[3]}) == [group]
    groups.started(group, 2.0)
    assert group.attempt == 2


def test_a_group_whose_task_left_work_starts_again_at_once() -> None:
    groups = Groups.balanced(dict.fromkeys(PARTITIONS, 0), 1)
    (group,) = groups.due({PARTITIONS[0]})
    groups.started(group, 1.0)
    groups.ended(group, again=True)
    assert groups.due(set()) == [group]
    groups.started(group, 1.0)
    groups.ended(group, again=False)
    assert groups.due(set()) == []


def test_a_task_that_says_nothing_for_long_is_silent() -> None:
    groups = Groups.balanced(dict.fromkeys(PARTITIONS, 1), 2)
    first, second = groups.groups
    for each in (first, second):
        groups.started(each, 10.0)
    groups.heard([second.attempt], 60.0)
    assert groups.silent(65.0, 60.0) == []
    assert groups.silent(75.0, 60.0) == [first]
    groups.ended(first, again=False)
    assert groups.silent(75.0, 60.0) == []
