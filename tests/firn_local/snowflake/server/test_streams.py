"""Streams as the connector sees them: columns, bound values, a killed server, a task that the server runs by itself."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
from snowflake.connector import DictCursor, SnowflakeConnection

from tests.firn_local.snowflake.in_process import run
from tests.firn_local.snowflake.process import Server


@pytest.fixture
def c(server: Server) -> Iterator[SnowflakeConnection]:
    with server.connect(paramstyle="qmark") as connection:
        run(connection, "CREATE OR REPLACE TABLE T (ID INT, V VARCHAR)")
        run(connection, "CREATE OR REPLACE TABLE SINK (ID INT)")
        run(connection, "INSERT INTO T VALUES (1, 'one'), (2, 'two')")
        run(connection, "CREATE OR REPLACE STREAM S ON TABLE T")
        yield connection


def test_rows_by_name_of_column(c: SnowflakeConnection) -> None:
    run(c, "INSERT INTO T VALUES (?, ?)", (3, "three"))
    with c.cursor(DictCursor) as cursor:
        (row,) = cursor.execute("SELECT * FROM S").fetchall()
    row_id = row.pop("METADATA$ROW_ID")
    assert row == {"ID": 3, "V": "three", "METADATA$ACTION": "INSERT", "METADATA$ISUPDATE": False}
    assert len(row_id) == 40
    with c.cursor() as cursor:
        assert [column.name for column in cursor.describe("SELECT ID, METADATA$ACTION FROM S")] == [
            "ID",
            "METADATA$ACTION",
        ]


def test_changes_by_bound_values(c: SnowflakeConnection) -> None:
    run(c, "UPDATE T SET V = ? WHERE ID = ?", ("ONE", 1))
    run(c, "DELETE FROM T WHERE ID = ?", (2,))
    changes = run(c, "SELECT ID, V, METADATA$ACTION, METADATA$ISUPDATE FROM S ORDER BY 1, 3")
    assert changes == [(1, "one", "DELETE", True), (1, "ONE", "INSERT", True), (2, "two", "DELETE", False)]


def test_a_killed_server_has_rows_and_offset_of_one_commit(server: Server, c: SnowflakeConnection) -> None:
    run(c, "INSERT INTO T VALUES (3, 'three')")
    run(c, "INSERT INTO SINK SELECT ID FROM S")
    run(c, "UPDATE T SET V = 'THREE' WHERE ID = 3")
    before = run(c, "SELECT * FROM S ORDER BY V")
    run(c, "BEGIN")
    run(c, "INSERT INTO SINK SELECT ID FROM S")
    server.restart(signal.SIGKILL)
    with server.connect() as again:
        assert run(again, "SELECT * FROM SINK") == [(3,)]
        assert run(again, "SELECT * FROM S ORDER BY V") == before
        run(again, "INSERT INTO SINK SELECT ID FROM S WHERE 1 = 0")
        assert run(again, "SELECT * FROM S") == []


def test_the_server_runs_tasks_by_itself(c: SnowflakeConnection) -> None:
    move = "INSERT INTO SINK SELECT ID FROM S"
    run(c, f"CREATE OR REPLACE TASK M SCHEDULE = '10 SECONDS' WHEN SYSTEM$STREAM_HAS_DATA('S') AS {move}")
    run(c, "INSERT INTO T VALUES (9, 'nine')")
    run(c, "EXECUTE TASK M")
    deadline = time.monotonic() + 20
    while run(c, "SELECT ID FROM SINK") != [(9,)]:
        assert time.monotonic() < deadline
    run(c, "DROP TASK M")
