"""Who may make and read streams, and make, start and run tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from snowflake.connector.errors import ProgrammingError

from firn_local.snowflake.scheduler import Scheduler
from tests.firn_local.snowflake.in_process import InProcess, run

SETUP = """
CREATE DATABASE STREAMING; CREATE WAREHOUSE WH; CREATE WAREHOUSE OTHER;
CREATE ROLE WORKER;
CREATE USER ADMIN DEFAULT_ROLE = ACCOUNTADMIN; GRANT ROLE ACCOUNTADMIN TO USER ADMIN;
CREATE USER WORKER DEFAULT_ROLE = WORKER DEFAULT_WAREHOUSE = WH; GRANT ROLE WORKER TO USER WORKER;
GRANT USAGE ON DATABASE STREAMING TO ROLE WORKER; GRANT USAGE ON SCHEMA STREAMING.PUBLIC TO ROLE WORKER;
GRANT USAGE ON WAREHOUSE WH TO ROLE WORKER;
"""
Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    base = tmp_path_factory.mktemp("privileges")
    (base / "bootstrap.sql").write_text(SETUP)
    server = InProcess(base / "data", base / "bootstrap.sql")
    yield server
    server.stop()


@pytest.fixture
def admin(server: InProcess) -> Iterator[Sql]:
    with server.connect(user="ADMIN") as connection:
        sql: Sql = lambda *statements: [run(connection, statement) for statement in statements][-1]  # noqa: E731
        sql("CREATE TABLE T (A INT)", "INSERT INTO T VALUES (1)", "CREATE TABLE SINK (A INT)")
        yield sql


@pytest.fixture
def worker(server: InProcess) -> Iterator[Sql]:
    with server.connect(user="WORKER") as connection:
        yield lambda *statements: [run(connection, statement) for statement in statements][-1]


def refused(sql: Sql, statement: str) -> int:
    with pytest.raises(ProgrammingError) as raised:
        sql(statement)
    return raised.value.errno or 0


def test_to_make_a_stream(admin: Sql, worker: Sql) -> None:
    create = "CREATE STREAM S ON TABLE T"
    assert refused(worker, create) == 3001
    admin("GRANT CREATE STREAM ON SCHEMA PUBLIC TO ROLE WORKER")
    assert refused(worker, create) == 2003
    admin("GRANT SELECT ON TABLE T TO ROLE WORKER")
    assert refused(worker, create) == 3001  # the first one on a table is its owner's to make
    admin("ALTER TABLE T SET CHANGE_TRACKING = TRUE")
    worker(create)
    assert worker("SHOW STREAMS")[0][4] == "WORKER"
    worker("DROP STREAM S")


def test_to_read_a_stream_is_to_read_its_table(admin: Sql, worker: Sql) -> None:
    admin("CREATE STREAM S ON TABLE T")
    for statement in ("SELECT * FROM S", "SELECT SYSTEM$STREAM_HAS_DATA('S')", "DESC STREAM S"):
        assert refused(worker, statement) == 2003
    assert worker("SHOW STREAMS") == []
    admin("GRANT SELECT ON STREAM S TO ROLE WORKER")
    assert refused(worker, "SELECT * FROM S") == 2003
    admin("GRANT SELECT ON TABLE T TO ROLE WORKER")
    assert worker("SELECT * FROM S") == []
    assert worker("SELECT SYSTEM$STREAM_HAS_DATA('S')") == [(False,)]
    assert len(worker("SHOW STREAMS")) == 1
    assert refused(worker, "DROP STREAM S") == 3001
    assert refused(worker, "INSERT INTO SINK SELECT A FROM S") == 2003
    admin("GRANT INSERT ON TABLE SINK TO ROLE WORKER")
    worker("INSERT INTO SINK SELECT A FROM S")


def test_to_make_and_start_a_task(admin: Sql, worker: Sql) -> None:
    create = "CREATE TASK K WAREHOUSE = WH SCHEDULE = '1 MINUTE' AS INSERT INTO SINK SELECT 1"
    assert refused(worker, create) == 3001
    admin("GRANT CREATE TASK ON SCHEMA PUBLIC TO ROLE WORKER")
    assert refused(worker, create.replace("= WH", "= OTHER")) != 0
    worker(create)
    for statement in ("ALTER TASK K RESUME", "EXECUTE TASK K"):
        assert refused(worker, statement) == 91089
    admin("GRANT EXECUTE TASK ON ACCOUNT TO ROLE WORKER")
    worker("ALTER TASK K RESUME", "EXECUTE TASK K")
    worker("CREATE TASK SERVERLESS SCHEDULE = '1 MINUTE' AS SELECT 1")
    assert refused(worker, "ALTER TASK SERVERLESS RESUME") == 91089
    admin("GRANT EXECUTE MANAGED TASK ON ACCOUNT TO ROLE WORKER")
    worker("ALTER TASK SERVERLESS RESUME")


def test_another_role_starts_a_task_but_its_owner_s_rights_count(server: InProcess, admin: Sql, worker: Sql) -> None:
    admin("CREATE TASK K WAREHOUSE = WH AS INSERT INTO SINK SELECT 1")
    assert refused(worker, "EXECUTE TASK K") == 2003
    assert worker("SHOW TASKS") == []
    history = "SELECT STATE FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY())"
    admin("GRANT MONITOR ON TASK K TO ROLE WORKER")
    assert refused(worker, "EXECUTE TASK K") == 3001
    admin("GRANT OPERATE ON TASK K TO ROLE WORKER")
    worker("EXECUTE TASK K")
    scheduler = Scheduler(server.snowflake)
    scheduler.tick()
    scheduler.wait()
    assert worker(history) == [("SUCCEEDED",)]
    assert refused(worker, "ALTER TASK K SET COMMENT = 'x'") == 3001
    assert refused(worker, "DROP TASK K") == 3001
    assert admin("SELECT * FROM SINK") == [(1,)]


def test_a_task_without_a_right_fails(server: InProcess, admin: Sql, worker: Sql) -> None:
    admin(
        "GRANT CREATE TASK ON SCHEMA PUBLIC TO ROLE WORKER",
        "GRANT EXECUTE TASK ON ACCOUNT TO ROLE WORKER",
    )
    worker("CREATE TASK K WAREHOUSE = WH AS INSERT INTO SINK SELECT 1", "EXECUTE TASK K")
    scheduler = Scheduler(server.snowflake)
    scheduler.tick()
    scheduler.wait()
    history = "SELECT STATE, ERROR_CODE FROM TABLE(INFORMATION_SCHEMA.TASK_HISTORY(TASK_NAME => 'K'))"
    assert worker(history) == [("FAILED", "002003")]
