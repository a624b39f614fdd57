"""CREATE and ALTER TABLE as a sink and its users write them, what DESCRIBE and SHOW then say, and what columns take."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snowflake.connector.errors import DatabaseError, ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run


@pytest.fixture
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        run(connection, "CREATE OR REPLACE TABLE T (RECORD_METADATA VARIANT NOT NULL COMMENT 'the record''s place')")
        yield connection


def described(c: Connection, table: str = "T") -> dict[str, tuple[Any, ...]]:
    """Type, null?, default, comment by column."""
    return {r[0]: (r[1], r[3], r[4], r[9]) for r in run(c, f"DESCRIBE TABLE {table}")}


def shown(c: Connection, table: str) -> dict[str, Any]:
    with c.cursor() as cursor:
        cursor.execute(f"SHOW TABLES LIKE '{table}'")
        (row,) = cursor.fetchall()
        return dict(zip([column.name for column in cursor.description], row, strict=True))


def fails(c: Connection, sql: str) -> int:
    with pytest.raises(DatabaseError) as error:
        run(c, sql)
    return int(error.value.errno or 0)


def test_columns_are_added_once_with_any_name_and_described_as_declared(c: Connection) -> None:
    add = (
        "ALTER TABLE STREAMING.PUBLIC.T ADD COLUMN IF NOT EXISTS \"has cat\" VARCHAR(10) COMMENT 'it''s', "
        'IF NOT EXISTS "say ""hi""" NUMBER(38,0), lower TIME(6), IF NOT EXISTS "l" TIMESTAMP_LTZ(3)'
    )
    run(c, add)
    assert described(c) == {
        "RECORD_METADATA": ("VARIANT", "N", None, "the record's place"),
        "has cat": ("VARCHAR(10)", "Y", None, "it's"),
        'say "hi"': ("NUMBER(38,0)", "Y", None, None),
        "LOWER": ("TIME(6)", "Y", None, None),
        "l": ("TIMESTAMP_LTZ(3)", "Y", None, None),
    }
    run(c, 'ALTER TABLE T ADD COLUMN IF NOT EXISTS "has cat" NUMBER')
    assert described(c)["has cat"][0] == "VARCHAR(10)"
    assert fails(c, 'ALTER TABLE T ADD COLUMN "has cat" NUMBER') == 1430
    assert fails(c, "ALTER TABLE NOPE ADD COLUMN A NUMBER") == 2003


TYPES = {
    "VARCHAR": "VARCHAR(16777216)", "STRING(7)": "VARCHAR(7)", "CHAR": "VARCHAR(1)", "INT": "NUMBER(38,0)",
    "NUMBER(12,3)": "NUMBER(12,3)", "DOUBLE": "FLOAT", "BINARY": "BINARY(8388608)", "BINARY(20)": "BINARY(20)",
    "BOOLEAN": "BOOLEAN", "DATE": "DATE", "TIME": "TIME(9)", "DATETIME": "TIMESTAMP_NTZ(9)",
    "TIMESTAMP_NTZ(6)": "TIMESTAMP_NTZ(6)", "TIMESTAMP_LTZ": "TIMESTAMP_LTZ(9)", "TIMESTAMP_TZ": "TIMESTAMP_TZ(9)",
    "VARIANT": "VARIANT", "OBJECT": "OBJECT", "ARRAY": "ARRAY",
}  # fmt: skip


def test_every_type_is_described_as_snowflake_does(c: Connection) -> None:
    columns = ", ".join(f"C{i} {kind}" for i, kind in enumerate(TYPES))
    run(c, f"CREATE OR REPLACE TABLE TYPED ({columns})")
    assert [row[0] for row in described(c, "TYPED").values()] == list(TYPES.values())
    rows = run(
        c, "SELECT DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'TYPED' ORDER BY ORDINAL_POSITION"
    )
    names = [each.partition("(")[0].replace("VARCHAR", "TEXT") for each in TYPES.values()]
    assert [row[0] for row in rows] == names


