"""CREATE TABLE AS over a stream: the table and the stream's move are one transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from snowflake.connector.errors import ProgrammingError

from firn_local.snowflake.change_tracking.stream_table import StreamTable
from tests.firn_local.snowflake.in_process import Connection, InProcess, run


@pytest.fixture
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        run(connection, "CREATE OR REPLACE TABLE T (ID INT, V VARCHAR(5))")
        run(connection, "CREATE OR REPLACE STREAM S ON TABLE T")
        run(connection, "INSERT INTO T VALUES (3, 'three')")
        run(connection, "DROP TABLE IF EXISTS MADE")
        yield connection


@pytest.mark.parametrize("columns", ["", " (ID INT NOT NULL, V VARCHAR(9)) COMMENT = 'changes'"])
def test_the_rows_are_in_the_table_and_no_longer_in_the_stream(server: InProcess, c: Connection, columns: str) -> None:
    run(c, f"CREATE OR REPLACE TABLE MADE{columns} AS SELECT ID, V FROM S")
    assert run(c, "SELECT * FROM MADE") == [(3, "three")]
    assert run(c, "SELECT * FROM S") == []
    c.close()
    server.restart()
    with server.connect() as again:
        assert run(again, "SELECT * FROM MADE") == [(3, "three")]
        assert run(again, "SELECT * FROM S") == []


def test_a_stream_that_cannot_move_leaves_no_table(c: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(StreamTable, "write", failing)
        with pytest.raises(ProgrammingError, match="Processing aborted by error OSError"):
            run(c, "CREATE TABLE MADE AS SELECT ID FROM S")
    with pytest.raises(ProgrammingError, match="does not exist"):
        run(c, "SELECT * FROM MADE")
    assert run(c, "SELECT ID FROM S") == [(3,)]


def test_a_query_that_fails_leaves_the_stream_where_it_was(c: Connection) -> None:
    with pytest.raises(ProgrammingError, match="Division by zero"):
        run(c, "CREATE TABLE MADE AS SELECT 1 / (ID - 3) AS X FROM S")
    assert run(c, "SELECT ID FROM S") == [(3,)]


def test_a_stream_at_a_statement_is_refused_by_name(c: Connection) -> None:
    with pytest.raises(ProgrammingError, match="STATEMENT") as error:
        run(c, "CREATE STREAM LATER ON TABLE T AT (STATEMENT => '8e5d0ca9-005e-44e6-b858-a8f5b37c5726')")
    assert error.value.errno == 2
