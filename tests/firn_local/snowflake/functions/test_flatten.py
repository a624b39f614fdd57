"""FLATTEN with each of its arguments: the rows that Snowflake documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT SUM(f.value), MAX(f.value) FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[4, 9, 10]'))) f WHERE f.value > 5",
        [(19.0, "10")],
    ),
    ("SELECT value FROM TABLE(FLATTEN(PARSE_JSON('[\"a\", \"b\"]'))) WHERE value = 'b'", [('"b"',)]),
    (
        "SELECT f.INDEX, f.VALUE::INT, f.KEY, f.PATH FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[1,77]'))) f ORDER BY 1",
        [(0, 1, None, "[0]"), (1, 77, None, "[1]")],
    ),
    (
        "SELECT f.KEY, f.PATH, f.INDEX, f.VALUE FROM TABLE(FLATTEN(INPUT => "
        'PARSE_JSON(\'{"a":1,"b":[77,88]}\'), OUTER => TRUE)) f ORDER BY 1',
        [("a", "a", None, "1"), ("b", "b", None, "[77,88]")],
    ),
    (
        "SELECT f.INDEX, f.PATH, f.VALUE, f.THIS FROM TABLE(FLATTEN(INPUT => "
        "PARSE_JSON('{\"a\":1,\"b\":[77,88]}'), PATH => 'b')) f ORDER BY 1",
        [(0, "b[0]", "77", "[77,88]"), (1, "b[1]", "88", "[77,88]")],
    ),
    (
        "SELECT f.SEQ, f.KEY, f.PATH, f.INDEX, f.VALUE, f.THIS FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[]'))) f",
        [],
    ),
    (
        "SELECT f.KEY, f.PATH, f.INDEX, f.VALUE, f.THIS FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[]'), OUTER "
        "=> TRUE)) f",
        [(None, "", None, None, "[]")],
    ),
    (
        'SELECT f.KEY, f.PATH, f.VALUE FROM TABLE(FLATTEN(INPUT => PARSE_JSON(\'{"a":1, "b":[77,88], "c": '
        '{"d":"X"}}\'), RECURSIVE => TRUE)) f ORDER BY PATH',
        [
            ("a", "a", "1"),
            ("b", "b", "[77,88]"),
            (None, "b[0]", "77"),
            (None, "b[1]", "88"),
            ("c", "c", '{"d":"X"}'),
            ("d", "c.d", '"X"'),
        ],
    ),
    (
        'SELECT f.KEY, f.PATH FROM TABLE(FLATTEN(INPUT => PARSE_JSON(\'{"a":1, "b":[77,88], "c": {"d":"X"}}\'),'
        " RECURSIVE => TRUE, MODE => 'OBJECT')) f ORDER BY PATH",
        [("a", "a"), ("b", "b"), ("c", "c"), ("d", "c.d")],
    ),
    (
        "SELECT COUNT(*) FROM TABLE(FLATTEN(INPUT => PARSE_JSON('[1]'), MODE => 'OBJECT')) f",
        [(0,)],
    ),
    (
        "SELECT t.id, f.value::INT FROM (SELECT 1 id, PARSE_JSON('[1,2]') a UNION ALL SELECT 2, "
        "PARSE_JSON('[]') UNION ALL SELECT 3, NULL) t, LATERAL FLATTEN(INPUT => t.a, OUTER => TRUE) f ORDER "
        "BY 1, 2",
        [(1, 1), (1, 2), (2, None), (3, None)],
    ),
    (
        "SELECT t.id, f.value::INT FROM (SELECT 1 id, PARSE_JSON('{\"x\":[1,2]}') a UNION ALL SELECT 2, "
        "PARSE_JSON('{}')) t, LATERAL FLATTEN(t.a:x) f ORDER BY 1, 2",
        [(1, 1), (1, 2)],
    ),
    (
        "SELECT t.id, f.value:k::VARCHAR, g.value::INT FROM (SELECT 1 id, "
        'PARSE_JSON(\'{"x":[{"k":"p","l":[1,2]}]}\') a) t, LATERAL FLATTEN(INPUT => t.a:x) f, LATERAL '
        "FLATTEN(INPUT => f.value:l) g ORDER BY 3",
        [(1, "p", 1), (1, "p", 2)],
    ),
    (
        'SELECT t.id, value::VARCHAR FROM (SELECT 1 id, PARSE_JSON(\'{"x":["p"]}\') a) t LEFT JOIN LATERAL '
        "FLATTEN(INPUT => t.a, PATH => 'x') f ON TRUE",
        [(1, "p")],
    ),
    (
        'SELECT TYPEOF(f.value), f.value::INT, f.index FROM (SELECT PARSE_JSON(\'{"l":["1"]}\') v) t, LATERAL '
        "FLATTEN(INPUT => t.v:l) f WHERE f.value::INT = 1",
        [("VARCHAR", 1, 0)],
    ),
    (
        "SELECT value:a::INT FROM (SELECT PARSE_JSON('[{\"a\":1}]') v) t, TABLE(FLATTEN(t.v))",
        [(1,)],
    ),
]


@pytest.fixture(scope="module")
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


@pytest.mark.parametrize(("sql", "rows"), CASES)
def test_the_documented_rows_come_back(c: Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert run(c, sql) == rows


def test_seq_tells_input_rows_apart_that_are_equal(c: Connection) -> None:
    run(c, "CREATE OR REPLACE TABLE EQUALS (ID INT, V VARIANT)")
    run(c, "INSERT INTO EQUALS SELECT 1, PARSE_JSON('[[7, 8], [7, 8]]') FROM VALUES (1), (2)")
    assert run(c, "SELECT SEQ FROM TABLE(FLATTEN(PARSE_JSON('[1, 2]')))") == [(1,), (1,)]
    of_rows = "SELECT f.SEQ, COUNT(*) FROM {} , LATERAL FLATTEN(INPUT => t.v) f GROUP BY 1 ORDER BY 1"
    for source in ("EQUALS t", "EQUALS AS t", "(SELECT * FROM EQUALS) t", "PUBLIC.EQUALS t"):
        assert run(c, of_rows.format(source)) == [(1, 2), (2, 2)]
    nested = (
        "SELECT g.SEQ, COUNT(*), COUNT(DISTINCT f.SEQ) FROM EQUALS t, LATERAL FLATTEN(t.v) f, "
        "LATERAL FLATTEN(f.value) g GROUP BY 1"
    )
    assert [row[1:] for row in run(c, nested)] == [(2, 1)] * 4
    joined = (
        "SELECT f.SEQ, COUNT(*) FROM EQUALS t JOIN EQUALS u ON t.id = u.id "
        "LEFT JOIN LATERAL FLATTEN(INPUT => t.v) f ON TRUE GROUP BY 1"
    )
    assert [row[1] for row in run(c, joined)] == [2] * 4


def test_a_star_has_no_more_columns_than_the_sources_have(c: Connection) -> None:
    run(c, "CREATE OR REPLACE TABLE ONES (ID INT, V VARIANT)")
    run(c, "INSERT INTO ONES SELECT 5, PARSE_JSON('[9]')")
    flat = (1, None, "[0]", 0, "9", "[9]")
    assert run(c, "SELECT * FROM ONES, LATERAL FLATTEN(INPUT => V) f") == [(5, "[9]", *flat)]
    assert run(c, "SELECT ONES.*, f.SEQ FROM ONES, LATERAL FLATTEN(INPUT => ONES.V) f") == [(5, "[9]", 1)]
    assert run(c, "SELECT f.* FROM ONES o, TABLE(FLATTEN(o.V)) f") == [flat]