def test_defaults_and_identities_are_described_by_their_text(c: Connection) -> None:
    run(
        c,
        "CREATE OR REPLACE TABLE D (ID INT AUTOINCREMENT START 1 INCREMENT 1, S VARCHAR(5) DEFAULT 'a' NOT NULL, "
        "TS TIMESTAMP_NTZ DEFAULT CURRENT_TIMESTAMP(), N NUMBER DEFAULT 7)",
    )
    assert [row[1:3] for row in described(c, "D").values()] == [
        ("Y", "IDENTITY START 1 INCREMENT 1 NOORDER"),
        ("N", "'a'"),
        ("Y", "CURRENT_TIMESTAMP()"),
        ("Y", "7"),
    ]
    run(c, "INSERT INTO D (N) VALUES (1)")
    assert run(c, "SELECT ID, S, N FROM D") == [(1, "a", 1)]


def test_a_column_becomes_nullable_and_wider_and_never_narrower(c: Connection) -> None:
    run(c, 'ALTER TABLE T ADD COLUMN "s" VARCHAR(5), N NUMBER(5,2)')
    for _ in range(2):
        run(c, "ALTER TABLE T ALTER COLUMN RECORD_METADATA DROP NOT NULL")
        run(c, 'ALTER TABLE T ALTER COLUMN "s" SET DATA TYPE VARCHAR(16777216)')
        run(c, "ALTER TABLE T ALTER COLUMN N SET DATA TYPE NUMBER(38, 2)")
    run(c, "INSERT INTO T (\"s\", N) VALUES ('longer than five', 123456789012345678901234567890.25)")
    assert [str(value) for value in run(c, 'SELECT "s", N FROM T')[0]] == [
        "longer than five",
        "123456789012345678901234567890.25",
    ]
    assert [row[:2] for row in described(c).values()] == [
        ("VARIANT", "Y"),
        ("VARCHAR(16777216)", "Y"),
        ("NUMBER(38,2)", "Y"),
    ]
    assert fails(c, 'ALTER TABLE T ALTER COLUMN "s" SET DATA TYPE VARCHAR(5)') == 2108
    assert fails(c, "ALTER TABLE T ALTER COLUMN N SET DATA TYPE NUMBER(38,3)") == 2108
    assert fails(c, "ALTER TABLE T ALTER COLUMN N SET DATA TYPE VARCHAR") == 2108
    assert fails(c, "ALTER TABLE T ALTER COLUMN NOPE DROP NOT NULL") == 904


def test_several_columns_change_in_one_statement_or_none(c: Connection) -> None:
    run(c, "ALTER TABLE T ADD COLUMN A VARCHAR(3) NOT NULL DEFAULT 'x', B NUMBER(3,0)")
    assert fails(c, "ALTER TABLE T ALTER COLUMN A DROP NOT NULL, COLUMN NOPE DROP NOT NULL") == 904
    assert described(c)["A"][1] == "N"
    run(c, "ALTER TABLE T MODIFY (A DROP NOT NULL, COLUMN B SET DATA TYPE NUMBER(38,0), B COMMENT 'wide')")
    assert (described(c)["A"][1], described(c)["B"]) == ("Y", ("NUMBER(38,0)", "Y", None, "wide"))


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        (
            "CREATE TABLE X (A INT) CLUSTER BY (A, TO_DATE(B)) ENABLE_SCHEMA_EVOLUTION = TRUE COMMENT = 'it''s'",
            ("TABLE", "LINEAR(A, TO_DATE(B))", "Y", "N", "it's"),
        ),
        ("CREATE TRANSIENT TABLE IF NOT EXISTS X (A INT)", ("TRANSIENT", "", "N", "N", "")),
        (
            "CREATE INTERACTIVE TABLE IF NOT EXISTS X (A INT, V VARIANT) CLUSTER BY (A) COMMENT = 'c'",
            ("TABLE", "LINEAR(A)", "N", "Y", "c"),
        ),
        (
            "CREATE OR REPLACE INTERACTIVE TABLE X CLUSTER BY (A) TARGET_LAG = '1 minute' WAREHOUSE = W AS SELECT 1 A",
            ("TABLE", "LINEAR(A)", "N", "Y", ""),
        ),
    ],
)
def test_the_type_of_a_table_is_shown(c: Connection, statement: str, wanted: tuple[str, ...]) -> None:
    run(c, "DROP TABLE IF EXISTS X")
    run(c, statement)
    row = shown(c, "X")
    keys = ("kind", "cluster_by", "enable_schema_evolution", "is_interactive", "comment")
    assert tuple(row[key] for key in keys) == wanted
    run(c, "INSERT INTO X (A) VALUES (1)")


