"""Tasks: made, started, run by schedule, stream, request and after others; what their history says."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from snowflake.connector.errors import ProgrammingError

from firn_local.snowflake.metering.meter import FastClock
from firn_local.snowflake.scheduler import Scheduler
from tests.firn_local.snowflake.in_process import Connection, InProcess, Rows, run

_schemas = itertools.count()


@pytest.fixture(scope="module")
def clock() -> FastClock:
    return FastClock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, clock: FastClock) -> Iterator[InProcess]:
    server = InProcess(tmp_path_factory.mktemp("snowflake") / "data", clock=clock)
    with server.connect(database=None, schema=None) as connection:
        run(connection, "CREATE DATABASE STREAMING")
        run(connection, "CREATE WAREHOUSE W")
    yield server
    server.stop()


@pytest.fixture
def c(server: InProcess) -> Iterator[Connection]:
    """A session in a schema of the test's own, with a table that tasks fill from a stream."""
    schema = f"S{next(_schemas)}"
    with server.connect() as connection:
        run(connection, f"CREATE SCHEMA {schema}")
    with server.connect(schema=schema) as connection:
        run(connection, "CREATE TABLE T (ID INT)")
        run(connection, "CREATE TABLE OUTBOX (ID INT)")
        run(connection, "CREATE STREAM S ON TABLE T")
        yield connection
        for row in run(connection, "SHOW TASKS IN ACCOUNT"):
            run(connection, f'DROP TASK IF EXISTS {row[3]}.{row[4]}."{row[1]}"')


@pytest.fixture
def scheduler(server: InProcess, c: Connection) -> Scheduler:
    return Scheduler(server.snowflake)


def tick(scheduler: Scheduler, clock: FastClock, seconds: float = 0) -> None:
    clock.advance(seconds)
    scheduler.tick()
    scheduler.wait()


def history(c: Connection, columns: str = "NAME, STATE", **arguments: Any) -> Rows:
    given = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    schema = run(c, "SELECT CURRENT_SCHEMA()")[0][0]
    return run(
        c,
        f"SELECT {columns} FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY({given})) "
        f"WHERE SCHEMA_NAME = '{schema}' ORDER BY QUERY_START_TIME, RUN_ID",
    )


def shown(c: Connection, task: str) -> dict[str, Any]:
    with c.cursor() as cursor:
        rows = cursor.execute(f"DESCRIBE TASK {task}").fetchall()
        return dict(zip((column.name for column in cursor.description), rows[0], strict=True))


MOVE = "INSERT INTO OUTBOX SELECT ID FROM S"


def test_a_task_moves_a_stream_each_minute_and_only_when_it_has_data(
    c: Connection, scheduler: Scheduler, clock: FastClock
) -> None:
    run(c, f"CREATE TASK M WAREHOUSE = W SCHEDULE = '1 MINUTE' WHEN SYSTEM$STREAM_HAS_DATA('S') AS {MOVE}")
    run(c, "INSERT INTO T VALUES (1)")
    tick(scheduler, clock, 120)
    assert history(c) == []  # a new task is suspended
    run(c, "ALTER TASK M RESUME")
    tick(scheduler, clock)
    assert history(c) == []
    tick(scheduler, clock, 60)
    assert run(c, "SELECT * FROM OUTBOX") == [(1,)]
    tick(scheduler, clock, 60)
    assert history(c) == [("M", "SUCCEEDED"), ("M", "SKIPPED")]
    run(c, "ALTER TASK M SUSPEND")
    tick(scheduler, clock, 600)
    assert len(history(c)) == 2


def test_the_history_of_a_run(c: Connection, scheduler: Scheduler, clock: FastClock) -> None:
    run(c, "CREATE TASK M WAREHOUSE = W SCHEDULE = '1 MINUTE' CONFIG = '{\"a\": 1}' AS INSERT INTO T VALUES (1)")
    run(c, "ALTER TASK M RESUME")
    tick(scheduler, clock)
    tick(scheduler, clock, 90)
    columns = "QUERY_TEXT, CONDITION_TEXT, STATE, ERROR_CODE, SCHEDULED_FROM, ATTEMPT_NUMBER, CONFIG, ROOT_TASK_ID"
    assert history(c, columns) == [
        ("INSERT INTO T VALUES (1)", None, "SUCCEEDED", None, "SCHEDULE", 1, '{"a": 1}', shown(c, "M")["id"])
    ]
    ((scheduled, started, completed, query),) = history(
        c, "SCHEDULED_TIME, QUERY_START_TIME, COMPLETED_TIME, QUERY_ID", TASK_NAME="'m'", RESULT_LIMIT=10
    )
    assert (started - scheduled).total_seconds() == 30
    assert completed >= started
    assert query
    assert history(c, ERROR_ONLY="TRUE") == []
    assert history(c, TASK_NAME="'OTHER'") == []


