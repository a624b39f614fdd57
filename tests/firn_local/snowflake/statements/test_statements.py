"""Statements and errors of the local Snowflake as users of the seed's SQL meet them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

SEED = """
USE ROLE ANALYTICS_DEVELOPER;
USE DATABASE STREAMING;
USE SCHEMA PUBLIC;
SHOW TABLES;
SELECT * FROM ORDER_EVENTS LIMIT 10;
SHOW GRANTS TO ROLE SVC_KAFKA_CONNECTOR;
CREATE TABLE IF NOT EXISTS STREAMING.PUBLIC.ORDER_EVENTS (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT);
"""
VIEW_METADATA = """
SELECT
  RECORD_METADATA:topic::STRING AS topic,
  RECORD_METADATA:partition::INT AS partition,
  RECORD_METADATA:offset::INT AS offset,
  RECORD_METADATA:timestamp::TIMESTAMP AS kafka_timestamp,
  RECORD_CONTENT:order_id::INT AS order_id,
  RECORD_CONTENT:customer_id::STRING AS customer_id,
  RECORD_CONTENT:order_status::STRING AS order_status,
  RECORD_CONTENT:order_total::FLOAT AS order_total
FROM ORDER_EVENTS
ORDER BY RECORD_METADATA:timestamp DESC
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    server = InProcess(tmp_path_factory.mktemp("snowflake") / "data")
    with server.connect(database=None, schema=None) as connection:
        for sql in (
            "CREATE DATABASE STREAMING",
            "CREATE TABLE ORDER_EVENTS (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)",
            "CREATE ROLE ANALYTICS_DEVELOPER",
            "CREATE ROLE SVC_KAFKA_CONNECTOR",
            "GRANT ROLE SVC_KAFKA_CONNECTOR TO ROLE SYSADMIN",
            "GRANT USAGE ON DATABASE STREAMING TO ROLE SVC_KAFKA_CONNECTOR",
        ):
            run(connection, sql)
    yield server
    server.stop()


@pytest.fixture
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


def test_the_seeds_statements_run(c: Connection) -> None:
    for statement in filter(str.strip, SEED.split(";")):
        run(c, statement)
    assert [row[1] for row in run(c, "SHOW TABLES")] == ["ORDER_EVENTS"]
    assert [row[1:4] for row in run(c, "SHOW GRANTS TO ROLE SVC_KAFKA_CONNECTOR")] == [
        ("USAGE", "DATABASE", "STREAMING")
    ]


def test_an_absent_key_is_null_also_as_timestamp(c: Connection) -> None:
    run(c, "DELETE FROM ORDER_EVENTS")
    metadata, content = '{"topic":"order-events","partition":0,"offset":7}', '{"order_id":1001,"order_total":99.99}'
    run(c, f"INSERT INTO ORDER_EVENTS SELECT PARSE_JSON('{metadata}'), PARSE_JSON('{content}')")
    assert run(c, VIEW_METADATA) == [("order-events", 0, 7, None, 1001, None, None, 99.99)]


