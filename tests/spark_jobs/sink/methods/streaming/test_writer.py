"""The writer of a channel with the official SDK against the local service: tasks that come late, channels that go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from firn.channels.client import ChannelClient, ClientOptions, OpenChannel
from firn.channels.faults import BackpressureError, ChannelInvalidError
from firn.channels.names import channel_name
from firn.channels.recorded import RecordedChannel
from firn.connector.config import SinkConfig
from firn.errors import ClaimAgainError, FencedError
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import TopicPartition
from firn.ledger.positions import Standing
from firn.ledger.table import LedgerTable
from firn.sinks import channel_folding
from firn.sinks.context import SinkContext
from firn.snowflake.columns import METADATA_COLUMN
from firn.snowflake.faults import MissingObjectError
from firn_local.snowflake.streaming.faults import Fault, slow, stale_token
from firn_local.snowflake.streaming.row_loader import Rejection
from spark_jobs.sink.methods.base import ContinuousWriter, PartitionRange, RefusedRowsError
from spark_jobs.sink.methods.streaming.tasks import StreamingTasks
from spark_jobs.sink.methods.streaming.writer import MOST_REOPENINGS
from spark_jobs.sink.values.table_loaders import ColumnsLoader, TableLoader, VariantLoader
from tests.firn_local.snowflake.streaming.streaming_server import KEY, Streaming, wait_until
from tests.support.streaming import streaming_login, streaming_settings

EPOCH, GENERATION, LEDGER_ID, SINK, PIPE = 7, 3, "1d", "s", "T-STREAMING"
P0 = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streaming]:
    server = Streaming(tmp_path_factory.mktemp("streaming") / "data")
    yield server
    server.close()


@dataclass
class Sink:
    """A sink's channel of one partition, and what its ledger says to tasks."""

    service: Streaming
    context: SinkContext
    options: ClientOptions
    channels: dict[TopicPartition, RecordedChannel] = field(default_factory=dict)
    pipes: dict[str, str] = field(default_factory=lambda: {"T": PIPE})
    standing: Standing = field(default_factory=lambda: Standing(EPOCH, GENERATION, {P0: 0}))
    asked: int = 0
    tasks: list[StreamingTasks] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.name_of(P0)

    def name_of(self, where: TopicPartition) -> str:
        return channel_name(LEDGER_ID, SINK, where)

    def client(self, pipe: str = PIPE) -> ChannelClient:
        return ChannelClient(self.context.login, self.context.settings, ("D", "PUBLIC", pipe), self.options)

    def claim(self, *, row_errors: int = 0) -> None:
        """Open the channel and remember it, as a claim does."""
        client = self.client()
        seen = client.open(self.name).seen
        self.channels[P0] = RecordedChannel(PIPE, seen.created_ms, seen.token, row_errors)
        client.close(flush=False)

    def writer(self, loader: TableLoader = VariantLoader(), epoch: int = EPOCH) -> ContinuousWriter:  # noqa: B008
        self.tasks.append(StreamingTasks(epoch, LEDGER_ID, GENERATION, self.channels, self.pipes))
        target = PartitionRange(P0, "T", loader, Path(), self.context)
        return self.tasks[-1].writer(target, lambda work: work(None))

    def claim_many(self, wheres: list[TopicPartition]) -> StreamingTasks:
        """Claim these partitions; the tasks that may write them."""
        client = self.client()
        for where in wheres:
            seen = client.open(self.name_of(where)).seen
            self.channels[where] = RecordedChannel(PIPE, seen.created_ms, seen.token, 0)
        client.close(flush=False)
        self.standing = Standing(EPOCH, GENERATION, dict.fromkeys(wheres, 3))
        self.tasks.append(StreamingTasks(EPOCH, LEDGER_ID, GENERATION, self.channels, self.pipes))
        return self.tasks[-1]

    def target(self, where: TopicPartition, loader: TableLoader = VariantLoader()) -> PartitionRange:  # noqa: B008
        return PartitionRange(where, "T", loader, Path(), self.context)

    def offsets(self) -> list[int]:
        return sorted(int(row[0]) for row in self.service.sql("SELECT RECORD_CONTENT:n::INT FROM T"))


