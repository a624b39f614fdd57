"""One task of the sink: what of a batch becomes rows, reports and dead letters, and where its range ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from firn.connector.config import ErrorsConfig, SinkConfig
from firn.dead_letters.published import PartitionLetters
from firn.errors import TransientError
from firn.kafka.partitions import OffsetRange
from firn.retry import RETRIES, with_retries
from firn.snowflake.columns import METADATA_COLUMN, Column, column_type
from spark_jobs.sink.dead_letters import tolerance
from spark_jobs.sink.dead_letters.writer import Published
from spark_jobs.sink.decode.base.contract import Decoded, OutputTooLargeError
from spark_jobs.sink.decode.primitive.values import StringDecoder
from spark_jobs.sink.methods.base import PartitionRange
from spark_jobs.sink.task import partition_task, reporting
from spark_jobs.sink.values.bad_records import MALFORMED_AVRO, NOT_LOOKED_UP, BadRecord
from spark_jobs.sink.values.reports import (
    Cut,
    RangeRead,
    Receipt,
    Report,
    Retried,
    SchemaChangeRequest,
    SuspectedStaleSchema,
    Tolerated,
    load,
)
from spark_jobs.sink.values.table_loaders import ColumnsLoader, TableLoader, VariantLoader
from tests.spark_jobs.sink.task.test_convert import batch

NONE = SinkConfig("s")
ALL = SinkConfig("s", errors=ErrorsConfig("all"))
LETTERS = SinkConfig("s", errors=ErrorsConfig("all", dead_letter_topic="dlq"))
VARIANTS, NO_LETTERS = VariantLoader(), PartitionLetters()


class Narrow:
    """A decoder that gives the text of its rows, two at a time at most, and never that of `huge`.

    `bad` is a bad record, `later` one that nobody has asked the registry about.
    """

    def decode(self, values: pa.BinaryArray) -> Decoded:
        texts = values.to_pylist()
        if len(texts) > 2 or b"huge" in texts:
            raise OutputTooLargeError
        reasons = {b"bad": MALFORMED_AVRO, b"later": NOT_LOOKED_UP}
        bad = tuple(BadRecord(row, reasons[text], "d") for row, text in enumerate(texts) if text in reasons)
        return replace(StringDecoder().decode(values), bad=bad)


class OneLetter:
    """A dead-letter writer with room for one; what its group holds after a range is 1000 above the range's end."""

    def __init__(self, *_: object) -> None:
        self.offsets: list[int] = []
        self.size = 0

    def room(self, offsets: Sequence[int]) -> int:
        return min(len(offsets), 1 - len(self.offsets))

    def add(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        self.offsets += [batch.column("offset")[each.row].as_py() for each in bad]

    def publish(self, end: int, _confirm: object) -> Published:
        return Published(len(self.offsets), 1000 + end, self.offsets)


class Rows:
    """The writer of a method that keeps rows here; a flush gives one receipt for all of them."""

    def __init__(self, contents: list[str], target: PartitionRange) -> None:
        self.contents, self.text_bytes, self._target = contents, 0, target
        self._offsets: list[int] = []

    def write(self, offsets: Any, columns: Sequence[pa.StringArray], _schema_ids: object) -> None:
        self._offsets += offsets.tolist()
        self.contents += columns[-1].to_pylist() if columns else []
        self.text_bytes += sum(len(text or "") for column in columns for text in column.to_pylist())

    def flush(self) -> list[Receipt]:
        where, rows = self._target.where, self._offsets
        if not rows:
            return []
        return [Receipt(*where, self._target.table, rows[0], rows[-1], len(rows), 0, self.text_bytes)]


@dataclass
class InMemory:
    """A method whose writers keep the content of all rows in one list."""

    contents: list[str]

    def writer(self, target: PartitionRange, _in_session: object) -> Rows:
        return Rows(self.contents, target)


@dataclass
class Outcome:
    """What one task reported of its only range, and the content of its rows. end: how far the range was read.

    last: the kind of the last report.
    """

    reports: list[Report]
    contents: list[str]
    end: int | None
    last: str

    def __iter__(self) -> Iterator[Any]:
        return iter((self.reports, self.contents))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs one task over values, from offset 11 on."""
    contents: list[str] = []

    monkeypatch.setattr(partition_task, "decoders_of", lambda _context: (Narrow(), StringDecoder()))

    def run_task(
        values: list[bytes],
        config: SinkConfig = NONE,
        out: PartitionLetters = NO_LETTERS,
        loader: TableLoader = VARIANTS,
        unverified: frozenset[str] = frozenset(),
        *,
        gap: int = 0,
        size: int = 1_000_000,
        rows: int = 1_000,
    ) -> Outcome:
        records = batch(len(values), first=11)
        records = records.set_column(4, "value", pa.array(values, pa.binary()))
        pieces = [records.slice(start, rows) for start in range(0, len(values), rows)]
        monkeypatch.setattr(
            partition_task, "reader_for", lambda *_: SimpleNamespace(read=lambda _range, size: iter(pieces))
        )
        context: Any = SimpleNamespace(config=config, kafka=None, value_registry=None)
        plan = partition_task.TaskPlan(context, InMemory(contents), 1, "0a1b2c3d4e5f", {"t": loader}, 5.0, unverified)
        work = partition_task.RangeWork(OffsetRange("t", 0, 11, 11 + len(values) + gap), "id", size, out)
        reports = [load(text) for text in partition_task.run_task(plan, iter([[work]]))]
        read = [report for report in reports if isinstance(report, RangeRead)]
        assert all(each.start == 11 for each in read)
        others = [report for report in reports if not isinstance(report, RangeRead)]
        return Outcome(others, contents, read[0].end if read else None, type(reports[-1]).__name__)

    return run_task


def test_a_batch_that_is_too_large_is_taken_in_halves(run: Any) -> None:
    reports, contents = run([b"%d" % number for number in range(8)])
    assert contents == [f'"{number}"' for number in range(8)]
    assert [(report.first, report.last, report.rows) for report in reports] == [(11, 18, 8)]


def test_a_range_is_read_to_its_end_also_where_its_last_offsets_hold_no_record(run: Any) -> None:
    assert run([b"0", b"1"], gap=3).end == 16
    nothing = run([], gap=3)
    assert (nothing.reports, nothing.end) == ([], 14)


def test_a_range_of_large_records_ends_behind_its_share_of_the_batch(run: Any) -> None:
    found = run([b"x" * 100] * 10, size=1_000, rows=2)
    (receipt,) = found.reports
    assert found.end == receipt.last + 1 < 21
    assert receipt.text_bytes >= 1_000 > receipt.text_bytes * (receipt.rows - 2) / receipt.rows


def test_the_last_report_of_a_range_says_how_far_it_may_count(run: Any) -> None:
    """Reports that are cut off on their way lack it, and a stop that got lost passes nothing."""
    for values, config, end in (([b"1", b"2", b"huge", b"4"], NONE, 13), ([b"1", b"later"], ALL, 12)):
        found = run(values, config)
        assert found.end == found.reports[-1].offset == end
        assert found.last == "RangeRead"


def test_dead_letters_count_for_the_bytes_of_a_batch(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Large(OneLetter):
        def room(self, offsets: Sequence[int]) -> int:
            return len(offsets)

        def add(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
            super().add(batch, bad)
            self.size += 600 * len(bad)

    monkeypatch.setattr(tolerance, "DeadLetterWriter", Large)
    found = run([b"bad"] * 10, LETTERS, size=1_000, rows=2)
    assert found.end == 13


def test_a_task_that_spark_runs_again_reads_nothing(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt that was lost may have published dead letters, and may yet."""
    monkeypatch.setattr(reporting.TaskContext, "get", lambda: SimpleNamespace(attemptNumber=lambda: 1))
    (failed,), contents = run([b"0"])
    assert isinstance(failed.unwrap(), TransientError)
    assert contents == []


def test_what_a_task_tried_again_is_reported_and_nothing_of_the_task_before(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    RETRIES.add({"LockConflictError": 4})  # of an earlier task in this worker
    faults = [TransientError("not yet"), TransientError("not yet")]

    def confirm(*_: object) -> None:
        if faults:
            raise faults.pop()

    def decoders(_context: object) -> Any:
        with_retries(5.0, confirm)
        return Narrow(), StringDecoder()

    monkeypatch.setattr(partition_task, "decoders_of", decoders)
    assert run([b"0", b"1"]).reports[-1] == Retried({"TransientError": 2})
    assert not any(isinstance(report, Retried) for report in run([b"0", b"1"]).reports)


def test_a_record_that_is_too_large_alone_stops_its_partition(run: Any) -> None:
    reports, contents = run([b"1", b"2", b"huge", b"4"])
    assert contents == ['"1"', '"2"']
    receipt, stopped = reports
    assert (receipt.first, receipt.last) == (11, 12)
    assert (stopped.offset, stopped.reason) == (13, "too_large")


def test_tolerated_records_are_counted_and_left_out(run: Any) -> None:
    reports, contents = run([b"1", b"bad", b"huge", b"4"], ALL)
    assert contents == ['"1"', '"4"']
    receipt, tolerated = reports
    assert isinstance(tolerated, Tolerated)
    assert (receipt.first, receipt.last, receipt.rows) == (11, 14, 2)
    assert (tolerated.records, tolerated.letters, tolerated.group_offset) == (2, 0, -1)
    assert tolerated.reasons == {"malformed_avro": 1, "too_large": 1}
    assert [offset for offset, *_ in tolerated.samples] == [12, 13]


def test_a_range_ends_in_front_of_what_nobody_has_asked_about(run: Any) -> None:
    reports, contents = run([b"1", b"bad", b"3", b"later", b"5"], ALL)
    assert contents == ['"1"', '"3"']
    assert reports[-1] == Cut("t", 0, 14, "d")
    assert reports[1].records == 1


def test_a_range_ends_in_front_of_dead_letters_that_fit_no_more(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tolerance, "DeadLetterWriter", OneLetter)
    reports, contents = run([b"1", b"bad", b"3", b"4", b"bad", b"6"], LETTERS)
    assert contents == ['"1"', '"3"', '"4"']
    receipt, tolerated, cut = reports
    assert (receipt.last, cut.offset) == (14, 15)
    assert (tolerated.records, tolerated.letters, tolerated.group_offset) == (1, 1, 1013)


def test_what_is_a_dead_letter_already_is_neither_row_nor_letter_again(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tolerance, "DeadLetterWriter", OneLetter)
    out = PartitionLetters(20, frozenset({11, 13}))
    reports, contents = run([b"bad", b"2", b"now good", b"bad"], LETTERS, out)
    assert contents == ['"2"']
    _, tolerated = reports
    assert (tolerated.letters, tolerated.group_offset) == (1, 1015)  # the box tells what it committed


class Plain(Narrow):
    """As Narrow, of values that are JSON texts already."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        decoded = super().decode(values)
        return replace(decoded, content=values.cast(pa.string()))


AMOUNTS = (METADATA_COLUMN, Column("AMOUNT", column_type("NUMBER(4,0)")))


def test_values_that_have_no_place_in_the_table_are_bad_records(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_task, "decoders_of", lambda _context: (Plain(), StringDecoder()))
    values = [b'{"amount":1}', b'{"amount":"x"}', b'{"new":2}', b'{"Amount":"3"}']
    loader = ColumnsLoader(AMOUNTS, exists=True, grow=False)
    reports, contents = run(values, ALL, loader=loader)
    assert contents == ["1", "3"]
    assert reports[1].reasons == {"unfitting_value": 1, "unknown_field": 1}
    contents.clear()
    reports, contents = run(values, NONE, loader=loader)
    assert contents == ["1"]
    assert (reports[1].offset, reports[1].reason) == (12, "unfitting_value")
    assert "AMOUNT" in reports[1].detail


def test_no_record_is_judged_by_a_table_that_may_be_another_by_now(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_task, "decoders_of", lambda _context: (Plain(), StringDecoder()))
    monkeypatch.setattr(tolerance, "DeadLetterWriter", OneLetter)
    loader, unverified = ColumnsLoader(AMOUNTS, exists=True, grow=False), frozenset({"t"})
    for config in (NONE, ALL, LETTERS):
        reports, contents = run([b'{"amount":1}', b'{"new":2}'], config, loader=loader, unverified=unverified)
        assert (reports, contents) == ([SuspectedStaleSchema("t", 0, "t_116")], [])
    (receipt,), contents = run([b'{"amount":1}'], ALL, loader=loader, unverified=unverified)
    assert (receipt.rows, contents) == (1, ["1"])


def test_what_a_table_would_need_is_reported_and_nothing_written_or_published(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_task, "decoders_of", lambda _context: (Plain(), StringDecoder()))
    monkeypatch.setattr(tolerance, "DeadLetterWriter", OneLetter)
    values = [b'{"amount":"x"}', b'{"amount":12345}', b'{"new":"n"}', b'{"amount":1}']
    (report,), contents = run(values, LETTERS, loader=ColumnsLoader(AMOUNTS, exists=True, grow=True))
    assert contents == []
    assert report == SchemaChangeRequest(
        "t", 0, "t_116", None, {"NEW": "VARCHAR(16777216)"}, [], {"AMOUNT": "NUMBER(38,0)"}
    )
    (stopped,), _ = run(values[:2], NONE, loader=ColumnsLoader(AMOUNTS, exists=True, grow=True))
    assert (stopped.offset, stopped.reason) == (11, "unfitting_value")  # what is behind it wants nothing yet