def test_an_interactive_table_wants_a_clustering_key(c: Connection) -> None:
    assert fails(c, "CREATE INTERACTIVE TABLE Y (A INT)") == 1003


def test_evolution_and_clustering_are_switched_later(c: Connection) -> None:
    run(c, "ALTER TABLE T SET ENABLE_SCHEMA_EVOLUTION = TRUE")
    run(c, "ALTER TABLE T CLUSTER BY (RECORD_METADATA:offset)")
    assert shown(c, "T")["enable_schema_evolution"] == "Y"
    assert shown(c, "T")["cluster_by"].startswith("LINEAR(")
    run(c, "ALTER TABLE T SET ENABLE_SCHEMA_EVOLUTION = FALSE COMMENT = 'o''clock'")
    run(c, "ALTER TABLE T DROP CLUSTERING KEY")
    row = shown(c, "T")
    assert (row["enable_schema_evolution"], row["cluster_by"], row["comment"]) == ("N", "", "o'clock")


def test_alter_commits_what_is_open_and_waits_for_a_lock(server: InProcess, c: Connection) -> None:
    run(c, "INSERT INTO T SELECT PARSE_JSON('1')")
    with server.connect() as other:
        run(other, "BEGIN")
        run(other, "UPDATE T SET RECORD_METADATA = PARSE_JSON('2')")
        run(c, "ALTER SESSION SET LOCK_TIMEOUT = 1")
        assert fails(c, "ALTER TABLE T ADD COLUMN A INT") == 625
        run(other, "ALTER TABLE T ADD COLUMN B INT")
        assert run(c, "SELECT RECORD_METADATA FROM T") == [("2",)]
    run(c, "ALTER TABLE T ADD COLUMN A INT")


def test_sessions_that_change_one_table_at_once_queue_and_rows_of_others_go_in(server: InProcess) -> None:
    with server.connect() as c:
        run(c, "CREATE OR REPLACE TABLE Q (ID INT, N NUMBER(5,0) NOT NULL DEFAULT 1, S VARCHAR(5))")
    done = threading.Event()

    def change(session: int) -> None:
        with server.connect() as c:
            for number in range(8):
                run(c, f"ALTER TABLE Q ADD COLUMN IF NOT EXISTS C{number} VARCHAR, S{session}_{number} NUMBER")
                run(c, "ALTER TABLE Q ALTER COLUMN S SET DATA TYPE VARCHAR(16777216)")
                run(c, "ALTER TABLE Q ALTER COLUMN N SET DATA TYPE NUMBER(38,0), COLUMN N DROP NOT NULL")

    def insert() -> int:
        rows = 0
        with server.connect() as c:
            while not done.is_set():
                run(c, "BEGIN")
                run(c, "INSERT INTO Q (ID) VALUES (1)")
                run(c, "INSERT INTO Q (ID) VALUES (2)")
                run(c, "COMMIT")
                rows += 2
        return rows

    with ThreadPoolExecutor(4) as pool:
        inserting = pool.submit(insert)
        try:
            for change_done in [pool.submit(change, session) for session in range(3)]:
                change_done.result()
        finally:
            done.set()
        rows = inserting.result()
    with server.connect() as c:
        assert len(described(c, "Q")) == 3 + 8 + 3 * 8
        assert run(c, "SELECT COUNT(*) FROM Q") == [(rows,)]


