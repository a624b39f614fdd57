"""Columns by position, and a temporary table that is loaded, read and emptied in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

LANDING = 'STREAMING.PUBLIC."FIRN_LANDING_X"'
COPY = (
    f"COPY INTO {LANDING} FROM (SELECT PARSE_JSON($1:RECORD) FROM @S/a) FILES = ('l.parquet') "
    "FILE_FORMAT = (TYPE = PARQUET)"
)
RECORDS = [
    {
        "order_id": number,
        "has cat": number == 1,
        "order_total": 9.5,
        "RECORD_METADATA": {"topic": "orders", "offset": number},
        "parent": {"child field": "x", "b": [number]},
        "Quoted": "Q",
    }
    for number in range(3)
]


@pytest.fixture
def c(server: InProcess, tmp_path: Path) -> Iterator[Connection]:
    with server.connect() as connection:
        run(connection, "CREATE OR REPLACE TABLE T (ORDER_ID VARCHAR, HAS_CAT BOOLEAN, TOPIC VARCHAR, TOTAL VARCHAR)")
        run(connection, "CREATE OR REPLACE TABLE OFFSETS (NEXT NUMBER)")
        run(connection, "INSERT INTO OFFSETS VALUES (0)")
        run(connection, "CREATE OR REPLACE STAGE S")
        pq.write_table(pa.table({"RECORD": [json.dumps(r) for r in RECORDS]}), tmp_path / "l.parquet")
        run(connection, f"PUT file://{tmp_path}/l.parquet @S/a/ AUTO_COMPRESS=FALSE")
        run(connection, f"CREATE OR REPLACE TEMPORARY TABLE {LANDING} (RECORD VARIANT)")
        yield connection


def landed(c: Connection) -> None:
    assert run(c, COPY)[0][:4] == ("s/a/l.parquet", "LOADED", 3, 3)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_landing_table_is_loaded_read_and_emptied_in_one_transaction(c: Connection, end: str) -> None:
    run(c, "BEGIN")
    landed(c)
    insert = f"""
        INSERT INTO T (ORDER_ID, HAS_CAT, TOPIC, TOTAL)
        SELECT $1:order_id::STRING, $1['has cat']::BOOLEAN, $1:RECORD_METADATA.topic::STRING AS topic,
               CONCAT($1['order_total']::STRING, ' USD')
        FROM {LANDING} WHERE $1:order_id::NUMBER > 0 AND topic = 'orders'"""
    assert run(c, insert) == [(2,)]
    assert run(c, f"DELETE FROM {LANDING}") == [(3,)]
    run(c, "UPDATE OFFSETS SET NEXT = NEXT + 3")
    run(c, end)
    kept = end == "COMMIT"
    rows = [("1", True, "orders", "9.5 USD"), ("2", False, "orders", "9.5 USD")]
    assert run(c, "SELECT * FROM T ORDER BY 1") == (rows if kept else [])
    assert run(c, "SELECT NEXT FROM OFFSETS") == [(3 if kept else 0,)]
    assert run(c, f"SELECT COUNT(*) FROM {LANDING}") == [(0,)]


def test_a_file_is_loaded_once_also_into_a_temporary_table(c: Connection) -> None:
    landed(c)
    assert run(c, COPY)[0][1] == "LOAD_SKIPPED"
    run(c, f"CREATE OR REPLACE TEMPORARY TABLE {LANDING} (RECORD VARIANT)")
    landed(c)


def test_a_rolled_back_load_is_forgotten(c: Connection) -> None:
    run(c, "BEGIN")
    landed(c)
    run(c, "ROLLBACK")
    landed(c)


def test_paths_into_a_column_by_position(c: Connection) -> None:
    landed(c)
    select = f"""
        SELECT $1:order_id, x.$1:"Quoted"::STRING, $1:parent['child field']::STRING, $1['parent']['b'][0]::INT,
               $1:parent.b[0], $1['Quoted'], $1:absent.x::NUMBER, TRY_CAST($1:Quoted::STRING AS NUMBER)
        FROM {LANDING} x WHERE x.$1:order_id = 2"""
    assert run(c, select) == [("2", "Q", "x", 2, "2", '"Q"', None, None)]


def test_positions_count_in_the_first_source_or_in_the_one_that_is_named(c: Connection) -> None:
    run(c, "INSERT INTO T VALUES ('7', TRUE, 't', 'u')")
    assert run(c, "SELECT $1, $3 FROM T") == [("7", "t")]
    assert run(c, "SELECT t.$1, o.$1 FROM T t JOIN OFFSETS o ON TRUE") == [("7", 0)]
    assert run(c, "SELECT $2 FROM (SELECT 1 AS a, 2 AS b)") == [(2,)]
    assert run(c, "WITH q AS (SELECT TOPIC FROM T) SELECT $1 FROM q") == [("t",)]
    assert run(c, "SELECT $1 FROM (VALUES (1), (2)) ORDER BY 1") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("expression", "code"),
    [("$1:Quoted::NUMBER", 100038), ("$2:a", 904), ("NOPE", 904), ("NOFN($1:a)", 2140)],
)
def test_a_statement_that_fails_leaves_the_transaction_and_its_landed_rows(
    c: Connection, expression: str, code: int
) -> None:
    run(c, "BEGIN")
    landed(c)
    with pytest.raises(ProgrammingError) as error:
        run(c, f"INSERT INTO T (ORDER_ID) SELECT {expression} FROM {LANDING}")
    assert error.value.errno == code
    assert run(c, f"SELECT COUNT(*) FROM {LANDING}") == [(3,)]
    run(c, "COMMIT")


def test_an_unknown_column_of_the_target_is_named(c: Connection) -> None:
    with pytest.raises(ProgrammingError, match="invalid identifier 'NOPE'") as error:
        run(c, f"INSERT INTO T (NOPE) SELECT $1:a FROM {LANDING}")
    assert error.value.errno == 904


def test_a_path_goes_into_a_column_of_text_without_its_quotes(c: Connection) -> None:
    run(c, 'CREATE OR REPLACE TABLE TAKEN (V VARIANT, N NUMBER, S VARCHAR, "t" VARCHAR)')
    landed(c)
    run(c, f"INSERT INTO TAKEN SELECT $1:Quoted, $1:order_id, $1:Quoted AS q, $1:parent.b FROM {LANDING} LIMIT 1")
    run(c, f'INSERT INTO TAKEN ("t", s, v) SELECT l.$1:Quoted, l.$1:nothing, l.$1 FROM {LANDING} l LIMIT 1')
    first, second = run(c, "SELECT * FROM TAKEN")
    assert first == ('"Q"', 0, "Q", "[0]")
    assert (json.loads(second[0]), *second[1:]) == (RECORDS[0], None, None, "Q")
