"""What is said of a sink in Kafka: read as it was written, and nothing else taken for it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.kafka.group_documents import LIMIT, GroupDocuments
from firn.kafka.partitions import TopicPartition
from firn.sinks.signs import (
    Rates,
    Sign,
    SignReader,
    SignWriter,
    TaskReport,
    read_report,
    read_sign,
    report_document,
    say_requested,
    sign_text,
)
from tests.support.kafka import Topic

NUMBERS = st.integers(0, 2**63 - 1)
TIMES = st.integers(0, 4_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
TENTHS = st.integers(0, 10**9).map(lambda tenths: tenths / 10)
RATES = st.none() | st.builds(Rates, TENTHS, TENTHS)
SIGNS = st.builds(Sign, NUMBERS, NUMBERS, TIMES, NUMBERS, idle=st.booleans(), ended=st.booleans(), rates=RATES)
REPORTS = st.builds(TaskReport, *[NUMBERS] * 3, st.none() | st.text(max_size=50), *[NUMBERS] * 4)
FOREIGN = [
    "",
    "{}",
    "1:abc:xyz",
    "[1]",
    '{"e": "x"}',
    '{"e": 1, "n": 2}',
    '{"e": 1e999, "n": 1, "at": 5}',
    '{"e": 1, "n": 1, "at": 5, "r": [1]}',
]


@given(SIGNS)
def test_a_sign_is_read_as_it_was_written(sign: Sign) -> None:
    assert read_sign(sign_text(sign)) == sign
    assert len(sign_text(sign)) < LIMIT


@given(REPORTS)
def test_a_report_is_read_as_it_was_written(report: TaskReport) -> None:
    document = report_document(report)
    assert read_report(document) == report
    assert document.offset == report.next_offset
    assert len(document.metadata) < LIMIT


@pytest.mark.parametrize("text", FOREIGN)
def test_what_somebody_else_wrote_is_no_sign_and_no_report(text: str) -> None:
    assert read_sign(text) is None
    assert read_report((7, text)) is None


@given(st.text())
def test_no_text_breaks_a_reader(text: str) -> None:
    read_sign(text)
    read_report((0, text))


@pytest.fixture
def topic(settings) -> Topic:
    return Topic(settings, "signs")


@pytest.mark.stack
def test_driver_tasks_and_people_are_heard_apart(topic: Topic) -> None:
    groups = [f"firn-{purpose}-{uuid.uuid4().hex[:8]}" for purpose in ("sign", "tasks", "request")]
    reader, first = SignReader(topic.admin, *groups), TopicPartition(topic.name, 0)
    nothing = reader.read()
    assert (nothing.sign, nothing.reports, nothing.requested) == (None, {}, None)

    writer = SignWriter(topic.client, groups[0])
    assert writer.newest_epoch() == 0
    assert writer.write(first, 4, moves=2, idle=True)
    report = TaskReport(4, 1, next_offset=17, token="1:16", rows=16)
    GroupDocuments(topic.client, groups[1]).write({first: report_document(report)})
    seen = reader.read()
    assert seen.reports == {first: report}
    assert seen.sign == replace(seen.sign, epoch=4, counter=1, moves=2, idle=True, ended=False)
    assert seen.requested is None

    writer.write(first, 4, moves=2)
    say_requested(topic.client, groups[2], first)
    again = reader.read()
    assert again.sign.counter == 2
    assert again.requested
    say_requested(topic.client, groups[2], first)
    assert reader.read().requested != again.requested


@pytest.mark.stack
def test_of_signs_at_several_partitions_the_one_of_the_newest_epoch_counts(topic: Topic) -> None:
    group = f"firn-sign-{uuid.uuid4().hex[:8]}"
    for partition, epoch in ((0, 3), (1, 2)):  # the sink's topics changed between two runs
        SignWriter(topic.client, group).write(TopicPartition(topic.name, partition), epoch, moves=0)
    reader = SignReader(topic.admin, group, f"{group}-t", f"{group}-r")
    assert reader.read().sign.epoch == 3
    assert SignWriter(topic.client, group).newest_epoch() == 3
