"""QUERY_HISTORY and WAREHOUSE_METERING_HISTORY as a client reads them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from snowflake.connector.errors import ProgrammingError

from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.metering.meter import FastClock
from tests.firn_local.snowflake.metering.conftest import Metered

USAGE = "SNOWFLAKE.ACCOUNT_USAGE"


def test_query_history_has_each_statement_once_it_has_ended(metered: Metered) -> None:
    metered.run("ALTER SESSION SET QUERY_TAG = 'views'", "SELECT A FROM T ORDER BY A", "SELECT A FROM T ORDER BY A")
    with pytest.raises(Exception, match="not exist"):
        metered.run("SELECT * FROM NOWHERE")
    found = metered.rows(
        "SELECT QUERY_TEXT, QUERY_TYPE, USER_NAME, ROLE_NAME, WAREHOUSE_NAME, WAREHOUSE_SIZE, DATABASE_NAME, "
        f"EXECUTION_STATUS, BYTES_SCANNED, LOCAL_ANSWERED_BY, LOCAL_RESUMED FROM {USAGE}.QUERY_HISTORY "
        "WHERE QUERY_TAG = 'views' ORDER BY START_TIME, LOCAL_ANSWERED_BY DESC"
    )
    who = ("ME", "ACCOUNTADMIN", "WH")
    text = "SELECT A FROM T ORDER BY A"
    assert (text, "SELECT", *who, "XSMALL", "D", "SUCCESS", None, "WAREHOUSE", True) in found
    assert (text, "SELECT", *who, None, "D", "SUCCESS", 0, "PERSISTED RESULT", False) in found
    assert ("SELECT * FROM NOWHERE", "SELECT", *who, "D", "FAIL") in [(*row[:5], *row[6:8]) for row in found]


def test_the_table_function_shows_the_last_statements(metered: Metered) -> None:
    metered.run("SHOW TABLES")
    metered.clock.advance(1)
    metered.run("SHOW VIEWS")
    call = "INFORMATION_SCHEMA.QUERY_HISTORY(RESULT_LIMIT => 1)"
    assert metered.rows(f"SELECT QUERY_TEXT FROM TABLE({call})") == [("SHOW VIEWS",)]
    start = "DATEADD('hour', 1, TO_TIMESTAMP_TZ('2020-01-01 00:00:00 +0000'))"
    call = f"D.INFORMATION_SCHEMA.QUERY_HISTORY(END_TIME_RANGE_START => {start}, RESULT_LIMIT => 3)"
    assert len(metered.rows(f"SELECT X.QUERY_ID FROM TABLE({call}) AS X")) == 3
    with pytest.raises(Exception, match="RESULT_LIMIT"):
        metered.run("SELECT * FROM TABLE(INFORMATION_SCHEMA.QUERY_HISTORY(NOTHING => 1))")


def test_metering_history_has_a_row_for_each_hour(metered: Metered) -> None:
    metered.clock.now = metered.clock.now // 3600 * 3600 + 7200 - 30  # half a minute before an hour ends
    metered.run("UPDATE U SET B = 'x' WHERE A = 0")
    metered.clock.advance(300)
    rows = metered.rows(
        f"SELECT START_TIME, END_TIME, CREDITS_USED_COMPUTE, CREDITS_USED FROM {USAGE}.WAREHOUSE_METERING_HISTORY "
        "WHERE WAREHOUSE_NAME = 'WH' ORDER BY START_TIME DESC LIMIT 2"
    )
    # The second one has the minute of this very query too.
    assert [row[2] for row in rows] == pytest.approx([90 / 3600, 30 / 3600])
    assert float(str(rows[1][3])) > float(str(rows[1][2]))  # with cloud services
    call = "INFORMATION_SCHEMA.WAREHOUSE_METERING_HISTORY('2020-01-01'::TIMESTAMP_LTZ, WAREHOUSE_NAME => 'wh')"
    assert metered.rows(f"SELECT SUM(CREDITS_USED_COMPUTE) > 0 FROM TABLE({call})") == [(True,)]


def test_metering_daily_history_adjusts_cloud_services(metered: Metered) -> None:
    metered.clock.advance(48 * 3600)
    metered.run("UPDATE U SET B = 'x' WHERE A = 0")
    (row,) = metered.rows(
        "SELECT CREDITS_USED_CLOUD_SERVICES + CREDITS_ADJUSTMENT_CLOUD_SERVICES = 0, "
        "CREDITS_BILLED = CREDITS_USED + CREDITS_ADJUSTMENT_CLOUD_SERVICES "
        f"FROM {USAGE}.METERING_DAILY_HISTORY ORDER BY USAGE_DATE DESC LIMIT 1"
    )
    assert row == (True, True)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE USER SECRETIVE PASSWORD = 'hunter2'",
        "ALTER USER SECRETIVE SET PASSWORD = 'hunter2'",
        "ALTER USER SECRETIVE SET PASSWORD 'hunter2'",
        "COPY INTO T FROM 's3://b' CREDENTIALS = (AWS_KEY_ID = 'hunter2' AWS_SECRET_KEY = 'hunter2')",
    ],
)
def test_credentials_are_not_kept(metered: Metered, statement: str) -> None:
    with suppress(ProgrammingError):  # some of them are refused
        metered.run(statement)
    assert "hunter2" not in str(metered.snowflake.meter.queries())
    metered.rows(f"SELECT 1 FROM {USAGE}.QUERY_HISTORY LIMIT 1")
    kept = metered.snowflake.account.store.query("SELECT * FROM _fs_global._firn.ended_queries")
    assert "hunter2" not in str(kept)


def test_others_need_privileges_and_see_their_own_statements(metered: Metered) -> None:
    metered.run("CREATE ROLE VIEWER", "CREATE USER VIEWER DEFAULT_ROLE = VIEWER", "GRANT ROLE VIEWER TO USER VIEWER")
    metered.run("GRANT USAGE ON WAREHOUSE WH TO ROLE VIEWER", "GRANT USAGE ON DATABASE D TO ROLE VIEWER")
    metered.run("GRANT USAGE ON SCHEMA D.PUBLIC TO ROLE VIEWER")
    run = metered.snowflake.run
    with metered.snowflake.session("VIEWER", "VIEWER") as viewer:
        viewer.warehouse = "WH"
        viewer.enter("D", "PUBLIC")
        with pytest.raises(Exception, match="not authorized"):
            run(viewer, f"SELECT * FROM {USAGE}.QUERY_HISTORY")
        with pytest.raises(Exception, match="Insufficient privileges"):
            run(viewer, "SELECT * FROM TABLE(INFORMATION_SCHEMA.WAREHOUSE_METERING_HISTORY('2020-01-01'::TIMESTAMP))")
        own = run(viewer, "SELECT DISTINCT USER_NAME FROM TABLE(INFORMATION_SCHEMA.QUERY_HISTORY())").fetchall()
        assert own == [("VIEWER",)]
        metered.run("GRANT IMPORTED PRIVILEGES ON DATABASE SNOWFLAKE TO ROLE VIEWER")
        metered.run("GRANT MONITOR USAGE ON ACCOUNT TO ROLE VIEWER")
        run(viewer, f"SELECT * FROM {USAGE}.QUERY_HISTORY")
        run(viewer, "SELECT * FROM TABLE(INFORMATION_SCHEMA.WAREHOUSE_METERING_HISTORY('2020-01-01'::TIMESTAMP))")


def test_history_and_usage_survive_a_restart(tmp_path: Path) -> None:
    clock = FastClock()
    (tmp_path / "tmp").mkdir()

    def opened() -> LocalSnowflake:
        return LocalSnowflake(tmp_path, threads=1, clock=clock)

    first = opened()
    with first.session("ME", "ACCOUNTADMIN") as session:
        for statement in ("CREATE WAREHOUSE WH AUTO_SUSPEND = 60", "USE WAREHOUSE WH", "CREATE DATABASE D"):
            first.run(session, statement)
    clock.advance(120)
    used = first.meter.usage()
    first.close()
    second = opened()
    try:
        assert second.meter.usage() == used
        with second.session("ME", "ACCOUNTADMIN") as session:
            second.run(session, "USE WAREHOUSE WH")
            found = second.run(session, f"SELECT QUERY_TEXT FROM {USAGE}.QUERY_HISTORY").fetchall()
            assert ("CREATE DATABASE D",) in found
            assert second.meter.usage().seconds == used.seconds + 60  # of this query; AUTO_SUSPEND is still known
    finally:
        second.close()
