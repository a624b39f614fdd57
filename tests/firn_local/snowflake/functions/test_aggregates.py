"""ARRAY_AGG, LISTAGG, SUM, MAX of VARIANTs, HASH, QUALIFY."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT OBJECT_AGG(k, v) FROM (SELECT 'a' k, 1::VARIANT v UNION ALL SELECT 'b', 2::VARIANT)",
        [('{"a":1,"b":2}',)],
    ),
    (
        "SELECT ARRAY_AGG(x) WITHIN GROUP (ORDER BY x DESC) FROM (SELECT 1 x UNION ALL SELECT 3 UNION ALL "
        "SELECT NULL UNION ALL SELECT 2)",
        [("[3,2,1]",)],
    ),
    (
        "SELECT ARRAY_AGG(DISTINCT x) WITHIN GROUP (ORDER BY x) FROM (SELECT 1 x UNION ALL SELECT 1 UNION ALL"
        " SELECT 2)",
        [("[1,2]",)],
    ),
    (
        "SELECT ARRAY_AGG(x) FROM (SELECT 1 x WHERE FALSE)",
        [("[]",)],
    ),
    (
        "SELECT ARRAY_AGG(x) WITHIN GROUP (ORDER BY y) OVER (PARTITION BY g) FROM (SELECT 1 g, 2 y, 'a' x "
        "UNION ALL SELECT 1, 1, 'b') LIMIT 1",
        [('["b","a"]',)],
    ),
    (
        "SELECT ARRAY_UNIQUE_AGG(x) FROM (SELECT 1 x UNION ALL SELECT 1)",
        [("[1]",)],
    ),
    (
        "SELECT x FROM (SELECT 1 x, 1 y UNION ALL SELECT 2, 1) QUALIFY ROW_NUMBER() OVER (PARTITION BY y "
        "ORDER BY x DESC) = 1",
        [(2,)],
    ),
    (
        "SELECT LISTAGG(x, ',') WITHIN GROUP (ORDER BY x DESC), LISTAGG(DISTINCT x, '|') WITHIN GROUP (ORDER "
        "BY x) FROM (SELECT 'a' x UNION ALL SELECT 'b' UNION ALL SELECT 'a' UNION ALL SELECT NULL)",
        [("b,a,a", "a|b")],
    ),
    (
        "SELECT LISTAGG(x) FROM (SELECT 'a' x WHERE FALSE)",
        [("",)],
    ),
    (
        "SELECT LISTAGG(x, ',') WITHIN GROUP (ORDER BY x) FROM (SELECT 2 x UNION ALL SELECT 1)",
        [("1,2",)],
    ),
    (
        "SELECT HASH(1) = HASH(1), HASH('a', 2) = HASH('a', 2), HASH(1) = HASH(2), HASH(NULL) IS NOT NULL, "
        "HASH(1) BETWEEN -9223372036854775808 AND 9223372036854775807, TRUE FROM (SELECT 1 a, 'b' b)",
        [(True, True, False, True, True, True)],
    ),
    (
        "SELECT HASH(*) = HASH(a, b), HASH(t.*) = HASH(a, b), HASH(t.*, 1) = HASH(a, b, 1), HASH(*) = HASH(b, a) "
        "FROM (SELECT 1.0 a, 'b' b) t",
        [(True, True, True, False)],
    ),
    ("SELECT HASH(*) = HASH(a), HASH_AGG(*) = HASH_AGG(a) FROM (SELECT 1 a) GROUP BY a", [(True, True)]),
    (
        "SELECT HASH(1) = HASH(1::NUMBER(10,2)), HASH(1::INT) = HASH(1::FLOAT)",
        [(True, True)],
    ),
    (
        "SELECT HASH_AGG(x) IS NOT NULL FROM (SELECT 1 x UNION ALL SELECT 2)",
        [(True,)],
    ),
    (
        "SELECT MD5('a'), MD5_HEX('a'), MD5(12), SHA1('a'), SHA2('a'), SHA2('a', 256) = SHA2('a')",
        [
            (
                "0cc175b9c0f1b6a831c399e269772661",
                "0cc175b9c0f1b6a831c399e269772661",
                "c20ad4d76fe97759aa27a0c99bff6710",
                "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
                "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
                True,
            )
        ],
    ),
    (
        "SELECT SUM(x::NUMBER(10,2)), TYPEOF(SUM(x::NUMBER(10,2))::VARIANT) FROM (SELECT 0.1 x UNION ALL SELECT 0.2)",
        [(Decimal("0.30"), "DECIMAL")],
    ),
    (
        "SELECT SUM(x), SUM(y), SUM(z) FROM (SELECT 1 x, 0.10 y, 1.5::FLOAT z UNION ALL SELECT 2, 0.20, 1)",
        [(3, Decimal("0.30"), 2.5)],
    ),
    (
        "SELECT SUM(v:a), MAX(v:a), MIN(v:a) FROM (SELECT PARSE_JSON('{\"a\":9}') v UNION ALL SELECT "
        "PARSE_JSON('{\"a\":10}'))",
        [(19.0, "10", "9")],
    ),
    (
        "SELECT ROW_NUMBER() OVER (ORDER BY v:a) FROM (SELECT PARSE_JSON('{\"a\":9}') v UNION ALL SELECT "
        "PARSE_JSON('{\"a\":10}')) QUALIFY ROW_NUMBER() OVER (ORDER BY v:a) = 2",
        [(2,)],
    ),
    (
        "SELECT OBJECT_CONSTRUCT('k', ARRAY_AGG(x) WITHIN GROUP (ORDER BY x)) FROM (SELECT 2 x UNION ALL SELECT 1)",
        [('{"k":[1,2]}',)],
    ),
    (
        "SELECT ARRAY_AGG(OBJECT_CONSTRUCT('x', x)) WITHIN GROUP (ORDER BY x) FROM (SELECT 2 x UNION ALL SELECT 1)",
        [('[{"x":1},{"x":2}]',)],
    ),
    (
        "SELECT ARRAY_AGG(v:a) WITHIN GROUP (ORDER BY v:a) FROM (SELECT PARSE_JSON('{\"a\":9}') v UNION ALL "
        "SELECT PARSE_JSON('{\"a\":10}'))",
        [("[9,10]",)],
    ),
]


@pytest.fixture(scope="module")
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


@pytest.mark.parametrize(("sql", "rows"), CASES)
def test_the_documented_rows_come_back(c: Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert run(c, sql) == rows
