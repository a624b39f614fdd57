"""One task of the sink: what of a batch becomes files, reports and dead letters, and where its range ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.connector.config import ErrorsConfig, SinkConfig
from firn.dead_letters.published import Letters
from firn.errors import TransientError
from firn.kafka.partitions import OffsetRange
from firn.retry import RETRIES, with_retries
from firn.snowflake.columns import METADATA_COLUMN, Column, column_type
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.dead_letters import tolerance
from spark_jobs.sink.dead_letters.writer import Published
from spark_jobs.sink.decode.records import Decoded, OutputTooLargeError
from spark_jobs.sink.decode.text import StringDecoder
from spark_jobs.sink.methods.snowpipe import files
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.task import partition_task
from spark_jobs.sink.values.bad_records import MALFORMED_AVRO, NOT_LOOKED_UP, BadRecord
from spark_jobs.sink.values.reports import (
    Cut,
    Read,
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
VARIANTS, NO_LETTERS = VariantLoader(), Letters()


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


class Box:
    """A box for dead letters with room for one; what its group holds after a range is 1000 above the range's end."""

    def __init__(self, *_: object) -> None:
        self.offsets: list[int] = []
        self.size = 0

    def room(self, offsets: Sequence[int]) -> int:
        return min(len(offsets), 1 - len(self.offsets))

    def add(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        self.offsets += [batch.column("offset")[each.row].as_py() for each in bad]

    def publish(self, end: int, _confirm: object) -> Published:
        return Published(len(self.offsets), 1000 + end, self.offsets)


@dataclass
class Shipped:
    """What one task reported of its only range, and the content of its files. end: how far the range was read.

    last: the kind of the last report.
    """

    reports: list[Report]
    contents: list[str]
    end: int | None
    last: str

    def __iter__(self) -> Iterator[Any]:
        return iter((self.reports, self.contents))


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ship values, from offset 11 on, through one task."""
    contents: list[str] = []

    def read(_context: object, _stage: object, file: Path, _folder: str) -> None:
        contents.extend(pq.read_table(file).column(-1).to_pylist())

    monkeypatch.setattr(files, "upload", read)
    monkeypatch.setattr(partition_task, "decoders_of", lambda _context: (Narrow(), StringDecoder()))

    def run(
        values: list[bytes],
        config: SinkConfig = NONE,
        out: Letters = NO_LETTERS,
        load_of_topic: TableLoader = VARIANTS,
        unsure: frozenset[str] = frozenset(),
        *,
        gap: int = 0,
        size: int = 1_000_000,
        rows: int = 1_000,
    ) -> Shipped:
        records = batch(len(values), first=11)
        records = records.set_column(4, "value", pa.array(values, pa.binary()))
        pieces = [records.slice(start, rows) for start in range(0, len(values), rows)]
        monkeypatch.setattr(
            partition_task, "reader_for", lambda *_: SimpleNamespace(read=lambda _range, size: iter(pieces))
        )
        context: Any = SimpleNamespace(config=config, kafka=None, value_registry=None)
        plan = partition_task.ShipPlan(context, Stage(Namespace("D", "S"), "s", 1), {"t": load_of_topic}, 5.0, unsure)
        work = partition_task.RangeWork(OffsetRange("t", 0, 11, 11 + len(values) + gap), "id", size, out)
        reports = [load(text) for text in partition_task.ship(plan, iter([[work]]))]
        read = [report for report in reports if isinstance(report, Read)]
        assert all(each.start == 11 for each in read)
        others = [report for report in reports if not isinstance(report, Read)]
        return Shipped(others, contents, read[0].end if read else None, type(reports[-1]).__name__)

    return run


def test_a_batch_that_is_too_large_is_taken_in_halves(shipped: Any) -> None:
    reports, contents = shipped([b"%d" % number for number in range(8)])
    assert contents == [f'"{number}"' for number in range(8)]
    assert [(report.first, report.last, report.rows) for report in reports] == [(11, 18, 8)]


def test_a_range_is_read_to_its_end_also_where_its_last_offsets_hold_no_record(shipped: Any) -> None:
    assert shipped([b"0", b"1"], gap=3).end == 16
    nothing = shipped([], gap=3)
    assert (nothing.reports, nothing.end) == ([], 14)


def test_a_range_of_large_records_ends_behind_its_share_of_the_batch(shipped: Any) -> None:
    found = shipped([b"x" * 100] * 10, size=1_000, rows=2)
    (staged,) = found.reports
    assert found.end == staged.last + 1 < 21
    assert staged.text_size >= 1_000 > staged.text_size * (staged.rows - 2) / staged.rows


def test_the_last_report_of_a_range_says_how_far_it_may_count(shipped: Any) -> None:
    """Reports that are cut off on their way lack it, and a stop that got lost passes nothing."""
    for values, config, end in (([b"1", b"2", b"huge", b"4"], NONE, 13), ([b"1", b"later"], ALL, 12)):
        found = shipped(values, config)
        assert found.end == found.reports[-1].offset == end
        assert found.last == "Read"


def test_dead_letters_count_for_the_bytes_of_a_batch(shipped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Large(Box):
        def room(self, offsets: Sequence[int]) -> int:
            return len(offsets)

        def add(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
            super().add(batch, bad)
            self.size += 600 * len(bad)

    monkeypatch.setattr(tolerance, "LetterBox", Large)
    found = shipped([b"bad"] * 10, LETTERS, size=1_000, rows=2)
    assert found.end == 13


def test_a_task_that_spark_runs_again_reads_nothing(shipped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt that was lost may have published dead letters, and may yet."""
    monkeypatch.setattr(partition_task.TaskContext, "get", lambda: SimpleNamespace(attemptNumber=lambda: 1))
    (failed,), contents = shipped([b"0"])
    assert isinstance(failed.unwrap(), TransientError)
    assert contents == []


def test_what_a_task_tried_again_is_reported_and_nothing_of_the_task_before(
    shipped: Any, monkeypatch: pytest.MonkeyPatch
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
    assert shipped([b"0", b"1"]).reports[-1] == Retried({"TransientError": 2})
    assert not any(isinstance(report, Retried) for report in shipped([b"0", b"1"]).reports)


def test_a_record_that_is_too_large_alone_stops_its_partition(shipped: Any) -> None:
    reports, contents = shipped([b"1", b"2", b"huge", b"4"])
    assert contents == ['"1"', '"2"']
    staged, stopped = reports
    assert (staged.first, staged.last) == (11, 12)
    assert (stopped.offset, stopped.reason) == (13, "too_large")


def test_tolerated_records_are_counted_and_left_out(shipped: Any) -> None:
    reports, contents = shipped([b"1", b"bad", b"huge", b"4"], ALL)
    assert contents == ['"1"', '"4"']
    staged, tolerated = reports
    assert isinstance(tolerated, Tolerated)
    assert (staged.first, staged.last, staged.rows) == (11, 14, 2)
    assert (tolerated.records, tolerated.letters, tolerated.group_offset) == (2, 0, -1)
    assert tolerated.reasons == {"malformed_avro": 1, "too_large": 1}
    assert [offset for offset, *_ in tolerated.samples] == [12, 13]


def test_a_range_ends_in_front_of_what_nobody_has_asked_about(shipped: Any) -> None:
    reports, contents = shipped([b"1", b"bad", b"3", b"later", b"5"], ALL)
    assert contents == ['"1"', '"3"']
    assert reports[-1] == Cut("t", 0, 14, "d")
    assert reports[1].records == 1


def test_a_range_ends_in_front_of_dead_letters_that_fit_no_more(shipped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tolerance, "LetterBox", Box)
    reports, contents = shipped([b"1", b"bad", b"3", b"4", b"bad", b"6"], LETTERS)
    assert contents == ['"1"', '"3"', '"4"']
    staged, tolerated, cut = reports
    assert (staged.last, cut.offset) == (14, 15)
    assert (tolerated.records, tolerated.letters, tolerated.group_offset) == (1, 1, 1013)


def test_what_is_a_dead_letter_already_is_neither_row_nor_letter_again(
    shipped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tolerance, "LetterBox", Box)
    out = Letters(20, frozenset({11, 13}))
    reports, contents = shipped([b"bad", b"2", b"now good", b"bad"], LETTERS, out)
    assert contents == ['"2"']
    _, tolerated = reports
    assert (tolerated.letters, tolerated.group_offset) == (1, 1015)  # the box tells what it committed


class Plain(Narrow):
    """As Narrow, of values that are JSON texts already."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        decoded = super().decode(values)
        return replace(decoded, content=values.cast(pa.string()))


AMOUNTS = (METADATA_COLUMN, Column("AMOUNT", column_type("NUMBER(4,0)")))


def test_values_that_have_no_place_in_the_table_are_bad_records(shipped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_task, "decoders_of", lambda _context: (Plain(), StringDecoder()))
    values = [b'{"amount":1}', b'{"amount":"x"}', b'{"new":2}', b'{"Amount":"3"}']
    load = ColumnsLoader(AMOUNTS, exists=True, grow=False)
    reports, contents = shipped(values, ALL, load_of_topic=load)
    assert contents == ["1", "3"]
    assert reports[1].reasons == {"unfitting_value": 1, "unknown_field": 1}
    contents.clear()
    reports, contents = shipped(values, NONE, load_of_topic=load)
    assert contents == ["1"]
    assert (reports[1].offset, reports[1].reason) == (12, "unfitting_value")
    assert "AMOUNT" in reports[1].detail


def test_no_record_is_judged_by_a_table_that_may_be_another_by_now(
    shipped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_task, "decoders_of", lambda _context: (Plain(), StringDecoder()))
    monkeypatch.setattr(tolerance, "LetterBox", Box)
    load, unsure = ColumnsLoader(AMOUNTS, exists=True, grow=False), frozenset({"t"})
    for config in (NONE, ALL, LETTERS):
        reports, contents = shipped([b'{"amount":1}', b'{"new":2}'], config, load_of_topic=load, unsure=unsure)
        assert (reports, contents) == ([SuspectedStaleSchema("t", 0, "t_116")], [])
    (staged,), contents = shipped([b'{"amount":1}'], ALL, load_of_topic=load, unsure=unsure)
    assert (staged.rows, contents) == (1, ["1"])


def test_what_a_table_would_need_is_told_and_nothing_staged_or_published(
    shipped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_task, "decoders_of", lambda _context: (Plain(), StringDecoder()))
    monkeypatch.setattr(tolerance, "LetterBox", Box)
    values = [b'{"amount":"x"}', b'{"amount":12345}', b'{"new":"n"}', b'{"amount":1}']
    (report,), contents = shipped(values, LETTERS, load_of_topic=ColumnsLoader(AMOUNTS, exists=True, grow=True))
    assert contents == []
    assert report == SchemaChangeRequest(
        "t", 0, "t_116", None, {"NEW": "VARCHAR(16777216)"}, [], {"AMOUNT": "NUMBER(38,0)"}
    )
    (stopped,), _ = shipped(values[:2], NONE, load_of_topic=ColumnsLoader(AMOUNTS, exists=True, grow=True))
    assert (stopped.offset, stopped.reason) == (11, "unfitting_value")  # what is behind it wants nothing yet