def test_execute_task_runs_a_suspended_task_once(c: Connection, scheduler: Scheduler, clock: FastClock) -> None:
    run(c, f"CREATE TASK M WAREHOUSE = W AS {MOVE}")
    run(c, "INSERT INTO T VALUES (1)")
    assert "scheduled to run immediately" in run(c, "EXECUTE TASK M")[0][0]
    assert history(c) == [("M", "SCHEDULED")]
    tick(scheduler, clock)
    tick(scheduler, clock)
    assert history(c, "NAME, STATE, SCHEDULED_FROM") == [("M", "SUCCEEDED", "EXECUTE TASK")]
    assert run(c, "SELECT * FROM OUTBOX") == [(1,)]


def test_a_triggered_task_runs_when_its_stream_has_data(c: Connection, scheduler: Scheduler, clock: FastClock) -> None:
    run(c, f"CREATE TASK M WHEN SYSTEM$STREAM_HAS_DATA('S') AS {MOVE}")
    run(c, "ALTER TASK M RESUME")
    tick(scheduler, clock, 60)
    assert history(c) == []
    run(c, "INSERT INTO T VALUES (1)")
    tick(scheduler, clock)
    run(c, "INSERT INTO T VALUES (2)")
    tick(scheduler, clock, 5)
    assert run(c, "SELECT * FROM OUTBOX") == [(1,)]  # at most each 30 seconds
    tick(scheduler, clock, 30)
    assert history(c, "STATE, SCHEDULED_FROM") == [("SUCCEEDED", "TRIGGER")] * 2


def test_tasks_after_others(c: Connection, scheduler: Scheduler, clock: FastClock) -> None:
    run(c, "CREATE TABLE LOG (N INT IDENTITY, NAME VARCHAR)")
    run(c, "CREATE TASK ROOT WAREHOUSE = W SCHEDULE = '1 MINUTE' AS INSERT INTO LOG (NAME) VALUES ('root')")
    for name, after in (("A", "ROOT"), ("B", "ROOT"), ("C", "A, B"), ("OFF", "A")):
        run(c, f"CREATE TASK {name} WAREHOUSE = W AFTER {after} AS INSERT INTO LOG (NAME) VALUES ('{name}')")
    run(c, "CREATE TASK BAD WAREHOUSE = W AFTER C AS INSERT INTO LOG (NAME) SELECT 1 / 'x'")
    run(c, "CREATE TASK NEVER WAREHOUSE = W AFTER BAD AS INSERT INTO LOG (NAME) VALUES ('never')")
    for name in ("A", "B", "C", "BAD", "NEVER", "ROOT"):
        run(c, f"ALTER TASK {name} RESUME")
    tick(scheduler, clock)
    tick(scheduler, clock, 60)
    assert [row[0] for row in run(c, "SELECT NAME FROM LOG ORDER BY N")] == ["root", "A", "B", "C"]
    assert ("BAD", "FAILED") in history(c)
    assert len({row[0] for row in history(c, "RUN_ID")}) == 1
    run(c, "ALTER TASK C REMOVE AFTER A")
    assert shown(c, "C")["predecessors"].count("STREAMING") == 1


def test_a_task_does_not_overlap_itself(
    c: Connection, server: InProcess, scheduler: Scheduler, clock: FastClock
) -> None:
    run(c, "CREATE TASK M WAREHOUSE = W SCHEDULE = '1 MINUTE' AS UPDATE T SET ID = ID + 1")
    run(c, "INSERT INTO T VALUES (1)")
    run(c, "ALTER TASK M RESUME")
    tick(scheduler, clock)
    run(c, "BEGIN")
    run(c, "UPDATE T SET ID = 10")
    clock.advance(60)
    scheduler.tick()
    while not any(row[3] == "WAITING" for row in run(c, "SHOW LOCKS")):
        threading.Event().wait(0.01)
    clock.advance(60)
    scheduler.tick()
    with server.connect(schema=run(c, "SELECT CURRENT_SCHEMA()")[0][0]) as other:
        assert [state for _, state in history(other)] == ["EXECUTING"]
    run(c, "COMMIT")
    scheduler.wait()
    assert run(c, "SELECT ID FROM T") == [(11,)]


def test_a_failure_is_told_and_the_tenth_in_a_row_suspends(
    c: Connection, scheduler: Scheduler, clock: FastClock
) -> None:
    run(c, "CREATE TASK M WAREHOUSE = W SCHEDULE = '1 MINUTE' AS INSERT INTO NOPE VALUES (1)")
    run(c, "ALTER TASK M SET SUSPEND_TASK_AFTER_NUM_FAILURES = 2")
    run(c, "ALTER TASK M RESUME")
    tick(scheduler, clock)
    for _ in range(4):
        tick(scheduler, clock, 60)
    assert history(c, "STATE, ERROR_CODE", ERROR_ONLY="TRUE") == [("FAILED", "002003")] * 2
    assert "does not exist" in history(c, "ERROR_MESSAGE")[0][0]
    assert shown(c, "M")["state"] == "suspended"
    assert shown(c, "M")["last_suspended_reason"] == "SUSPENDED_DUE_TO_ERRORS"


