"""Logs as a person reads them: newest lines over a rotation, what comes next, JSON as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firn.operations.log_files import LogReader, readable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sink-orders.log"


def test_the_newest_lines_go_back_into_the_file_before(file: Path) -> None:
    file.with_name("sink-orders.log.1").write_text("1\n2\n3\n")
    file.write_text("4\n5\n")
    assert LogReader(file).newest(4) == ["2", "3", "4", "5"]
    assert LogReader(file).newest(2) == ["4", "5"]
    assert LogReader(file).newest(0) == []
    assert LogReader(file).newest(100) == ["1", "2", "3", "4", "5"]


def test_without_a_file_there_are_no_lines(file: Path) -> None:
    assert LogReader(file).newest(5) == []


def test_what_is_written_later_follows_without_a_gap_or_a_double(file: Path) -> None:
    file.write_text("1\n2\n")
    reader = LogReader(file)
    assert reader.newest(1) == ["2"]
    with file.open("a") as log:
        log.write("3\n4 is no")
        log.flush()
        assert list(reader.more()) == ["3"]
        log.write("t whole\n")
    assert list(reader.more()) == ["4 is not whole"]
    assert list(reader.more()) == []


def test_a_rotation_is_followed(file: Path) -> None:
    file.write_text("1\n")
    reader = LogReader(file)
    reader.newest(1)
    with file.open("a") as log:
        log.write("last of the old\n")
    file.rename(file.with_name("sink-orders.log.1"))
    assert list(reader.more()) == ["last of the old"]
    file.write_text("first of the new\n")
    assert list(reader.more()) == ["first of the new"]
    file.write_text("2\n")  # emptied, as copytruncate does
    assert list(reader.more()) == ["2"]
    reader.close()


def test_json_is_shown_as_a_sentence() -> None:
    entry = {"event": "committed batch 3-1", "level": "info", "timestamp": "2026-11-21T13:36:37.375199Z"}
    told = {**entry, "firn_event": "committed", "firn_data": {"rows": 5}, "sink": "orders", "batch": "3-1"}
    assert readable(json.dumps(told)) == "2026-11-21 13:36:37 committed batch 3-1 (batch=3-1)"
    failed = {**entry, "event": "no", "level": "error", "exception": "Traceback ..."}
    assert readable(json.dumps(failed)) == "2026-11-21 13:36:37 ERROR no\nTraceback ..."


@pytest.mark.parametrize("line", ["WARNING: Using incubator modules", '{"half": ', "[1, 2]", "{}", ""])
def test_what_is_no_json_of_ours_stays_as_it_is(line: str) -> None:
    assert readable(line) == line
