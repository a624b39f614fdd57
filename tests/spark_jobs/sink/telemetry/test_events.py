"""What a supervisor reads in a driver's log."""

from __future__ import annotations

import io
import json
import logging

import pytest

from firn.kafka.partitions import TopicPartition
from firn.ledger.positions import Move
from firn.logs import configure_logging
from spark_jobs.sink.telemetry.events import emit, emit_committed
from spark_jobs.sink.values.batches import CommittedBatch
from spark_jobs.sink.values.reports import Tolerated


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the driver writes on standard error; logging is as before afterwards."""
    root, stream = logging.getLogger(), io.StringIO()
    before, level = list(root.handlers), root.level
    monkeypatch.setattr("sys.stderr", stream)
    configure_logging()
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def test_an_event_is_one_json_line_with_its_data(lines: io.StringIO) -> None:
    emit("schema_changed", "table T was changed 100%", sink="s", statement='ADD "x"', schema_id=None)
    line = json.loads(lines.getvalue())
    assert (line["level"], line["event"], line["firn_event"]) == ("info", "table T was changed 100%", "schema_changed")
    assert line["firn_data"] == {"sink": "s", "statement": 'ADD "x"', "schema_id": None}


def test_a_commit_says_what_it_brought(lines: io.StringIO) -> None:
    tolerated = (Tolerated("t", 0, 3, 2, 9, {"x": 3}, []),)
    moves = (Move(TopicPartition("t", 0), 0, 8),)
    emit_committed("s", CommittedBatch("4-0", 5, 100, 900, 1, moves, tolerated, 1.25, 0.5, (7, 8)))
    line = json.loads(lines.getvalue())
    assert line["event"] == "committed batch 4-0: 5 records in 1 file, 1 partition moved (dispatch 1.2 s, commit 0.5 s)"
    data = line["firn_data"]
    assert (data["rows"], data["bytes"], data["bad_records"], data["dead_letters"]) == (5, 900, 3, 2)
    assert data["schema_ids"] == [7, 8]


def test_a_commit_of_a_continuous_run_speaks_of_no_files(lines: io.StringIO) -> None:
    moves = (Move(TopicPartition("t", 0), 0, 8), Move(TopicPartition("t", 1), 4, 9))
    emit_committed("s", CommittedBatch("4-1", 13, 0, 900, 0, moves, (), 1.04, 0.0))
    line = json.loads(lines.getvalue())
    assert line["event"] == "committed batch 4-1: 13 records, 2 partitions moved (in 1.0 s)"
