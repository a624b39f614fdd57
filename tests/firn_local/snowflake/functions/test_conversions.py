"""Casts, TRY_ functions, times of numbers, rounding: the results that Snowflake documents."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT TRY_CAST('a' AS INT), TRY_CAST('12' AS INT), TRY_CAST('2024-13-01' AS DATE), TRY_CAST('1.5' "
        "AS NUMBER(10,1)), TRY_CAST('05-Mar-2016' AS TIMESTAMP)",
        [(None, 12, None, Decimal("1.5"), datetime(2016, 3, 5, 0, 0))],
    ),
    (
        "SELECT TRY_TO_NUMBER('12.6'), TRY_TO_NUMBER('x'), TRY_TO_DECIMAL('12.345', 10, 2), "
        "TRY_TO_NUMERIC('1', 10), TRY_TO_DECIMAL('99999', 3)",
        [(13, None, Decimal("12.35"), 1, None)],
    ),
    (
        "SELECT TRY_TO_NUMBER('$12.6', '$99.9', 5, 1)",
        [(Decimal("12.6"),)],
    ),
    (
        "SELECT TRY_TO_DOUBLE('3.25'), TRY_TO_DOUBLE('x')",
        [(3.25, None)],
    ),
    (
        "SELECT TRY_TO_DATE('2024-05-06'), TRY_TO_DATE('x'), TRY_TO_DATE('06/05/2024', 'DD/MM/YYYY')",
        [(date(2024, 5, 6), None, date(2024, 5, 6))],
    ),
    (
        "SELECT TRY_TO_TIMESTAMP('2024-05-06 07:08:09'), TRY_TO_TIMESTAMP('x'), "
        "TRY_TO_TIMESTAMP_NTZ('2024-05-06'), TRY_TO_TIMESTAMP('x', 'YYYY')",
        [(datetime(2024, 5, 6, 7, 8, 9), None, datetime(2024, 5, 6, 0, 0), None)],
    ),
    (
        "SELECT TRY_TO_TIMESTAMP_TZ('2024-05-06 07:08:09 +02:00')::VARCHAR LIKE '2024-05-06 05:08:09%'",
        [(True,)],
    ),
    (
        "SELECT TRY_TO_BOOLEAN('yes'), TRY_TO_BOOLEAN('off'), TRY_TO_BOOLEAN('x'), TO_BOOLEAN('t'), "
        "TO_BOOLEAN(1), TO_BOOLEAN('no')",
        [(True, False, None, True, True, False)],
    ),
    (
        "SELECT TRY_TO_TIME('12:30:00'), TRY_TO_TIME('x')",
        [(time(12, 30), None)],
    ),
    (
        "SELECT TRY_TO_BINARY('AB', 'HEX'), TRY_TO_BINARY('zz', 'HEX')",
        [(b"\xab", None)],
    ),
    (
        "SELECT IFF(TRUE, 'a', 'b'), IFF(NULL, 1, 2), NVL(NULL, 2), NVL2(NULL, 1, 2), NVL2(5, 1, 2), "
        "ZEROIFNULL(NULL), ZEROIFNULL(3), NULLIFZERO(0), NULLIF(1, 1), IFNULL(NULL, 4)",
        [("a", 2, 2, 2, 1, 0, 3, None, None, 4)],
    ),
    (
        "SELECT EQUAL_NULL(NULL, NULL), EQUAL_NULL(1, NULL), EQUAL_NULL(1, 1), 1 IS DISTINCT FROM NULL",
        [(True, False, True, True)],
    ),
    (
        "SELECT TO_TIMESTAMP_NTZ(1700000000), TO_TIMESTAMP_NTZ(1700000000123, 3), "
        "TO_TIMESTAMP_NTZ(1700000000123456, 6), TO_TIMESTAMP_NTZ(1700000000123456789, 9)",
        [
            (
                datetime(2023, 11, 14, 22, 13, 20),
                datetime(2023, 11, 14, 22, 13, 20, 123000),
                datetime(2023, 11, 14, 22, 13, 20, 123456),
                datetime(2023, 11, 14, 22, 13, 20, 123456),
            )
        ],
    ),
    (
        "SELECT TO_TIMESTAMP('1700000000'), TO_TIMESTAMP('1700000000123'), TO_TIMESTAMP('1700000000123456')",
        [
            (
                datetime(2023, 11, 14, 22, 13, 20),
                datetime(2023, 11, 14, 22, 13, 20, 123000),
                datetime(2023, 11, 14, 22, 13, 20, 123456),
            )
        ],
    ),
    (
        "SELECT TO_TIMESTAMP(v:t::NUMBER, 3), TO_TIMESTAMP_NTZ(v:t::NUMBER / 1000), TO_TIMESTAMP(v:s) FROM "
        '(SELECT PARSE_JSON(\'{"t":1700000000123,"s":1700000000}\') v)',
        [
            (
                datetime(2023, 11, 14, 22, 13, 20, 123000),
                datetime(2023, 11, 14, 22, 13, 20, 123000),
                datetime(2023, 11, 14, 22, 13, 20),
            )
        ],
    ),
    (
        "SELECT TO_TIMESTAMP_LTZ(1700000000)::VARCHAR LIKE '2023-11-14 22:13:20%', "
        "TO_TIMESTAMP_TZ(1700000000123, 3)::VARCHAR LIKE '2023-11-14 22:13:20.123%'",
        [(True, True)],
    ),
    (
        "SELECT TO_TIMESTAMP_TZ('2024-01-01 00:00:00 +02:00')::VARCHAR LIKE '2023-12-31 22:00:00%'",
        [(True,)],
    ),
    (
        "SELECT TO_TIMESTAMP('2024-05-06T07:08:09.123Z'), TO_TIMESTAMP('06/05/2024 07', 'DD/MM/YYYY HH24'), "
        "TO_TIMESTAMP('2024-05-06'::DATE)",
        [(datetime(2024, 5, 6, 7, 8, 9, 123000), datetime(2024, 5, 6, 7, 0), datetime(2024, 5, 6, 0, 0))],
    ),
    (
        "SELECT TO_TIMESTAMP_NTZ(40*365.25*86400), 1700000000::TIMESTAMP",
        [(datetime(2010, 1, 1, 0, 0), datetime(2023, 11, 14, 22, 13, 20))],
    ),
    (
        "SELECT TO_DATE('2024-05-06'), TO_DATE('06-May-2024'), TO_DATE('20240506', 'YYYYMMDD'), "
        "TO_DATE('1700000000'), TO_DATE(TO_TIMESTAMP(1700000000))",
        [(date(2024, 5, 6), date(2024, 5, 6), date(2024, 5, 6), date(2023, 11, 14), date(2023, 11, 14))],
    ),
    (
        "SELECT TO_TIME('12:30:01'), TO_TIME('1:30 pm', 'HH12:MI AM')",
        [(time(12, 30, 1), time(13, 30))],
    ),
    (
        "SELECT 1.005::NUMBER(10,2), 2.5::NUMBER(10,0), (-2.5)::NUMBER(10,0), '1.005'::NUMBER(10,2), "
        "1.005::FLOAT::NUMBER(10,2), 2.5::INT",
        [(Decimal("1.01"), 3, -3, Decimal("1.01"), Decimal("1.00"), 3)],
    ),
    (
        "SELECT TO_NUMBER('12.5', 10, 1), TO_DECIMAL('12.34', 10, 1), TO_DOUBLE('1.5'), TO_NUMBER('1,234', '9,999')",
        [(Decimal("12.5"), Decimal("12.3"), 1.5, 1234)],
    ),
    (
        "SELECT v::INT, v::FLOAT, v::BOOLEAN, v::NUMBER(10,1), v::STRING FROM (SELECT PARSE_JSON('\"1\"') v)",
        [(1, 1.0, True, 1.0, "1")],
    ),
    (
        "SELECT v::DATE, v::TIMESTAMP, v::TIMESTAMP_TZ IS NOT NULL, v::TIMESTAMP_NTZ::DATE FROM (SELECT "
        "PARSE_JSON('\"2024-05-06 07:08:09\"') v)",
        [(date(2024, 5, 6), datetime(2024, 5, 6, 7, 8, 9), True, date(2024, 5, 6))],
    ),
    (
        "SELECT v::DATE, v::TIMESTAMP, v::VARCHAR FROM (SELECT '2024-05-06 07:08:09' v)",
        [(date(2024, 5, 6), datetime(2024, 5, 6, 7, 8, 9), "2024-05-06 07:08:09")],
    ),
    (
        "SELECT v::TIMESTAMP_NTZ FROM (SELECT '2024-05-06 07:08:09+02:00' v)",
        [(datetime(2024, 5, 6, 7, 8, 9),)],
    ),
    (
        "SELECT d::TIMESTAMP, t::DATE, t::VARCHAR FROM (SELECT '2024-05-06'::DATE d, '2024-05-06 "
        "01:02:03'::TIMESTAMP t)",
        [(datetime(2024, 5, 6, 0, 0), date(2024, 5, 6), "2024-05-06 01:02:03")],
    ),
    (
        "SELECT x::INT, (x * 1)::INT, (x / 1)::NUMBER FROM (SELECT 2.5::FLOAT x)",
        [(3, 3, 3)],
    ),
    (
        "SELECT TRY_CAST(v AS INT), TRY_CAST(v AS DATE), TRY_CAST(v AS TIMESTAMP) FROM (SELECT 'x' v)",
        [(None, None, None)],
    ),
    (
        "SELECT TO_TIMESTAMP(v) FROM (SELECT 1700000000 v)",
        [(datetime(2023, 11, 14, 22, 13, 20),)],
    ),
    (
        "SELECT TO_TIMESTAMP('1700000000')::DATE, '1700000000'::TIMESTAMP",
        [(date(2023, 11, 14), datetime(2023, 11, 14, 22, 13, 20))],
    ),
    (
        "SELECT 1 / 4, 1.0 / 4, x / 2 FROM (SELECT 3 x)",
        [(0.25, 0.25, 1.5)],
    ),
    (
        "SELECT TO_NUMBER(v:n), TO_DOUBLE(v:n), TO_BOOLEAN(v:b), TO_DATE(v:d), TO_NUMBER(v:p, 10, 2) FROM "
        '(SELECT PARSE_JSON(\'{"n":"5","b":"true","d":"2024-05-06","p":1.255}\') v)',
        [(5, 5.0, True, date(2024, 5, 6), Decimal("1.26"))],
    ),
    (
        "SELECT {'a': 1, 'b': [1, 2]}",
        [('{"a":1,"b":[1,2]}',)],
    ),
]


@pytest.fixture(scope="module")
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


@pytest.mark.parametrize(("sql", "rows"), CASES)
def test_the_documented_rows_come_back(c: Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert run(c, sql) == rows


@pytest.mark.parametrize(
    ("sql", "errno", "words"),
    [
        ("SELECT CAST(12345678901::NUMBER AS NUMBER(10, 0))", 100046, "out of representable range"),
        ("SELECT (99999999999999999999999999999999999999 + x)::NUMBER FROM (SELECT 1 x)", 100046, "Number out of"),
        ("SELECT 1 / x FROM (SELECT 0 x)", 100051, "Division by zero"),
        ("SELECT TO_TIMESTAMP('soon')", 100038, "soon"),
        ("SELECT PARSE_JSON('\"x\"')::INT", 100038, "x"),
        ("SELECT TO_CHAR(1234.5, '9,999.0')", 2, "TO_VARCHAR format"),
    ],
)
def test_what_cannot_be_converted_is_an_error(c: Connection, sql: str, errno: int, words: str) -> None:
    with pytest.raises(ProgrammingError, match=words) as error:
        run(c, sql)
    assert error.value.errno == errno


def test_a_column_of_fewer_digits_takes_a_rounded_number(c: Connection) -> None:
    run(c, "CREATE TABLE N (WHOLE NUMBER, SMALL INT, CENTS NUMBER(10, 2))")
    run(c, "INSERT INTO N SELECT 2.5::FLOAT, '3.5', 1.005")
    run(
        c,
        "INSERT INTO N SELECT V:total, V:total, V:cents "
        'FROM (SELECT PARSE_JSON(\'{"total":99.5,"cents":-0.125}\') AS V)',
    )
    run(c, "INSERT INTO N (WHOLE) SELECT X FROM (SELECT -2.5::FLOAT X)")
    assert run(c, "SELECT * FROM N ORDER BY 1") == [
        (-3, None, None),
        (3, 4, Decimal("1.01")),
        (100, 100, Decimal("-0.13")),
    ]
    for value in ("100000000000000000000000000000000000000 * 1", "1e39::FLOAT"):
        with pytest.raises(ProgrammingError, match="out of"):
            run(c, f"INSERT INTO N (WHOLE) SELECT {value}")
    with pytest.raises(ProgrammingError, match="out of"):
        run(c, "INSERT INTO N (CENTS) SELECT 123456789.5")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO HALVES SELECT * FROM FLOATS",
        "INSERT INTO HALVES SELECT * FROM FLOATS WHERE A > 0 UNION ALL SELECT * FROM FLOATS WHERE A <= 0",
        "INSERT INTO HALVES WITH X AS (SELECT * FROM FLOATS) SELECT X.* FROM X",
        "INSERT OVERWRITE INTO HALVES (N, D, S) SELECT * FROM FLOATS",
        "MERGE INTO HALVES T USING FLOATS F ON FALSE WHEN NOT MATCHED THEN INSERT (N, D, S) VALUES (F.A, F.B, F.C)",
        "MERGE INTO HALVES T USING FLOATS F ON FALSE WHEN NOT MATCHED THEN INSERT VALUES (F.A, F.B, F.C)",
        "BEGIN; INSERT INTO HALVES (N, D, S) SELECT -9, -9, C FROM FLOATS; MERGE INTO HALVES T USING FLOATS F ON "
        "T.S = F.C WHEN MATCHED THEN UPDATE SET N = F.A, T.D = F.B; COMMIT",
    ],
)
def test_a_half_goes_away_from_zero_however_it_comes(c: Connection, statement: str) -> None:
    run(c, "CREATE OR REPLACE TABLE FLOATS (A FLOAT, B FLOAT, C VARCHAR)")
    run(c, "INSERT INTO FLOATS VALUES (2.5, 0.125, 'a'), (-2.5, -0.125, 'b'), (0.5, 0.375, 'c')")
    run(c, "CREATE OR REPLACE TABLE HALVES (N NUMBER(3, 0), D NUMBER(5, 2), S VARCHAR(1))")
    for each in statement.split("; "):
        run(c, each)
    rows = [(row[0], str(row[1]), row[2]) for row in run(c, "SELECT N, D, S FROM HALVES ORDER BY S")]
    assert rows == [(3, "0.13", "a"), (-3, "-0.13", "b"), (1, "0.38", "c")]


@pytest.mark.parametrize(
    ("statement", "errno"),
    [
        ("INSERT INTO SMALL SELECT * FROM LARGE WHERE S = 'a'", 100046),
        ("INSERT INTO SMALL SELECT * FROM LARGE WHERE S = 'too long'", 100078),
        (
            "MERGE INTO SMALL T USING LARGE L ON FALSE WHEN NOT MATCHED AND S = 'a' THEN INSERT (N, S) VALUES (N, S)",
            100046,
        ),
        (
            "MERGE INTO SMALL T USING LARGE L ON FALSE WHEN NOT MATCHED THEN INSERT (N, S) VALUES (1, L.S)",
            100078,
        ),
    ],
)
def test_what_does_not_fit_is_refused_however_it_comes(c: Connection, statement: str, errno: int) -> None:
    run(c, "CREATE OR REPLACE TABLE LARGE (N FLOAT, S VARCHAR)")
    run(c, "INSERT INTO LARGE VALUES (1e39, 'a'), (1, 'too long')")
    run(c, "CREATE OR REPLACE TABLE SMALL (N NUMBER(38, 0), S VARCHAR(3))")
    with pytest.raises(ProgrammingError) as raised:
        run(c, statement)
    assert raised.value.errno == errno


def test_a_query_of_another_number_of_columns_is_refused(c: Connection) -> None:
    run(c, "CREATE OR REPLACE TABLE PAIRS (A INT, B INT)")
    run(c, "CREATE OR REPLACE TABLE TRIPLES (A INT, B INT, C INT)")
    for table in ("PAIRS", "TRIPLES"):
        other = "TRIPLES" if table == "PAIRS" else "PAIRS"
        with pytest.raises(ProgrammingError):
            run(c, f"INSERT INTO {table} SELECT * FROM {other}")
