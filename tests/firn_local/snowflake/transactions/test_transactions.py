"""Transactions and locks of the local Snowflake, as two sessions see them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from snowflake.connector.errors import DatabaseError, ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run, write_parquet


@pytest.fixture
def sessions(server: InProcess) -> Iterator[Callable[..., Connection]]:
    opened: list[Connection] = []

    def connect(**options: Any) -> Connection:
        opened.append(server.connect(**options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def a(sessions: Callable[..., Connection]) -> Connection:
    connection = sessions()
    run(connection, "CREATE OR REPLACE TABLE L (SINK VARCHAR, EPOCH INT)")
    run(connection, "INSERT INTO L VALUES ('', 0), ('s', 1), ('other', 1)")
    run(connection, "CREATE OR REPLACE TABLE T (A INT)")
    return connection


@pytest.fixture
def b(sessions: Callable[..., Connection]) -> Connection:
    return sessions()


def start(connection: Connection, sql: str) -> Future[list[tuple[Any, ...]]]:
    return ThreadPoolExecutor(1).submit(run, connection, sql)


def wait_until_waiting(server: InProcess, table: str) -> None:
    """A statement that waits has no other trace than its being unanswered: give it time to reach the lock."""
    with server.connect() as connection:
        deadline = time.monotonic() + 10
        while not any(row[3] == "WAITING" and row[0] == table for row in run(connection, "SHOW LOCKS")):
            assert time.monotonic() < deadline
            time.sleep(0.02)


LOCKED_TABLE = "STREAMING.PUBLIC.L"


def test_an_update_waits_for_the_lock_and_then_sees_what_was_committed(
    server: InProcess, a: Connection, b: Connection
) -> None:
    run(a, "BEGIN")
    assert run(a, "UPDATE L SET EPOCH = 2 WHERE SINK = 's' AND EPOCH = 1") == [(1, 0)]
    run(b, "BEGIN")
    waiting = start(b, "UPDATE L SET EPOCH = 9 WHERE SINK = 's' AND EPOCH = 1")
    wait_until_waiting(server, LOCKED_TABLE)
    assert not waiting.done()
    run(a, "COMMIT")
    assert waiting.result(10) == [(0, 0)]
    run(b, "ROLLBACK")
    assert run(b, "SELECT EPOCH FROM L WHERE SINK = 's'") == [(2,)]


def test_a_rollback_frees_the_lock_and_the_old_value_is_found(server: InProcess, a: Connection, b: Connection) -> None:
    run(a, "BEGIN")
    run(a, "DELETE FROM L WHERE SINK = 's'")
    waiting = start(b, "UPDATE L SET EPOCH = 9 WHERE SINK = 's' AND EPOCH = 1")
    wait_until_waiting(server, LOCKED_TABLE)
    run(a, "ROLLBACK")
    assert waiting.result(10) == [(1, 0)]


def test_a_commit_between_two_statements_of_a_transaction_is_seen_by_the_second(a: Connection, b: Connection) -> None:
    run(a, "BEGIN")
    run(a, "INSERT INTO T VALUES (1), (2)")
    run(b, "UPDATE L SET EPOCH = 2 WHERE SINK = 's'")
    assert run(a, "UPDATE L SET EPOCH = 3 WHERE SINK = 's' AND EPOCH = 1") == [(0, 0)]
    assert run(a, "SELECT EPOCH FROM L WHERE SINK = 's'") == [(2,)]
    assert run(b, "SELECT COUNT(*) FROM T") == [(0,)]
    run(a, "COMMIT")
    assert run(b, "SELECT COUNT(*) FROM T") == [(2,)]


def test_a_commit_between_copy_and_update_loads_the_file_once(a: Connection, b: Connection, tmp_path: Path) -> None:
    run(a, "CREATE OR REPLACE TABLE E (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
    run(a, "CREATE OR REPLACE STAGE S")
    run(a, f"PUT file://{write_parquet(tmp_path / 'f.parquet', 100)} @S/x/ AUTO_COMPRESS=FALSE")
    run(a, "BEGIN")
    copy = "COPY INTO E FROM (SELECT PARSE_JSON($1:RECORD_METADATA), PARSE_JSON($1:RECORD_CONTENT) FROM @S/x/) "
    assert run(a, copy + "FILES=('f.parquet') FILE_FORMAT=(TYPE=PARQUET)")[0][1:4] == ("LOADED", 100, 100)
    run(b, "UPDATE L SET EPOCH = 5 WHERE SINK = 'other'")
    assert run(a, "UPDATE L SET EPOCH = EPOCH + 1 WHERE SINK IN ('s', 'other')") == [(2, 0)]
    run(a, "COMMIT")
    assert run(b, "SELECT COUNT(*) FROM E") == [(100,)]
    assert run(b, "SELECT SINK, EPOCH FROM L ORDER BY 1") == [("", 0), ("other", 6), ("s", 2)]


def test_a_transaction_whose_earlier_write_would_now_differ_is_lost(a: Connection, b: Connection) -> None:
    run(a, "BEGIN")
    run(a, "INSERT INTO T SELECT EPOCH FROM L")
    run(b, "INSERT INTO L VALUES ('new', 1)")
    with pytest.raises(ProgrammingError, match="instead of 3") as lost:
        run(a, "UPDATE L SET EPOCH = 7")
    assert (lost.value.errno, lost.value.sqlstate) == (625, "57014")
    with pytest.raises(ProgrammingError, match="Roll it back"):
        run(a, "SELECT 1")
    with pytest.raises(ProgrammingError, match="Roll it back"):
        run(a, "COMMIT")
    assert run(a, "SELECT COUNT(*) FROM T") == [(0,)]
    assert run(b, "UPDATE L SET EPOCH = 8") == [(4, 0)]


def test_lock_timeout_is_snowflakes_error_and_leaves_the_transaction_open(
    a: Connection, sessions: Callable[..., Connection]
) -> None:
    b = sessions(session_parameters={"LOCK_TIMEOUT": 1})
    run(a, "BEGIN")
    run(a, "UPDATE L SET EPOCH = 2")
    run(b, "BEGIN")
    run(b, "INSERT INTO T VALUES (1)")
    began = time.monotonic()
    with pytest.raises(ProgrammingError, match=f"has locked table '{LOCKED_TABLE}' in transaction") as locked:
        run(b, "UPDATE L SET EPOCH = 3")
    assert (locked.value.errno, locked.value.sqlstate) == (625, "57014")
    assert 1 <= time.monotonic() - began < 5
    run(b, "COMMIT")
    assert run(b, "SELECT COUNT(*) FROM T") == [(1,)]
    run(b, "ALTER SESSION SET LOCK_TIMEOUT = 0")
    with pytest.raises(ProgrammingError, match="LOCK_TIMEOUT"):
        run(b, "MERGE INTO L USING (SELECT 1 X) S ON FALSE WHEN NOT MATCHED THEN INSERT VALUES ('m', 1)")


def test_inserts_do_not_wait_for_locks(a: Connection, b: Connection) -> None:
    run(a, "BEGIN")
    run(a, "UPDATE L SET EPOCH = 2")
    run(b, "INSERT INTO L VALUES ('b', 1)")
    run(a, "INSERT INTO L VALUES ('a', 1)")
    run(a, "COMMIT")
    assert run(b, "SELECT COUNT(*) FROM L") == [(5,)]


def test_a_deadlock_ends_with_an_error_for_one_of_the_two(server: InProcess, a: Connection, b: Connection) -> None:
    run(a, "INSERT INTO T VALUES (1)")
    run(a, "BEGIN")
    run(a, "UPDATE L SET EPOCH = 2")
    run(b, "BEGIN")
    run(b, "UPDATE T SET A = 2")
    waiting = start(a, "UPDATE T SET A = 3")
    wait_until_waiting(server, "STREAMING.PUBLIC.T")
    with pytest.raises(ProgrammingError, match="deadlock"):
        run(b, "UPDATE L SET EPOCH = 3")
    run(b, "ROLLBACK")
    assert waiting.result(10) == [(1, 0)]
    run(a, "COMMIT")


def test_a_failed_statement_leaves_the_transaction_as_it_was(a: Connection) -> None:
    run(a, "BEGIN")
    before = run(a, "SELECT CURRENT_TRANSACTION()")
    run(a, "INSERT INTO T VALUES (1)")
    for wrong in ("SELECT * FROM NOPE", "SELECT 1 +", "INSERT INTO T VALUES ('x')", "CALL NOPE()", "SHOW NONSENSE"):
        with pytest.raises(DatabaseError):
            run(a, wrong)
    assert run(a, "SELECT CURRENT_TRANSACTION()") == before
    run(a, "INSERT INTO T VALUES (2)")
    run(a, "COMMIT")
    assert run(a, "SELECT A FROM T ORDER BY 1") == [(1,), (2,)]


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN TRANSACTION", "BEGIN WORK", "START TRANSACTION"])
@pytest.mark.parametrize(("end", "rows"), [("COMMIT", 1), ("COMMIT WORK", 1), ("ROLLBACK", 0), ("ROLLBACK WORK", 0)])
def test_every_way_to_begin_and_to_end(a: Connection, begin: str, end: str, rows: int) -> None:
    run(a, begin)
    run(a, begin)  # ignored inside a transaction
    run(a, "INSERT INTO T VALUES (1)")
    run(a, end)
    run(a, end)  # outside a transaction: no error
    assert run(a, "SELECT CURRENT_TRANSACTION(), COUNT(*) FROM T") == [(None, rows)]


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE IF NOT EXISTS T (A INT)",
        "CREATE OR REPLACE VIEW V AS SELECT 1 X",
        "CREATE STAGE IF NOT EXISTS S",
        "COMMENT ON TABLE L IS 'ledger'",
        "CREATE ROLE IF NOT EXISTS R",
        "ALTER TABLE L ADD COLUMN IF NOT EXISTS EXTRA INT",
    ],
)
def test_ddl_commits_what_is_open(a: Connection, ddl: str) -> None:
    run(a, "BEGIN")
    run(a, "INSERT INTO T VALUES (1)")
    (inside,) = run(a, "SELECT CURRENT_TRANSACTION()")
    assert str(inside[0]).isdigit()
    run(a, ddl)
    assert run(a, "SELECT CURRENT_TRANSACTION(), LAST_TRANSACTION()") == [(None, inside[0])]
    run(a, "ROLLBACK")
    assert run(a, "SELECT COUNT(*) FROM T") == [(1,)]


def test_autocommit_off_opens_a_transaction_with_the_first_dml(a: Connection, b: Connection) -> None:
    run(a, "ALTER SESSION SET AUTOCOMMIT = FALSE")
    run(a, "INSERT INTO T VALUES (1)")
    assert run(b, "SELECT COUNT(*) FROM T") == [(0,)]
    run(a, "ROLLBACK")
    run(a, "INSERT INTO T VALUES (2)")
    a.commit()
    assert run(b, "SELECT A FROM T") == [(2,)]


def test_a_repeated_write_finds_the_schema_it_was_written_in(a: Connection, b: Connection) -> None:
    run(b, "CREATE SCHEMA IF NOT EXISTS STREAMING.OTHER")
    run(a, "BEGIN")
    run(a, "INSERT INTO T VALUES (1)")
    run(a, "USE SCHEMA OTHER")
    run(b, "UPDATE STREAMING.PUBLIC.L SET EPOCH = 5")
    assert run(a, "UPDATE PUBLIC.L SET EPOCH = 6 WHERE EPOCH = 5") == [(3, 0)]
    run(a, "COMMIT")
    assert run(a, "SELECT CURRENT_SCHEMA(), COUNT(*) FROM PUBLIC.T") == [("OTHER", 1)]


def test_twenty_sessions_at_once_lose_no_update(a: Connection, server: InProcess) -> None:
    def add_one(_: int) -> None:
        with server.connect(session_parameters={"LOCK_TIMEOUT": 60}) as connection:
            run(connection, "BEGIN")
            run(connection, "INSERT INTO T VALUES (1)")
            run(connection, "UPDATE L SET EPOCH = EPOCH + 1 WHERE SINK = 's'")
            run(connection, "COMMIT")

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(add_one, range(20)))
    assert run(a, "SELECT EPOCH FROM L WHERE SINK = 's'") == [(21,)]
    assert run(a, "SELECT COUNT(*) FROM T") == [(20,)]
