"""What COPY answers is held against what was staged, file by file, in Snowflake's own words."""

from __future__ import annotations

import time
from typing import Any

import pytest

from firn.snowflake.columns import METADATA_COLUMN, Column, column_type
from firn.snowflake.faults import QuotaError
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.snowpipe import copy_into
from spark_jobs.sink.methods.snowpipe.copy_into import FILES_PER_COPY, RefusedFilesError, copied_columns, copy_files
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import ColumnsLoader, VariantLoader

NAMESPACE = Namespace("D", "S")
STAGE = Stage(NAMESPACE, "s", 3)


def staged(count: int, *, rows: int = 5) -> list[Receipt]:
    paths = [f"s/T/t/{number}/0-4-3-0-{number:016x}.parquet" for number in range(count)]
    return [Receipt("t", number, "T", 0, 4, rows, 1, 1, [], path) for number, path in enumerate(paths)]


def answers(files: list[Receipt], before: str = "firn_stage/", rows: int = 5) -> list[dict[str, Any]]:
    return [{"file": before + file.detail, "status": "LOADED", "rows_loaded": rows} for file in files]


def load(monkeypatch: pytest.MonkeyPatch, files: list[Receipt], answer: object) -> None:
    """COPY of these files, which gets that answer: rows, or an error."""

    def query(_connection: object, _sql: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(copy_into, "query", query)
    copy_files(None, STAGE, files, {"T": VariantLoader()}, {})  # type: ignore[arg-type]


def test_what_takes_no_value_is_not_written() -> None:
    number = Column("NO", column_type("NUMBER"), generated=True)
    place, age = Column("PLACE", column_type("GEOGRAPHY")), Column("AGE", column_type("NUMBER(3,0)"))
    load = ColumnsLoader((METADATA_COLUMN, number, place, age), exists=True, grow=False)
    assert copied_columns(load) == {'"RECORD_METADATA"': "PARSE_JSON($1:C0)", '"AGE"': "$1:C3::NUMBER(3,0)"}


@pytest.mark.parametrize("before", ["firn_stage/", "", "@D.S.FIRN_STAGE/"])
def test_whatever_stands_before_a_path_it_is_the_same_file(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    files = staged(3)
    load(monkeypatch, files, answers(files, before))


def test_a_file_with_other_rows_is_named_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    files = staged(12)
    with pytest.raises(RefusedFilesError, match="5 rows staged, 4 loaded") as raised:
        load(monkeypatch, files, answers(files[:11]) + answers(files[11:], rows=4))
    assert raised.value.files == (files[11].detail,)


def test_a_file_without_an_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    files = staged(2)
    with pytest.raises(RefusedFilesError, match="5 rows staged, None loaded") as raised:
        load(monkeypatch, files, answers(files[:1]))
    assert raised.value.files == (files[1].detail,)


def test_more_files_than_were_staged_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = staged(2)
    with pytest.raises(RefusedFilesError, match="2 files staged, 3 loaded"):
        load(monkeypatch, files, [*answers(files), *answers(files[:1], "other/")])


def test_no_credits_is_no_fault_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QuotaError):
        load(monkeypatch, staged(1), QuotaError("The warehouse may not run."))


def test_a_full_copy_is_looked_at_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    files = staged(FILES_PER_COPY)
    began = time.process_time()
    load(monkeypatch, files, answers(files)[::-1])
    assert time.process_time() - began < 0.1