@pytest.fixture
def sink(service: Streaming, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    service.sql("CREATE OR REPLACE TABLE T (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
    settings = streaming_settings(service.endpoint.url, service.endpoint.ca_file)
    context = SinkContext(SinkConfig(SINK), settings, KafkaClient(()), None, None, streaming_login(KEY))
    options = ClientOptions(lag_ms=20, memory_mb=1, answer_seconds=2, retry_seconds=2, conflict_seconds=2)
    monkeypatch.setattr(channel_folding, "client_options", lambda _streaming: options)
    made = Sink(service, context, options)

    def look(_table: LedgerTable, _connection: object) -> Standing:
        made.asked += 1
        return made.standing

    monkeypatch.setattr(LedgerTable, "standing", look)
    yield made
    service.endpoint.faults.clear()
    service.endpoint.administration.set(commit_delay=0.02, commit_paused=False)
    for each in made.tasks:
        each.close(flush=False)


def write(writer: ContinuousWriter, offsets: range | list[int], padding: str = "") -> None:
    metadata = pa.array([f'{{"offset":{at}}}' for at in offsets], pa.string())
    content = pa.array([f'{{"n":{at},"p":"{padding}"}}' for at in offsets], pa.string())
    columns: Any = (metadata, content)
    writer.write(np.array(offsets, np.int64), columns, [7])


def durable(writer: ContinuousWriter, next_offset: int) -> None:
    wait_until(lambda: writer.progress().next_offset == next_offset)


def test_rows_become_durable_on_their_own_and_progress_says_how_far(sink: Sink) -> None:
    sink.claim()
    writer = sink.writer()
    write(writer, range(5))
    write(writer, [5, 6, 9])  # markers between them
    durable(writer, 10)
    progress = writer.progress()
    assert (progress.token, progress.rows, progress.unaccounted) == ("3:9", 8, 0)
    assert sink.offsets() == [0, 1, 2, 3, 4, 5, 6, 9]


def test_a_task_opens_its_channels_at_once_and_then_asks_the_ledger_once(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheres = [TopicPartition("orders", number) for number in range(4)]
    tasks, opened = sink.claim_many(wheres), list[str]()
    together, open_channel, look = threading.Barrier(4), ChannelClient.open, LedgerTable.standing

    def open_with_others(client: ChannelClient, name: str) -> OpenChannel:
        together.wait(20)  # broken where one is opened after the other
        found = open_channel(client, name)
        opened.append(name)
        return found

    def look_when_all_are_open(table: LedgerTable, connection: Any) -> Standing:
        assert len(opened) == 4
        return look(table, connection)

    monkeypatch.setattr(ChannelClient, "open", open_with_others)
    monkeypatch.setattr(LedgerTable, "standing", look_when_all_are_open)
    writers = tasks.writers([sink.target(where) for where in wheres], lambda work: work(None))
    assert sink.asked == 1
    assert [writer.position for writer in writers] == [3, 3, 3, 3]
    for at, writer in enumerate(writers):
        write(writer, [10 + at])
    for at, writer in enumerate(writers):
        durable(writer, 11 + at)


def test_where_one_channel_cannot_be_opened_the_task_has_none(sink: Sink) -> None:
    wheres = [TopicPartition("orders", number) for number in range(3)]
    tasks = sink.claim_many(wheres)
    targets = [sink.target(where) for where in wheres]
    gone = Fault("open", status=404, code="ERR_TABLE_DOES_NOT_EXIST", channel=sink.name_of(wheres[1]))
    sink.service.endpoint.faults.add(gone)
    with pytest.raises(MissingObjectError):
        tasks.writers(targets, lambda work: work(None))
    assert sink.asked == 0, "nobody asks for a task that cannot begin"
    assert len(tasks.writers(targets, lambda work: work(None))) == 3, "none of them was left open"


def test_a_table_that_is_not_made_yet_has_a_place_among_others(sink: Sink) -> None:
    wheres = [TopicPartition("orders", number) for number in range(2)]
    tasks = sink.claim_many(wheres)
    unmade = sink.target(wheres[0], ColumnsLoader((METADATA_COLUMN,), exists=False, grow=True))
    first, second = tasks.writers([unmade, sink.target(wheres[1])], lambda work: work(None))
    write(second, [7])
    durable(second, 8)
    assert first.progress().next_offset == 3


def test_a_task_goes_on_behind_the_token_where_the_ledger_is_behind_and_the_other_way_round(sink: Sink) -> None:
    sink.claim()
    first = sink.writer()
    write(first, range(5))
    durable(first, 5)
    assert sink.writer().position == 5
    sink.standing = Standing(EPOCH, GENERATION, {P0: 8})  # markers behind the last row
    again = sink.writer()
    assert again.position == 8
    write(again, range(10))  # rows below are passed over
    durable(again, 10)
    assert sink.offsets() == [0, 1, 2, 3, 4, 8, 9]


def test_a_stale_task_that_opens_the_channel_late_appends_nothing_and_hinders_the_new_one_once(sink: Sink) -> None:
    sink.claim()
    sink.standing = Standing(EPOCH + 1, GENERATION, {P0: 0})
    new = sink.writer(epoch=EPOCH + 1)
    write(new, range(3))
    durable(new, 3)
    with pytest.raises(FencedError):
        sink.writer()
    write(new, range(3, 5))
    with pytest.raises(ChannelInvalidError):  # the late task had opened it
        durable(new, 5)
    new.reopen()
    assert new.position == 3
    write(new, range(3, 5))
    durable(new, 5)
    assert sink.offsets() == [0, 1, 2, 3, 4]


def test_the_ledger_is_asked_after_the_channel_is_open(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    sink.claim()
    order = []
    opened = ChannelClient.open
    monkeypatch.setattr(ChannelClient, "open", lambda *args: (order.append("open"), opened(*args))[1])
    looked = LedgerTable.standing
    monkeypatch.setattr(LedgerTable, "standing", lambda *args: (order.append("ledger"), looked(*args))[1])
    sink.writer().reopen()
    assert order == ["open", "ledger"] * 2


def test_a_task_is_fenced_by_the_one_that_opened_after_it(sink: Sink) -> None:
    sink.claim()
    older = sink.writer()
    write(older, range(3))
    durable(older, 3)
    newer = sink.writer()
    write(older, range(3, 6))
    with pytest.raises(ChannelInvalidError):
        durable(older, 6)
    write(newer, range(3, 6))
    durable(newer, 6)
    assert sink.offsets() == list(range(6))


def test_a_channel_that_somebody_dropped_sends_the_run_back_to_its_claim(sink: Sink) -> None:
    sink.claim()
    writer = sink.writer()
    write(writer, range(3))
    durable(writer, 3)
    sink.client().drop(sink.name)
    with pytest.raises(ChannelInvalidError) as raised:
        durable(writer, 4)
    assert raised.value.code == "ChannelNotFound"
    with pytest.raises(ClaimAgainError, match="was dropped"):
        writer.reopen()
    with pytest.raises(ClaimAgainError, match="was dropped"):
        sink.writer()


def test_a_token_below_the_recorded_one_sends_the_run_back_to_its_claim(sink: Sink) -> None:
    sink.claim()
    recorded = sink.channels[P0]
    sink.channels[P0] = RecordedChannel(PIPE, recorded.created_ms, "3:40", 0)
    with pytest.raises(ClaimAgainError, match="3:40 was recorded"):
        sink.writer()


def test_a_pipe_that_a_user_made_later_sends_the_run_back_to_its_claim(sink: Sink) -> None:
    sink.claim()
    sink.pipes["T"] = "T"
    with pytest.raises(ClaimAgainError, match="through pipe T by now"):
        sink.writer()


def test_a_partition_that_the_claim_does_not_know_is_claimed_first(sink: Sink) -> None:
    with pytest.raises(ClaimAgainError):
        sink.writer()
    sink.claim()
    sink.standing = Standing(EPOCH, GENERATION, {})
    with pytest.raises(ClaimAgainError):
        sink.writer()


def test_a_generation_that_a_reset_raised_ends_the_task_and_makes_older_tokens_count_as_none(sink: Sink) -> None:
    sink.claim()
    writer = sink.writer()
    write(writer, range(5))
    durable(writer, 5)
    sink.standing = Standing(EPOCH, GENERATION + 1, {P0: 2})
    with pytest.raises(ClaimAgainError):
        writer.reopen()
    tasks = StreamingTasks(EPOCH, LEDGER_ID, GENERATION + 1, sink.channels, sink.pipes)
    sink.tasks.append(tasks)
    target = PartitionRange(P0, "T", VariantLoader(), Path(), sink.context)
    again = tasks.writer(target, lambda work: work(None))
    assert again.position == 2
    write(again, range(2, 4))
    durable(again, 4)
    assert again.progress().token == "4:3"


def test_a_full_writer_says_so_and_the_same_rows_may_be_written_again(sink: Sink) -> None:
    sink.claim()
    sink.service.endpoint.faults.add(slow(0.5, times=2))
    writer, refused = sink.writer(), 0
    for start in range(0, 100, 10):
        while True:
            try:
                write(writer, range(start, start + 10), "x" * 30_000)
                break
            except BackpressureError as full:
                refused += 1
                time.sleep(full.retry_after)
    durable(writer, 100)
    assert refused
    assert sink.offsets() == list(range(100))
    assert writer.progress().rows == 100


def test_an_invalidated_channel_goes_on_behind_what_is_durable(sink: Sink) -> None:
    sink.claim()
    writer = sink.writer()
    write(writer, range(3))
    durable(writer, 3)
    for start in (3, 6):  # progress between them: this may happen for ever
        sink.service.endpoint.faults.add(stale_token())
        write(writer, range(start, start + 3))
        with pytest.raises(ChannelInvalidError):
            durable(writer, start + 3)
        writer.reopen()
        assert writer.position == start
        write(writer, range(start, start + 3))
        durable(writer, start + 3)
    assert sink.offsets() == list(range(9))


def test_a_channel_that_is_invalid_again_and_again_is_an_error_in_the_end(sink: Sink) -> None:
    sink.claim()
    writer = sink.writer()
    sink.service.endpoint.faults.add(stale_token(times=MOST_REOPENINGS + 1))
    with pytest.raises(ChannelInvalidError):
        durable_or_reopened(writer)
    assert sink.asked == MOST_REOPENINGS + 1


def durable_or_reopened(writer: ContinuousWriter) -> None:
    """Write and open again as a task does, until it is an error."""
    for _ in range(2 * MOST_REOPENINGS):
        write(writer, range(writer.position, writer.position + 2))
        try:
            durable(writer, writer.position + 2)
        except ChannelInvalidError:
            writer.reopen()
        else:
            return


def test_rejected_rows_are_counted_against_the_baseline_and_stop_a_flush(sink: Sink) -> None:
    sink.claim()
    sink.service.endpoint.faults.reject(Rejection("$.RECORD_CONTENT.n", ("1", "3"), "Numeric value is odd"))
    writer = sink.writer()
    write(writer, range(5))
    wait_until(lambda: writer.progress().token == "3:4")
    progress = writer.progress()
    assert (progress.row_errors, progress.unaccounted) == (2, 2)
    assert "odd" in (progress.last_error or "")
    with pytest.raises(RefusedRowsError, match="odd"):
        writer.flush()
    assert sink.writer().position == 0, "nothing counts as durable until somebody knows which rows were refused"
    sink.channels[P0] = RecordedChannel(PIPE, sink.channels[P0].created_ms, "3:4", row_errors=2)
    accounted = sink.writer()
    write(accounted, [5])
    durable(accounted, 6)
    assert accounted.progress().unaccounted == 0
    assert sink.offsets() == [0, 2, 4, 5]


def test_a_table_that_records_have_to_make_first_takes_no_rows_and_needs_no_channel(sink: Sink) -> None:
    sink.pipes.clear()
    writer = sink.writer(ColumnsLoader((METADATA_COLUMN,), exists=False, grow=True))
    assert (writer.position, writer.progress().next_offset, writer.flush()) == (0, 0, [])
    sink.standing = Standing(EPOCH + 1, GENERATION, {P0: 0})
    with pytest.raises(FencedError):
        sink.writer(ColumnsLoader((METADATA_COLUMN,), exists=False, grow=True))