def test_a_transaction_sees_a_column_that_another_session_added(server: InProcess, c: Connection) -> None:
    run(c, "BEGIN")
    run(c, "INSERT INTO T (RECORD_METADATA) SELECT PARSE_JSON('1')")
    with server.connect() as other:
        run(other, "ALTER TABLE T ADD COLUMN A INT")
    run(c, "INSERT INTO T (RECORD_METADATA, A) SELECT PARSE_JSON('2'), 2")
    run(c, "COMMIT")
    assert run(c, "SELECT A FROM T ORDER BY 1") == [(2,), (None,)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("INSERT INTO V (S) VALUES ('ok'), ('123456')", 100078),
        ('INSERT INTO V (S) SELECT PARSE_JSON(\'{"a":"123456"}\'):a', 100078),
        ("UPDATE V SET S = '123456'", 100078),
        ("SELECT '123456'::VARCHAR(5)", 100078),
        ("INSERT INTO V (S) VALUES (NULL)", 100072),
        ("INSERT INTO V (N) VALUES (1)", 100072),
        ("INSERT INTO V (S, N) VALUES ('a', 1234.5)", 100046),
        ("INSERT INTO V (S, N) VALUES ('a', 'x')", 100038),
    ],
)
def test_a_value_that_a_column_does_not_take_is_refused(c: Connection, sql: str, code: int) -> None:
    run(c, "CREATE OR REPLACE TABLE V (S VARCHAR(5) NOT NULL, N NUMBER(5,2))")
    run(c, "INSERT INTO V VALUES ('12345', 999.99)")
    assert fails(c, sql) == code
    assert len(run(c, "SELECT * FROM V")) == 1


CELLS: dict[str, tuple[str, str, list[str | None], list[Any]]] = {
    # column: type, expression, staged text, value
    "n": ("NUMBER(38,0)", "::NUMBER(38,0)", ["9" * 38, "-1", None], [int("9" * 38), -1, None]),
    "d d": ("NUMBER(38,9)", "::NUMBER(38,9)", ["0.000000001", "1", None], ["1E-9", "1.000000000", "None"]),
    "s": ("VARCHAR(10)", "::VARCHAR(10)", ['ü"q', "", None], ['ü"q', "", None]),
    "f": ("FLOAT", "::FLOAT", ["inf", "-inf", "1.5e300"], [float("inf"), float("-inf"), 1.5e300]),
    "b": ("BOOLEAN", "::BOOLEAN", ["true", "false", None], [True, False, None]),
    "day": ("DATE", "::DATE", ["0001-01-01", "9999-12-31", None], [date(1, 1, 1), date(9999, 12, 31), None]),
    "t": ("TIME(9)", "::TIME(9)", ["03:04:05.123456", "00:00:00", None], [time(3, 4, 5, 123456), time(0), None]),
    "ntz": (
        "TIMESTAMP_NTZ(9)", "::TIMESTAMP_NTZ(9)", ["2026-01-02 03:04:05.123456", "0001-01-01 00:00:00", None],
        [datetime(2026, 1, 2, 3, 4, 5, 123456), datetime(1, 1, 1), None],
    ),
    "ltz": ("TIMESTAMP_LTZ(9)", "::TIMESTAMP_LTZ(9)", ["2026-01-02 03:04:05.123456+02:00", None, None], []),
    "tz": ("TIMESTAMP_TZ(9)", "::TIMESTAMP_TZ(9)", ["2026-01-02 03:04:05.123456+02:00", None, None], []),
    "v": ("VARIANT", "PARSE_JSON", ['{"k":[1]}', "null", None], ['{"k":[1]}', "null", None]),
    "o": ("OBJECT", "PARSE_JSON OBJECT", ['{"a":1}', "{}", None], ['{"a":1}', "{}", None]),
    "a": ("ARRAY", "PARSE_JSON ARRAY", ["[1]", "[]", None], ["[1]", "[]", None]),
    "x": ("BINARY", "TO_BINARY", ["00ff", "", None], [b"\x00\xff", b"", None]),
    "def": ("NUMBER(38,0) DEFAULT 7", "NVL", [None, None, None], [7, 7, 7]),
}  # fmt: skip


