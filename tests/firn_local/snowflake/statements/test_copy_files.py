"""Stages and COPY INTO of the local Snowflake, through PUT, LIST, REMOVE and COPY of the real connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run, write_parquet

COPY = (
    "COPY INTO E (RECORD_METADATA, RECORD_CONTENT) FROM (SELECT PARSE_JSON($1:RECORD_METADATA), "
    "PARSE_JSON($1:RECORD_CONTENT) FROM @FIRN_STAGE/sink/E/t/) {} FILE_FORMAT=(TYPE=PARQUET)"
)


@pytest.fixture
def c(server: InProcess, tmp_path: Path) -> Iterator[Connection]:
    with server.connect() as connection:
        run(connection, "CREATE OR REPLACE TABLE E (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
        run(connection, "CREATE OR REPLACE STAGE FIRN_STAGE")
        for number, partition in enumerate((0, 1, 1)):
            put(connection, write_parquet(tmp_path / f"{number}-9-1-0-a.b.parquet", 10, first=10 * number), partition)
        yield connection


def put(c: Connection, path: Path, partition: int) -> None:
    (answer,) = run(c, f"PUT file://{path} @FIRN_STAGE/sink/E/t/{partition}/ AUTO_COMPRESS=FALSE")
    assert answer[6] == "UPLOADED"


def names(rows: list[tuple[object, ...]]) -> list[object]:
    return [row[0] for row in rows]


def test_list_names_files_by_prefix_and_pattern_with_size_and_md5(c: Connection) -> None:
    rows = run(c, "LIST @FIRN_STAGE/sink/E/")
    assert names(rows) == [f"firn_stage/sink/E/t/{p}/{n}-9-1-0-a.b.parquet" for p, n in ((0, 0), (1, 1), (1, 2))]
    assert all(row[1] > 0 and len(row[2]) == 32 and row[3].endswith("GMT") for row in rows)
    assert len(run(c, "LS @FIRN_STAGE/sink/E/t/1")) == 2
    assert len(run(c, "LS @STREAMING.PUBLIC.FIRN_STAGE PATTERN='.*/2-.*'")) == 1
    assert run(c, "LIST @FIRN_STAGE/nothing") == []


def test_a_quoted_stage_path_may_hold_two_dashes(c: Connection, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "q.parquet", 3)
    run(c, f"PUT 'file://{file}' '@FIRN_STAGE/s/a--b/' AUTO_COMPRESS=FALSE")
    select = "SELECT PARSE_JSON($1:RECORD_METADATA), PARSE_JSON($1:RECORD_CONTENT) FROM '@FIRN_STAGE/s/a--b/'"
    answer = run(c, f"COPY INTO E FROM ({select}) FILES=('q.parquet') FILE_FORMAT=(TYPE=PARQUET)")
    assert [row[3] for row in answer] == [3]
    assert names(run(c, "LIST '@FIRN_STAGE/s/a--b/'")) == ["firn_stage/s/a--b/q.parquet"]


def test_remove_takes_what_list_shows(c: Connection) -> None:
    assert run(c, "REMOVE @FIRN_STAGE/sink/E/t/1/1-") == [("firn_stage/sink/E/t/1/1-9-1-0-a.b.parquet", "removed")]
    assert run(c, "RM @FIRN_STAGE/sink PATTERN='.*/2-.*'")[0][1] == "removed"
    assert names(run(c, "LIST @FIRN_STAGE")) == ["firn_stage/sink/E/t/0/0-9-1-0-a.b.parquet"]


def test_a_missing_stage_is_an_error(c: Connection, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "x.parquet", 1)
    for sql in (
        "LIST @NOPE",
        "REMOVE @NOPE/x",
        f"PUT file://{file} @NOPE",
        COPY.replace("FIRN_STAGE", "NOPE").format(""),
    ):
        with pytest.raises(ProgrammingError, match=r"Stage 'STREAMING\.PUBLIC\.NOPE' does not exist") as error:
            run(c, sql)
        assert (error.value.errno, error.value.sqlstate) == (2003, "02000")


def test_copy_of_named_files_answers_a_row_a_file_and_loads_each_once(c: Connection) -> None:
    sql = COPY.format("FILES=('0/0-9-1-0-a.b.parquet', '1/2-9-1-0-a.b.parquet')")
    loaded = run(c, sql)
    assert [row[:4] for row in loaded] == [
        ("firn_stage/sink/E/t/0/0-9-1-0-a.b.parquet", "LOADED", 10, 10),
        ("firn_stage/sink/E/t/1/2-9-1-0-a.b.parquet", "LOADED", 10, 10),
    ]
    assert [row[1] for row in run(c, sql)] == ["LOAD_SKIPPED"] * 2
    assert [row[1] for row in run(c, COPY.format(""))] == ["LOAD_SKIPPED", "LOADED", "LOAD_SKIPPED"]
    assert run(c, "SELECT COUNT(*), COUNT(DISTINCT RECORD_METADATA:offset::INT) FROM E") == [(30, 30)]
    assert run(c, sql + " FORCE = FALSE")[0][1] == "LOAD_SKIPPED"
    assert run(c, sql + " FORCE = TRUE")[0][1] == "LOADED"


def test_create_if_not_exists_keeps_the_load_history(c: Connection) -> None:
    run(c, COPY.format(""))
    run(c, "CREATE TABLE IF NOT EXISTS E (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
    assert {row[1] for row in run(c, COPY.format(""))} == {"LOAD_SKIPPED"}


def test_the_load_history_rolls_back_with_the_rows(c: Connection) -> None:
    run(c, "BEGIN")
    run(c, COPY.format(""))
    run(c, "ROLLBACK")
    assert run(c, "SELECT COUNT(*) FROM E") == [(0,)]
    assert {row[1] for row in run(c, COPY.format(""))} == {"LOADED"}


def test_purge_removes_files_after_the_commit_only(c: Connection) -> None:
    run(c, "BEGIN")
    run(c, COPY.format("") + " PURGE = TRUE")
    run(c, "ROLLBACK")
    assert len(run(c, "LIST @FIRN_STAGE")) == 3
    run(c, COPY.format("") + " PURGE = FALSE FORCE = TRUE")
    assert len(run(c, "LIST @FIRN_STAGE")) == 3
    run(c, COPY.format("") + " PURGE = TRUE FORCE = TRUE")
    assert run(c, "LIST @FIRN_STAGE") == []


def test_a_missing_file_is_named(c: Connection) -> None:
    with pytest.raises(ProgrammingError, match=r"Remote file '@FIRN_STAGE/sink/E/t/0/nope\.parquet' was not found"):
        run(c, COPY.format("FILES=('0/0-9-1-0-a.b.parquet', '0/nope.parquet')"))
    assert run(c, "SELECT COUNT(*) FROM E") == [(0,)]


def test_a_bad_file_is_named_and_nothing_of_the_copy_is_loaded(c: Connection, tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    pq.write_table(pa.table({"RECORD_METADATA": ["{}"], "RECORD_CONTENT": ["{broken"]}), bad)
    put(c, bad, 2)
    run(c, "BEGIN")
    run(c, "INSERT INTO E SELECT NULL, NULL")
    with pytest.raises(ProgrammingError, match=r"File 'firn_stage/sink/E/t/2/bad\.parquet'"):
        run(c, COPY.format("") + " ON_ERROR = ABORT_STATEMENT")
    run(c, "COMMIT")
    assert run(c, "SELECT COUNT(*) FROM E") == [(1,)]


def test_no_files_is_no_error(c: Connection) -> None:
    run(c, "REMOVE @FIRN_STAGE")
    assert run(c, COPY.format("")) == [("Copy executed with 0 files processed.",)]


def test_columns_are_matched_by_name(c: Connection, tmp_path: Path) -> None:
    typed = tmp_path / "typed.parquet"
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", None]}), typed)
    run(c, "CREATE OR REPLACE TABLE TYPED (NAME VARCHAR, ID INT, MORE INT)")
    run(c, f"PUT file://{typed} @FIRN_STAGE/typed/ AUTO_COMPRESS=FALSE")
    run(
        c,
        "COPY INTO TYPED FROM @FIRN_STAGE/typed/ FILES=('typed.parquet') FILE_FORMAT=(TYPE=PARQUET) "
        "MATCH_BY_COLUMN_NAME=CASE_INSENSITIVE",
    )
    assert run(c, "SELECT * FROM TYPED ORDER BY ID") == [("a", 1, None), (None, 2, None)]


@pytest.mark.parametrize("option", ["ON_ERROR = CONTINUE", "ON_ERROR = SKIP_FILE", "NONSENSE = 1"])
def test_options_it_lacks_are_refused(c: Connection, option: str) -> None:
    with pytest.raises(ProgrammingError) as error:
        run(c, COPY.format("") + f" {option}")
    assert error.value.errno in {2, 1003}