def test_retries(c: Connection, scheduler: Scheduler, clock: FastClock) -> None:
    run(c, "CREATE TASK M WAREHOUSE = W TASK_AUTO_RETRY_ATTEMPTS = 2 AS INSERT INTO NOPE VALUES (1)")
    run(c, "EXECUTE TASK M")
    tick(scheduler, clock)
    assert history(c, "STATE, ATTEMPT_NUMBER") == [("FAILED", 3)]


def test_a_block_of_statements_is_one_transaction_where_it_says_so(
    c: Connection, scheduler: Scheduler, clock: FastClock
) -> None:
    run(c, "CREATE TABLE EXPORTS (LAST_BATCH INT)")
    run(c, "INSERT INTO EXPORTS VALUES (0)")
    run(
        c,
        "CREATE TASK M WAREHOUSE = W AS BEGIN BEGIN TRANSACTION; UPDATE EXPORTS SET LAST_BATCH = LAST_BATCH + 1; "
        f"{MOVE}; COMMIT; END",
    )
    run(c, "INSERT INTO T VALUES (1)")
    run(c, "EXECUTE TASK M")
    tick(scheduler, clock)
    assert history(c) == [("M", "SUCCEEDED")]
    assert run(c, "SELECT LAST_BATCH, ID FROM EXPORTS, OUTBOX") == [(1, 1)]
    run(
        c,
        "ALTER TASK M MODIFY AS BEGIN BEGIN; UPDATE EXPORTS SET LAST_BATCH = 7; INSERT INTO NOPE SELECT 1; COMMIT; END",
    )
    run(c, "EXECUTE TASK M")
    tick(scheduler, clock)
    assert run(c, "SELECT LAST_BATCH FROM EXPORTS") == [(1,)]


def test_show_and_describe(c: Connection) -> None:
    run(
        c,
        "CREATE TASK M WAREHOUSE = W SCHEDULE = 'USING CRON 0 9 * * MON UTC' QUERY_TAG = 'x' COMMENT = 'moves' "
        f"WHEN SYSTEM$STREAM_HAS_DATA('S') AND TRUE AS {MOVE}",
    )
    expected = {
        "name": "M", "database_name": "STREAMING", "owner": "ACCOUNTADMIN", "comment": "moves", "warehouse": "W",
        "schedule": "USING CRON 0 9 * * MON UTC", "predecessors": "[]", "state": "suspended", "definition": MOVE,
        "condition": "SYSTEM$STREAM_HAS_DATA('S') AND TRUE", "allow_overlapping_execution": "false",
    }  # fmt: skip
    found = shown(c, "M")
    assert {name: found[name] for name in expected} == expected
    assert run(c, "SHOW TASKS LIKE 'm%'") == [tuple(found.values())]
    run(c, "ALTER TASK M SET SCHEDULE = '5 MINUTES', ALLOW_OVERLAPPING_EXECUTION = TRUE")
    run(c, "ALTER TASK M UNSET COMMENT")
    run(c, "ALTER TASK M REMOVE WHEN")
    found = shown(c, "M")
    assert (found["schedule"], found["comment"], found["condition"]) == ("5 MINUTES", "", None)
    assert found["allow_overlapping_execution"] == "true"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TASK M WAREHOUSE = NOPE AS SELECT 1",
        "CREATE TASK M SCHEDULE = 'sometimes' AS SELECT 1",
        "CREATE TASK M SCHEDULE = '1 MINUTE' AFTER X AS SELECT 1",
        "CREATE TASK M AFTER NOPE AS SELECT 1",
        "CREATE TASK M SCHEDULE = '1 MINUTE'",
        "CREATE TASK M AS SELECT 1; SELECT 2",
        "ALTER TASK NOPE RESUME",
        "EXECUTE TASK NOPE",
        "DROP TASK NOPE",
    ],
)
def test_what_is_no_task(c: Connection, statement: str) -> None:
    with pytest.raises(ProgrammingError):
        run(c, statement)


def test_drop_and_replace(c: Connection) -> None:
    run(c, "CREATE TASK M SCHEDULE = '1 MINUTE' AS SELECT 1")
    first = shown(c, "M")["id"]
    run(c, "CREATE TASK IF NOT EXISTS M AS SELECT 2")
    assert shown(c, "M")["id"] == first
    with pytest.raises(ProgrammingError, match="already exists"):
        run(c, "CREATE TASK M AS SELECT 2")
    run(c, "CREATE OR REPLACE TASK M AS SELECT 2")
    assert shown(c, "M")["id"] != first
    run(c, "DROP TASK M")
    run(c, "DROP TASK IF EXISTS M")
    assert run(c, "SHOW TASKS") == []


def test_a_started_scheduler_runs_what_is_asked_for(c: Connection, server: InProcess) -> None:
    scheduler = Scheduler(server.snowflake)
    scheduler.start()
    run(c, "CREATE TASK M WAREHOUSE = W AS INSERT INTO T VALUES (5)")
    run(c, "EXECUTE TASK M")
    while history(c)[0][1] not in {"SUCCEEDED", "FAILED"}:
        threading.Event().wait(0.01)
    scheduler.close()
    assert run(c, "SELECT * FROM T") == [(5,)]