@pytest.mark.parametrize(
    ("sql", "errno", "sqlstate", "words"),
    [
        ("SELECT * FROM NOPE", 2003, "42S02", "Object 'NOPE' does not exist or not authorized"),
        ("SELECT NOPE FROM ORDER_EVENTS", 904, "42000", "invalid identifier 'NOPE'"),
        ("SELECT NOPE_FUNCTION(1)", 2140, "42601", "Unknown function"),
        ("SELEKT 1", 1003, "42000", "SELEKT"),
        ("SELECT 'unfinished", 1003, "42000", "SELECT"),
        ("CREATE TABLE ORDER_EVENTS (A INT)", 2002, "42710", "already exists"),
        ("CREATE DATABASE STREAMING", 2002, "42710", "already exists"),
        ("CREATE ALERT A WAREHOUSE = W", 2, "0A000", "CREATE ALERT A WAREHOUSE"),
        ("CALL SOMETHING(1)", 2, "0A000", "CALL SOMETHING"),
        ("USE ROLE NOPE", 2043, "02000", "Role 'NOPE' does not exist"),
        ("USE WAREHOUSE NOPE", 2043, "02000", "does not exist"),
        ("GRANT USAGE ON DATABASE STREAMING TO ROLE NOPE", 2043, "02000", "does not exist"),
        ("SELECT 'x'::INT", 100038, "22018", "x"),
        ("DESCRIBE TABLE NOPE", 2003, "42S02", "does not exist"),
    ],
)
def test_a_fault_is_a_quick_snowflake_error(c: Connection, sql: str, errno: int, sqlstate: str, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(ProgrammingError) as error:
        run(c, sql)
    assert time.monotonic() - began < 5
    assert (error.value.errno, error.value.sqlstate) == (errno, sqlstate)
    assert words.upper() in str(error.value).upper()
    assert run(c, "SELECT 1") == [(1,)]


def test_create_table_as_select_if_not_exists_runs_once(c: Connection) -> None:
    for number in (1, 2):
        run(c, f"CREATE TABLE IF NOT EXISTS ONCE AS SELECT {number} AS N")
    assert run(c, "SELECT N FROM ONCE") == [(1,)]
    assert run(c, "DESC TABLE ONCE")[0][:2] == ("N", "NUMBER(38,0)")
    run(c, "COMMENT ON TABLE ONCE IS 'what it is'")
    assert [(row[1], row[5], row[7]) for row in run(c, "SHOW TABLES LIKE 'onc%' IN SCHEMA STREAMING.PUBLIC")] == [
        ("ONCE", "what it is", 1)
    ]
    run(c, "DROP TABLE ONCE")


def test_stages_are_shown(c: Connection) -> None:
    run(c, "CREATE STAGE IF NOT EXISTS ONE_STAGE")
    run(c, "CREATE STAGE IF NOT EXISTS ONE_STAGE")
    run(c, "CREATE STAGE IF NOT EXISTS OTHER_STAGE")
    assert [row[1] for row in run(c, "SHOW STAGES LIKE 'ONE%'")] == ["ONE_STAGE"]
    run(c, "DROP STAGE ONE_STAGE")
    assert [row[1] for row in run(c, "SHOW STAGES")] == ["OTHER_STAGE"]


def test_a_dropped_schema_or_table_leaves_nothing_behind(c: Connection) -> None:
    for _ in range(2):
        run(c, "CREATE SCHEMA STREAMING.SHORT")
        assert run(c, "SHOW STAGES IN SCHEMA STREAMING.SHORT") == []
        run(c, "CREATE STAGE STREAMING.SHORT.S")
        run(c, "CREATE TABLE STREAMING.SHORT.T (A INT)")
        assert run(c, "SHOW TABLES IN SCHEMA STREAMING.SHORT")[0][5] == ""
        run(c, "COMMENT ON TABLE STREAMING.SHORT.T IS 'old'")
        run(c, "CREATE OR REPLACE TABLE STREAMING.SHORT.T (A INT)")
        assert run(c, "SHOW TABLES IN SCHEMA STREAMING.SHORT")[0][5] == ""
        run(c, "COMMENT ON TABLE STREAMING.SHORT.T IS 'old'")
        run(c, "DROP SCHEMA STREAMING.SHORT")


def test_temporary_objects_belong_to_their_session(server: InProcess, c: Connection) -> None:
    run(c, "CREATE OR REPLACE TEMPORARY TABLE STREAMING.PUBLIC.TMP AS SELECT 1 A")
    run(c, "CREATE OR REPLACE TEMPORARY VIEW STREAMING.PUBLIC.TMP_VIEW AS SELECT A + 1 B FROM STREAMING.PUBLIC.TMP")
    assert run(c, "SELECT B FROM STREAMING.PUBLIC.TMP_VIEW") == [(2,)]
    assert run(c, "DESCRIBE VIEW TMP_VIEW")[0][0] == "B"
    with server.connect() as other, pytest.raises(ProgrammingError, match="does not exist"):
        run(other, "SELECT * FROM STREAMING.PUBLIC.TMP")
    run(c, "DROP VIEW STREAMING.PUBLIC.TMP_VIEW")
    with pytest.raises(ProgrammingError, match="does not exist"):
        run(c, "SELECT * FROM STREAMING.PUBLIC.TMP_VIEW")


def test_merge_counts_and_refuses_repeated_keys(c: Connection) -> None:
    run(c, "CREATE OR REPLACE TABLE M (ID INT, V VARCHAR)")
    run(c, "INSERT INTO M VALUES (1, 'a')")
    merge = (
        "MERGE INTO M D USING (SELECT COLUMN1 ID, COLUMN2 V FROM VALUES (1, 'x'), ({}, 'y')) S ON D.ID = S.ID "
        "WHEN MATCHED THEN UPDATE SET V = S.V WHEN NOT MATCHED THEN INSERT (ID, V) VALUES (S.ID, S.V)"
    )
    assert run(c, merge.format(2)) == [(1, 1)]
    with pytest.raises(ProgrammingError, match="Duplicate row detected") as error:
        run(c, merge.format(1))
    assert error.value.errno == 100090
    assert run(c, "SELECT * FROM M ORDER BY 1") == [(1, "x"), (2, "y")]


def test_session_parameters(server: InProcess) -> None:
    with server.connect(session_parameters={"LOCK_TIMEOUT": 7, "QUERY_TAG": "firn"}) as c:
        assert run(c, "SHOW PARAMETERS LIKE 'LOCK_TIMEOUT'")[0][:2] == ("LOCK_TIMEOUT", "7")
        run(c, "ALTER SESSION SET QUERY_TAG = 'dbt run', LOCK_TIMEOUT = 9")
        assert run(c, "SHOW PARAMETERS LIKE 'QUERY_TAG'")[0][:2] == ("QUERY_TAG", "dbt run")
        run(c, "ALTER SESSION UNSET LOCK_TIMEOUT")
        assert run(c, "SHOW PARAMETERS LIKE 'LOCK_TIMEOUT'")[0][:2] == ("LOCK_TIMEOUT", "43200")


def test_roles_users_and_grants_are_shown_back(c: Connection) -> None:
    run(c, "CREATE ROLE WRITER COMMENT = 'writes'")
    run(c, "GRANT INSERT, SELECT ON TABLE ORDER_EVENTS TO ROLE WRITER")
    run(c, "GRANT SELECT ON FUTURE TABLES IN SCHEMA STREAMING.PUBLIC TO WRITER")
    run(c, "GRANT ROLE WRITER TO ROLE ANALYTICS_DEVELOPER")
    shown = {row[1:4] for row in run(c, "SHOW GRANTS TO ROLE WRITER")}
    assert shown == {
        ("INSERT", "TABLE", "STREAMING.PUBLIC.ORDER_EVENTS"),
        ("SELECT", "TABLE", "STREAMING.PUBLIC.ORDER_EVENTS"),
        ("SELECT", "FUTURE TABLES IN SCHEMA", "STREAMING.PUBLIC"),
    }
    assert [row[1:4] for row in run(c, "SHOW GRANTS OF ROLE WRITER")] == [("WRITER", "ROLE", "ANALYTICS_DEVELOPER")]
    run(c, "REVOKE INSERT ON TABLE ORDER_EVENTS FROM ROLE WRITER")
    assert {row[1] for row in run(c, "SHOW GRANTS ON TABLE ORDER_EVENTS")} == {"OWNERSHIP", "SELECT"}
    assert "WRITER" in {row[1] for row in run(c, "SHOW ROLES LIKE 'wr%'")}
    run(c, "DROP ROLE WRITER")
    with pytest.raises(ProgrammingError, match="does not exist"):
        run(c, "SHOW GRANTS TO ROLE WRITER")


def test_who_makes_an_object_owns_it_until_it_is_dropped(c: Connection) -> None:
    def owned() -> set[tuple[str, str]]:
        return {row[2:4] for row in run(c, "SHOW GRANTS TO ROLE MAKER") if row[1] == "OWNERSHIP"}

    run(c, "CREATE ROLE MAKER")
    run(c, "USE ROLE MAKER")
    run(c, "CREATE OR REPLACE TABLE MADE (A INT)")
    run(c, "CREATE STAGE IF NOT EXISTS MADE_STAGE")
    run(c, "CREATE TEMPORARY TABLE NOT_LISTED (A INT)")
    run(c, "CREATE SCHEMA MADE_SCHEMA")
    run(c, "CREATE VIEW INSIDE AS SELECT 1 AS A")
    table, stage = ("TABLE", "STREAMING.PUBLIC.MADE"), ("STAGE", "STREAMING.PUBLIC.MADE_STAGE")
    schema, view = ("SCHEMA", "STREAMING.MADE_SCHEMA"), ("VIEW", "STREAMING.MADE_SCHEMA.INSIDE")
    assert owned() == {table, stage, schema, view}
    run(c, "USE ROLE ACCOUNTADMIN")
    run(c, "CREATE TABLE IF NOT EXISTS PUBLIC.MADE (A INT)")
    run(c, "CREATE STAGE IF NOT EXISTS PUBLIC.MADE_STAGE")
    assert owned() == {table, stage, schema, view}
    run(c, "DROP SCHEMA MADE_SCHEMA")
    assert owned() == {table, stage}
    run(c, "GRANT OWNERSHIP ON TABLE PUBLIC.MADE TO ROLE SVC_KAFKA_CONNECTOR")
    run(c, "DROP STAGE PUBLIC.MADE_STAGE")
    assert owned() == set()
    run(c, "DROP TABLE PUBLIC.MADE")
    assert table not in {row[2:4] for row in run(c, "SHOW GRANTS TO ROLE SVC_KAFKA_CONNECTOR")}


def test_no_secondary_roles_are_active(c: Connection) -> None:
    assert run(c, "SELECT CURRENT_SECONDARY_ROLES() AS ROLES") == [('{"roles":"","value":""}',)]


def test_views_find_their_tables_from_anywhere(c: Connection) -> None:
    run(c, "CREATE OR REPLACE VIEW V AS SELECT COUNT(*) N FROM ORDER_EVENTS")
    run(c, "CREATE DATABASE IF NOT EXISTS ELSEWHERE")
    assert len(run(c, "SELECT N FROM STREAMING.PUBLIC.V")) == 1
    assert run(c, "DESCRIBE TABLE STREAMING.PUBLIC.ORDER_EVENTS")[0][:2] == ("RECORD_METADATA", "VARIANT")
    run(c, "DROP DATABASE ELSEWHERE")


def test_session_variables_have_no_value_in_quotes(server: InProcess) -> None:
    with server.connect() as connection:
        run(connection, "SET PRICE = 5")
        made = """CREATE OR REPLACE TABLE VARIED ("$PRICE" INT, "$X" INT) COMMENT = 'of $y' -- and $z"""
        run(connection, made)
        run(connection, 'INSERT INTO VARIED ("$PRICE", "$X") SELECT $PRICE, 7')
        assert run(connection, """SELECT "$PRICE", "$X", '$PRICE' FROM VARIED""") == [(5, 7, "$PRICE")]
        with pytest.raises(ProgrammingError, match="variable"):
            run(connection, "SELECT $NONE_OF_IT")


def test_a_dropped_database_stays_dropped(tmp_path: Path) -> None:
    server = InProcess(tmp_path / "data")
    with server.connect() as connection:
        run(connection, "CREATE OR REPLACE DATABASE GONE")
        assert run(connection, "SELECT CURRENT_DATABASE(), CURRENT_SCHEMA()") == [("GONE", "PUBLIC")]
        run(connection, "DROP DATABASE GONE")
    server.restart()
    with server.connect() as connection, pytest.raises(ProgrammingError, match="does not exist"):
        run(connection, "USE DATABASE GONE")
    server.stop()