def expression(path: str, how: str) -> str:
    """The cast of a staged cell, as the sink writes it."""
    if how.startswith("PARSE_JSON"):
        _, _, kind = how.partition(" ")
        return f"PARSE_JSON({path})" + (f"::{kind}" if kind else "")
    if how == "NVL":
        return f"NVL({path}::NUMBER(38,0), 7)"
    return f"TO_BINARY({path}::VARCHAR, 'HEX')" if how == "TO_BINARY" else f"{path}{how}"


def test_copy_casts_canonical_text_to_every_type(c: Connection, tmp_path: Path) -> None:
    staged = {f"C{i}": pa.array(cell[2], pa.string()) for i, cell in enumerate(CELLS.values())}
    pq.write_table(pa.table(staged), tmp_path / "cells.parquet")
    run(c, "CREATE OR REPLACE STAGE S")
    run(c, f"PUT file://{tmp_path}/cells.parquet @S/a/ AUTO_COMPRESS=FALSE")
    columns = [f'"{name}" {cell[0]}' for name, cell in CELLS.items()]
    names = [f'"{name}"' for name in CELLS]
    casts = [expression(f"$1:C{i}", cell[1]) for i, cell in enumerate(CELLS.values())]
    run(c, f"CREATE OR REPLACE TABLE CELLS ({', '.join(columns)})")
    run(
        c,
        f"COPY INTO CELLS ({', '.join(names)}) FROM (SELECT {', '.join(casts)} FROM '@S/a/') "
        "FILES = ('cells.parquet') FILE_FORMAT = (TYPE = PARQUET) ON_ERROR = ABORT_STATEMENT",
    )
    for name, cell in CELLS.items():
        values = [row[0] for row in run(c, f'SELECT "{name}" FROM CELLS')]
        if name.endswith("ltz") or name == "tz":
            assert [str(value) for value in values] == ["2026-01-02 01:04:05.123456+00:00", "None", "None"]
        else:
            assert ([str(value) for value in values] if name == "d d" else values) == cell[3]


def test_copy_names_the_file_of_a_text_that_is_too_long(c: Connection, tmp_path: Path) -> None:
    run(c, "CREATE OR REPLACE STAGE S")
    for name, text in (("good", "12345"), ("bad", "123456")):
        pq.write_table(pa.table({"C0": [text]}), tmp_path / f"{name}.parquet")
        run(c, f"PUT file://{tmp_path}/{name}.parquet @S/a/ AUTO_COMPRESS=FALSE")
    run(c, "CREATE OR REPLACE TABLE V (S VARCHAR(5))")
    copy = (
        "COPY INTO V (S) FROM (SELECT $1:C0{} FROM @S/a/) FILES = ('good.parquet', 'bad.parquet') "
        "FILE_FORMAT = (TYPE = PARQUET)"
    )
    for cast in ("", "::VARCHAR", "::VARCHAR(5)"):
        with pytest.raises(ProgrammingError, match=r"String '123456' is too long[\s\S]*s/a/bad.parquet") as error:
            run(c, copy.format(cast))
        assert error.value.errno == 100078
    assert run(c, "SELECT COUNT(*) FROM V") == [(0,)]
