"""TYPEOF, IS_, AS_, OBJECT_, ARRAY_ and GET functions: the results that Snowflake documents."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT TYPEOF(PARSE_JSON('null'))",
        [("NULL_VALUE",)],
    ),
    (
        "SELECT TYPEOF(PARSE_JSON(NULL))",
        [(None,)],
    ),
    (
        "SELECT TYPEOF(PARSE_JSON('true'))",
        [("BOOLEAN",)],
    ),
    (
        "SELECT TYPEOF(PARSE_JSON('-17'))",
        [("INTEGER",)],
    ),
    (
        "SELECT TYPEOF(PARSE_JSON('123.12'))",
        [("DECIMAL",)],
    ),
    (
        "SELECT TYPEOF(PARSE_JSON('\"x\"'))",
        [("VARCHAR",)],
    ),
    (
        "SELECT TYPEOF(PARSE_JSON('[1]'))",
        [("ARRAY",)],
    ),
    (
        "SELECT TYPEOF(PARSE_JSON('{\"a\":1}'))",
        [("OBJECT",)],
    ),
    (
        "SELECT TYPEOF(PARSE_JSON('{\"a\":1}'):a)",
        [("INTEGER",)],
    ),
    (
        "SELECT TYPEOF(TO_VARIANT(CURRENT_DATE()))",
        [("DATE",)],
    ),
    (
        "SELECT TYPEOF('2024-01-01'::DATE::VARIANT)",
        [("DATE",)],
    ),
    (
        "SELECT TYPEOF('12:00:00'::TIME::VARIANT)",
        [("TIME",)],
    ),
    (
        "SELECT TYPEOF('2024-01-01'::TIMESTAMP_NTZ::VARIANT)",
        [("TIMESTAMP_NTZ",)],
    ),
    (
        "SELECT TYPEOF(1.5::FLOAT::VARIANT)",
        [("DOUBLE",)],
    ),
    (
        "SELECT TYPEOF(v) FROM (SELECT PARSE_JSON('12.5') AS v)",
        [("DECIMAL",)],
    ),
    (
        "SELECT IS_NULL_VALUE(PARSE_JSON('{\"a\":null}'):a)",
        [(True,)],
    ),
    (
        "SELECT IS_NULL_VALUE(PARSE_JSON('{\"a\":1}'):a)",
        [(False,)],
    ),
    (
        "SELECT IS_NULL_VALUE(PARSE_JSON('{\"a\":1}'):b)",
        [(None,)],
    ),
    (
        "SELECT IS_ARRAY(PARSE_JSON('[1]')), IS_OBJECT(PARSE_JSON('[1]')), IS_VARCHAR(PARSE_JSON('\"a\"')), "
        "IS_CHAR(PARSE_JSON('\"a\"')), IS_INTEGER(PARSE_JSON('1')), IS_DECIMAL(PARSE_JSON('1.5')), "
        "IS_DOUBLE(PARSE_JSON('1.5')), IS_REAL(PARSE_JSON('1')), IS_BOOLEAN(PARSE_JSON('true'))",
        [(True, False, True, True, True, True, True, True, True)],
    ),
    (
        "SELECT IS_INTEGER(PARSE_JSON('1.5')), IS_DECIMAL(PARSE_JSON('\"1\"')), IS_BOOLEAN(PARSE_JSON('1')), "
        "IS_ARRAY(PARSE_JSON(NULL))",
        [(False, False, False, None)],
    ),
    (
        "SELECT IS_DATE(PARSE_JSON('\"x\"')), IS_TIMESTAMP_NTZ(PARSE_JSON('\"x\"')), IS_TIME(PARSE_JSON('\"x\"')), "
        "IS_BINARY(PARSE_JSON('\"x\"')), IS_DATE('2024-01-01'::DATE::VARIANT)",
        [(False, False, False, False, True)],
    ),
    (
        "SELECT AS_VARCHAR(PARSE_JSON('\"x\"')), AS_VARCHAR(PARSE_JSON('1')), AS_CHAR(PARSE_JSON('\"x\"')), "
        "AS_INTEGER(PARSE_JSON('5')), AS_INTEGER(PARSE_JSON('\"5\"')), AS_DOUBLE(PARSE_JSON('5.5')), "
        "AS_REAL(PARSE_JSON('1')), AS_BOOLEAN(PARSE_JSON('true')), AS_BOOLEAN(PARSE_JSON('1'))",
        [("x", None, "x", 5, None, 5.5, 1.0, True, None)],
    ),
    (
        "SELECT AS_NUMBER(PARSE_JSON('5.6')), AS_DECIMAL(PARSE_JSON('5.666'), 10, 2), AS_NUMBER(PARSE_JSON('\"5\"'))",
        [(6, Decimal("5.67"), None)],
    ),
    (
        "SELECT AS_ARRAY(PARSE_JSON('[1]')), AS_ARRAY(PARSE_JSON('{}')), AS_OBJECT(PARSE_JSON('{\"a\":1}')), "
        "AS_OBJECT(PARSE_JSON('[]'))",
        [("[1]", None, '{"a":1}', None)],
    ),
    (
        "SELECT TRY_PARSE_JSON('{\"a\":1}'), TRY_PARSE_JSON('{x'), TRY_PARSE_JSON('')",
        [('{"a":1}', None, None)],
    ),
    (
        'SELECT OBJECT_KEYS(PARSE_JSON(\'{"b":1,"a":{"c":2}}\'))',
        [('["b","a"]',)],
    ),
    (
        "SELECT OBJECT_CONSTRUCT('a', 1, 'b', NULL)",
        [('{"a":1}',)],
    ),
    (
        "SELECT OBJECT_CONSTRUCT_KEEP_NULL('a', 1, 'b', NULL)",
        [('{"a":1,"b":null}',)],
    ),
    (
        "SELECT OBJECT_CONSTRUCT()",
        [("{}",)],
    ),
    (
        "SELECT OBJECT_CONSTRUCT('a', PARSE_JSON('null'))",
        [('{"a":null}',)],
    ),
    (
        "SELECT OBJECT_CONSTRUCT(*) FROM (SELECT 1 AS A, 'x' AS B, NULL AS C)",
        [('{"A":1,"B":"x"}',)],
    ),
    (
        "SELECT OBJECT_INSERT(OBJECT_CONSTRUCT('a', 1), 'b', 2)",
        [('{"a":1,"b":2}',)],
    ),
    (
        "SELECT OBJECT_INSERT(OBJECT_CONSTRUCT('a', 1), 'a', 2, TRUE)",
        [('{"a":2}',)],
    ),
    (
        "SELECT OBJECT_INSERT(OBJECT_CONSTRUCT('a', 1), 'b', 'x')",
        [('{"a":1,"b":"x"}',)],
    ),
    (
        "SELECT OBJECT_INSERT(OBJECT_CONSTRUCT('a', 1), 'b', NULL)",
        [('{"a":1}',)],
    ),
    (
        "SELECT OBJECT_INSERT(OBJECT_CONSTRUCT('a', 1), 'b', PARSE_JSON('null'))",
        [('{"a":1,"b":null}',)],
    ),
    (
        "SELECT OBJECT_DELETE(OBJECT_CONSTRUCT('a', 1, 'b', 2, 'c', 3), 'a', 'b')",
        [('{"c":3}',)],
    ),
    (
        "SELECT OBJECT_PICK(OBJECT_CONSTRUCT('a', 1, 'b', 2, 'c', 3), 'a', 'b')",
        [('{"a":1,"b":2}',)],
    ),
    (
        "SELECT OBJECT_PICK(OBJECT_CONSTRUCT('a', 1, 'b', 2, 'c', 3), ARRAY_CONSTRUCT('a', 'z'))",
        [('{"a":1}',)],
    ),
    (
        "SELECT ARRAY_CONSTRUCT(1, 'a', NULL)",
        [('[1,"a",null]',)],
    ),
    (
        "SELECT ARRAY_CONSTRUCT_COMPACT(1, NULL, 2)",
        [("[1,2]",)],
    ),
    (
        "SELECT ARRAY_SIZE(ARRAY_CONSTRUCT(1,2)), ARRAY_SIZE(PARSE_JSON('{}'))",
        [(2, None)],
    ),
    (
        "SELECT ARRAY_APPEND(ARRAY_CONSTRUCT(1), 2), ARRAY_PREPEND(ARRAY_CONSTRUCT(1), 0), "
        "ARRAY_CAT(ARRAY_CONSTRUCT(1), ARRAY_CONSTRUCT('a'))",
        [("[1,2]", "[0,1]", '[1,"a"]')],
    ),
    (
        "SELECT ARRAY_APPEND(ARRAY_CONSTRUCT(1), 'a')",
        [('[1,"a"]',)],
    ),
    (
        "SELECT ARRAY_COMPACT(PARSE_JSON('[1,null,2]'))",
        [("[1,2]",)],
    ),
    (
        "SELECT ARRAY_CONTAINS('a'::VARIANT, ARRAY_CONSTRUCT('a','b')), ARRAY_CONTAINS(3::VARIANT, "
        "ARRAY_CONSTRUCT(1,2))",
        [(True, False)],
    ),
    (
        'SELECT ARRAY_CONTAINS(v:x, v:y) FROM (SELECT PARSE_JSON(\'{"x":1,"y":[1,2]}\') v)',
        [(True,)],
    ),
    (
        "SELECT ARRAY_DISTINCT(PARSE_JSON('[1,2,1]'))",
        [("[1,2]",)],
    ),
    (
        "SELECT ARRAY_EXCEPT(ARRAY_CONSTRUCT('A','B','B'), ARRAY_CONSTRUCT('B')), "
        "ARRAY_INTERSECTION(ARRAY_CONSTRUCT('A','B'), ARRAY_CONSTRUCT('B','C'))",
        [('["A","B"]', '["B"]')],
    ),
    (
        "SELECT ARRAY_INSERT(ARRAY_CONSTRUCT(0,1,3), 2, 2), ARRAY_INSERT(ARRAY_CONSTRUCT(0,1), -1, 9)",
        [("[0,1,2,3]", "[0,9,1]")],
    ),
    (
        "SELECT ARRAY_INSERT(ARRAY_CONSTRUCT(0), 3, 9)",
        [("[0,null,null,9]",)],
    ),
    (
        "SELECT ARRAY_MAX(ARRAY_CONSTRUCT(1,3,2)), ARRAY_MIN(ARRAY_CONSTRUCT(3,1))",
        [("3", "1")],
    ),
    (
        "SELECT ARRAY_POSITION('b'::VARIANT, ARRAY_CONSTRUCT('a','b')), ARRAY_POSITION('z'::VARIANT, "
        "ARRAY_CONSTRUCT('a'))",
        [(1, None)],
    ),
    (
        "SELECT ARRAY_REMOVE(ARRAY_CONSTRUCT(1,2,1), 1), ARRAY_REMOVE_AT(ARRAY_CONSTRUCT(1,2,3), 1)",
        [("[2]", "[1,3]")],
    ),
    (
        "SELECT ARRAY_SLICE(ARRAY_CONSTRUCT(0,1,2,3), 1, 3), ARRAY_SLICE(ARRAY_CONSTRUCT(0,1,2,3), 0, -1)",
        [("[1,2]", "[0,1,2]")],
    ),
    (
        "SELECT ARRAY_SORT(ARRAY_CONSTRUCT(3,1,2)), ARRAY_SORT(ARRAY_CONSTRUCT(1,3,2), FALSE)",
        [("[1,2,3]", "[3,2,1]")],
    ),
    (
        "SELECT ARRAY_TO_STRING(ARRAY_CONSTRUCT(1,'a',NULL), ', ')",
        [("1, a, ",)],
    ),
    (
        "SELECT ARRAY_TO_STRING(PARSE_JSON('[\"a\",\"b\"]'), '-')",
        [("a-b",)],
    ),
    (
        "SELECT ARRAYS_OVERLAP(ARRAY_CONSTRUCT('a'), ARRAY_CONSTRUCT('a','b')), "
        "ARRAYS_OVERLAP(ARRAY_CONSTRUCT(1), ARRAY_CONSTRUCT(2))",
        [(True, False)],
    ),
    (
        "SELECT ARRAY_FLATTEN(PARSE_JSON('[[1,2],[3]]'))",
        [("[1,2,3]",)],
    ),
    (
        "SELECT ARRAY_GENERATE_RANGE(2, 5), ARRAY_GENERATE_RANGE(5, 25, 10)",
        [("[2,3,4]", "[5,15]")],
    ),
    (
        "SELECT ARRAYS_TO_OBJECT(ARRAY_CONSTRUCT('a','b'), ARRAY_CONSTRUCT(1,2))",
        [('{"a":1,"b":2}',)],
    ),
    (
        "SELECT GET(PARSE_JSON('[\"a\",\"b\"]'), 1), GET(PARSE_JSON('{\"k\":5}'), 'k'), GET(PARSE_JSON('[1]'), 5), "
        "GET(PARSE_JSON('{\"k\":5}'), 'K')",
        [('"b"', "5", None, None)],
    ),
    (
        "SELECT GET(v, k) FROM (SELECT PARSE_JSON('{\"a.b\":5}') v, 'a.b' k)",
        [("5",)],
    ),
    (
        "SELECT GET_IGNORE_CASE(PARSE_JSON('{\"Kk\":5}'), 'KK')",
        [("5",)],
    ),
    (
        "SELECT GET_PATH(PARSE_JSON('{\"a\":[{\"b\":7}]}'), 'a[0].b'), GET_PATH(PARSE_JSON('{\"a b\":1}'), '[\"a "
        "b\"]')",
        [("7", "1")],
    ),
    (
        "SELECT GET_PATH(v, 'a.b')::INT FROM (SELECT PARSE_JSON('{\"a\":{\"b\":3}}') v)",
        [(3,)],
    ),
    (
        "SELECT v:a[0].b::INT, v['a'][0]['b']::VARCHAR, v:\"a\"[1] FROM (SELECT "
        'PARSE_JSON(\'{"a":[{"b":3},null]}\') v)',
        [(3, "3", "null")],
    ),
    (
        "SELECT v:a::VARCHAR, v:s::VARCHAR, v:o::VARCHAR, v:n::VARCHAR FROM (SELECT "
        'PARSE_JSON(\'{"a":[1],"s":"x","o":{"k":1},"n":null}\') v)',
        [("[1]", "x", '{"k":1}', None)],
    ),
    (
        "SELECT v::VARCHAR FROM (SELECT PARSE_JSON('\"x\"') v)",
        [("x",)],
    ),
    (
        'SELECT TO_VARCHAR(PARSE_JSON(\'"x"\')), TO_VARCHAR(v:s) FROM (SELECT PARSE_JSON(\'{"s":"y"}\') v)',
        [("x", "y")],
    ),
    (
        "SELECT TO_JSON(PARSE_JSON('\"x\"')), TO_JSON(OBJECT_CONSTRUCT('a', 1))",
        [('"x"', '{"a":1}')],
    ),
    (
        'SELECT PARSE_JSON(\'{"a":1.5}\'):a::INT, PARSE_JSON(\'{"a":"7"}\'):a::INT, '
        "PARSE_JSON('{\"a\":2.5}'):a::NUMBER(10,0)",
        [(2, 7, 3)],
    ),
    (
        'SELECT PARSE_JSON(\'{"a":1}\'):a = 1, PARSE_JSON(\'{"a":"x"}\'):a = \'x\', PARSE_JSON(\'{"a":"x"}\'):a IN '
        "('x','y'), PARSE_JSON('{\"a\":5}'):a > 3",
        [(True, True, True, True)],
    ),
    (
        "SELECT PARSE_JSON('{\"a\":5}'):a + 1",
        [(6,)],
    ),
    (
        "SELECT PARSE_JSON('{\"a\":\"x\"}'):a || 'y'",
        [("xy",)],
    ),
    (
        "SELECT COALESCE(PARSE_JSON('{\"a\":\"x\"}'):a::VARCHAR, 'n')",
        [("x",)],
    ),
    (
        "SELECT COUNT(*) FROM (SELECT PARSE_JSON('{\"a\":true}') v) WHERE v:a",
        [(1,)],
    ),
    (
        "SELECT STRIP_NULL_VALUE(PARSE_JSON('{\"a\":null}'):a)",
        [(None,)],
    ),
    (
        "SELECT CHECK_JSON('{\"a\":1}'), CHECK_JSON('{x') IS NOT NULL",
        [(None, True)],
    ),
    (
        "SELECT TRANSFORM(ARRAY_CONSTRUCT(1,2), x -> x * 2), FILTER(ARRAY_CONSTRUCT(1,2,3), x INT -> x > 1), "
        "REDUCE(ARRAY_CONSTRUCT(1,2), 0, (acc, x) -> acc + x)",
        [("[2,4]", "[2,3]", 3)],
    ),
    (
        "SELECT v:a::INT FROM (SELECT PARSE_JSON('{\"a\":9}') v UNION ALL SELECT PARSE_JSON('{\"a\":10}')) ORDER "
        "BY v:a DESC",
        [(10,), (9,)],
    ),
    (
        "SELECT x::VARIANT, TO_VARIANT(x), TYPEOF(x::VARIANT), 'a'::VARIANT FROM (SELECT 'p' x)",
        [('"p"', '"p"', "VARCHAR", '"a"')],
    ),
    (
        "SELECT IFF(TYPEOF(v) = 'ARRAY', v[0], v)::VARCHAR FROM (SELECT PARSE_JSON('[\"a\"]') v UNION ALL "
        "SELECT PARSE_JSON('\"b\"')) ORDER BY 1",
        [("a",), ("b",)],
    ),
    (
        "SELECT LOWER(v:a), UPPER(v:a), TRIM(v:a), v:a LIKE 'x%', LENGTH(v:a::VARCHAR), CONCAT(v:a, '-', 1), "
        "v:a || v:b, REPLACE(v:a, 'x', 'z') FROM (SELECT PARSE_JSON('{\"a\":\"xY\",\"b\":1}') v)",
        [("xy", "XY", "xY", True, 2, "xY-1", "xY1", "zY")],
    ),
    (
        "SELECT NVL(v:a, v:b)::INT, COALESCE(v:x, v:b)::VARCHAR, CASE WHEN v:b = 1 THEN v:b ELSE v:a END::INT"
        " FROM (SELECT PARSE_JSON('{\"b\":1}') v)",
        [(1, "1", 1)],
    ),
    (
        'SELECT COUNT(*) FROM (SELECT PARSE_JSON(\'{"a":"x","n":5}\') v) WHERE v:a = \'x\' AND v:n BETWEEN 4 AND '
        "6 AND v:n <> 4 AND v:n::INT IN (5) AND v:a IS NOT NULL AND v:zz IS NULL",
        [(1,)],
    ),
    (
        "SELECT * FROM (SELECT PARSE_JSON('{\"k\":\"c1\"}') v) a JOIN (SELECT 'c1' id) b ON a.v:k = b.id",
        [('{"k":"c1"}', "c1")],
    ),
    (
        "SELECT a.v:k::VARCHAR FROM (SELECT PARSE_JSON('{\"k\":\"c1\"}') v) a JOIN (SELECT 'c1' id) b ON "
        "a.v:k::VARCHAR = b.id",
        [("c1",)],
    ),
    (
        "SELECT OBJECT_CONSTRUCT('a', (SELECT 1), 'd', '2024-01-01'::DATE, 'x', OBJECT_CONSTRUCT('y', "
        "ARRAY_CONSTRUCT(1)))",
        [('{"a":1,"d":"2024-01-01","x":{"y":[1]}}',)],
    ),
]


@pytest.fixture(scope="module")
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


@pytest.mark.parametrize(("sql", "rows"), CASES)
def test_the_documented_rows_come_back(c: Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert run(c, sql) == rows


def test_a_key_that_is_there_is_inserted_only_with_the_update_flag(c: Connection) -> None:
    with pytest.raises(ProgrammingError, match="Duplicate field key 'a'"):
        run(c, "SELECT OBJECT_INSERT(OBJECT_CONSTRUCT('a', 1), 'a', 2)")


def test_columns_without_an_alias_are_named_by_their_text(c: Connection) -> None:
    with c.cursor() as cursor:
        cursor.execute("SELECT typeof(v), v:a::int, sum(x) FROM (SELECT PARSE_JSON('{}') v, 1 x) GROUP BY ALL")
        assert [column.name for column in cursor.description][::2] == ["TYPEOF(V)", "SUM(X)"]


def test_functions_work_in_views_and_tables_made_of_queries(c: Connection) -> None:
    run(c, "CREATE TABLE RAW (ID INT, V VARIANT)")
    run(c, """INSERT INTO RAW SELECT 1, PARSE_JSON('{"items": [{"sku": "a", "n": 2}, {"sku": "b", "n": 1.5}]}')""")
    run(
        c,
        "CREATE VIEW ITEMS AS SELECT R.ID, F.INDEX AS LINE, F.VALUE:sku::VARCHAR AS SKU, TYPEOF(F.VALUE:n) AS KIND, "
        "F.VALUE:n::NUMBER(10, 2) AS N FROM RAW R, LATERAL FLATTEN(INPUT => R.V, PATH => 'items') F",
    )
    expected = [(1, 0, "a", "INTEGER", 2), (1, 1, "b", "DECIMAL", 1.5)]
    assert run(c, "SELECT * FROM ITEMS ORDER BY LINE") == expected
    run(c, "CREATE DATABASE ELSEWHERE")
    assert run(c, "SELECT * FROM STREAMING.PUBLIC.ITEMS ORDER BY LINE") == expected
    run(c, "CREATE TABLE STREAMING.PUBLIC.KEPT AS SELECT * FROM STREAMING.PUBLIC.ITEMS")
    assert [row[1] for row in run(c, "DESC TABLE STREAMING.PUBLIC.KEPT")] == [
        "NUMBER(38,0)",
        "NUMBER(38,0)",
        "VARCHAR(16777216)",
        "VARCHAR(16777216)",
        "NUMBER(10,2)",
    ]
    run(c, "UPDATE STREAMING.PUBLIC.RAW SET V = ARRAY_CONSTRUCT(ID, V:items[0]:sku)")
    assert run(c, "SELECT V FROM STREAMING.PUBLIC.RAW WHERE TYPEOF(V) = 'ARRAY'") == [('[1,"a"]',)]
