"""PIPE objects: kept with their text, shown to those who may see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from snowflake.connector.errors import DatabaseError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

DEFINITION = (
    "COPY INTO ORDERS (A, B)\n  FROM (SELECT $1:a, $1:b::NUMBER -- cents\n"
    "  FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')) WHERE $1:a <> 'it''s')"
)


@pytest.fixture
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        run(connection, "CREATE OR REPLACE TABLE ORDERS (A VARCHAR, B NUMBER)")
        run(connection, f"CREATE OR REPLACE PIPE ORDERS COMMENT = 'o''clock' AS {DEFINITION};")
        yield connection


def asked(c: Connection, sql: str) -> list[dict[str, Any]]:
    with c.cursor() as cursor:
        cursor.execute(sql)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def fails(c: Connection, sql: str) -> int:
    with pytest.raises(DatabaseError) as error:
        run(c, sql)
    return int(error.value.errno or 0)


@pytest.mark.parametrize(
    "ask",
    [
        "SHOW PIPES LIKE 'orders' IN SCHEMA STREAMING.PUBLIC", "SHOW PIPES", "SHOW PIPES IN DATABASE STREAMING",
        "DESC PIPE ORDERS", "DESCRIBE PIPE STREAMING.PUBLIC.ORDERS",
    ],
)  # fmt: skip
def test_a_pipe_is_shown_with_its_text_as_written(c: Connection, ask: str) -> None:
    (pipe,) = asked(c, ask)
    assert pipe["definition"] == DEFINITION
    assert (pipe["name"], pipe["database_name"], pipe["schema_name"]) == ("ORDERS", "STREAMING", "PUBLIC")
    assert (pipe["owner"], pipe["comment"], pipe["kind"]) == ("ACCOUNTADMIN", "o'clock", "STREAMING")


def test_a_pipe_over_a_stage_is_kept_too(c: Connection) -> None:
    run(
        c, 'CREATE PIPE IF NOT EXISTS "from stage" AS COPY INTO STREAMING.PUBLIC.ORDERS FROM @S FILE_FORMAT=(TYPE=JSON)'
    )
    run(c, 'CREATE PIPE IF NOT EXISTS "from stage" AS COPY INTO ORDERS FROM @T')
    (pipe,) = asked(c, 'DESC PIPE "from stage"')
    assert (pipe["kind"], "FROM @S" in pipe["definition"]) == ("STAGE", True)
    run(c, 'DROP PIPE "from stage"')
    assert fails(c, 'DESC PIPE "from stage"') == 2003


def test_a_pipe_wants_its_table_and_a_name_of_its_own(c: Connection) -> None:
    assert fails(c, "CREATE PIPE P AS COPY INTO NOPE FROM @S") == 2003
    assert fails(c, f"CREATE PIPE ORDERS AS {DEFINITION}") == 2002
    assert fails(c, "CREATE PIPE P AS SELECT 1") == 1003
    assert fails(c, "DROP PIPE P") == 2003
    run(c, "DROP PIPE IF EXISTS P")
