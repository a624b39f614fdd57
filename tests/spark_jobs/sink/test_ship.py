"""One task of the sink: batches whose JSON passes what one array holds are taken in halves, in order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.connector.config import SinkConfig
from spark_jobs.sink import files, ship
from spark_jobs.sink.decode.records import Decoded, OutputTooLargeError
from spark_jobs.sink.decode.text import StringDecoder
from spark_jobs.sink.identifiers import Namespace
from spark_jobs.sink.ledger import TopicPartition
from spark_jobs.sink.reports import Failed, Staged, Stopped, load
from spark_jobs.sink.stage import Stage
from tests.spark_jobs.sink.test_convert import batch


class Narrow:
    """A decoder that gives the text of its rows, two at a time at most, and never that of `huge`."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        texts = values.to_pylist()
        if len(texts) > 2 or b"huge" in texts:
            raise OutputTooLargeError
        return StringDecoder().decode(values)


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ship values through one task; gives its reports and the content of its files."""
    contents: list[str] = []

    def read(_context: object, _stage: object, file: Path, _folder: str) -> None:
        contents.extend(pq.read_table(file).column("RECORD_CONTENT").to_pylist())

    monkeypatch.setattr(files, "upload", read)
    monkeypatch.setattr(ship, "decoders_of", lambda _context: (Narrow(), StringDecoder()))

    def run(values: list[bytes]) -> tuple[list[Staged | Stopped | Failed], list[str]]:
        rows = batch(len(values))
        rows = rows.set_column(rows.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))
        context: Any = SimpleNamespace(config=SinkConfig("s"), kafka=None)
        plan = ship.ShipPlan(context, Stage(Namespace("D", "S"), "s", 1), {TopicPartition("t", 0): 11}, {}, {}, 5.0)
        (answer,) = ship.ship(plan, iter([rows]))
        return [load(text) for text in answer.column(0).to_pylist()], contents

    return run


def test_a_batch_that_is_too_large_is_taken_in_halves(shipped: Any) -> None:
    reports, contents = shipped([b"%d" % number for number in range(9)])
    assert contents == [f'"{number}"' for number in range(1, 9)]  # the first one is committed already
    assert [(report.first, report.last, report.rows) for report in reports] == [(11, 18, 8)]


def test_a_record_that_is_too_large_alone_stops_its_partition(shipped: Any) -> None:
    reports, contents = shipped([b"0", b"1", b"2", b"huge", b"4"])
    assert contents == ['"1"', '"2"']
    staged, stopped = reports
    assert (staged.first, staged.last) == (11, 12)
    assert (stopped.offset, stopped.reason) == (13, "too_large")
