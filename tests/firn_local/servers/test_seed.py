"""The first users of a stack: what each login may do, as the course separates them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from snowflake.connector.errors import ProgrammingError

from firn_local.admin import new_private_key
from firn_local.servers.seed import first_statements, public_key
from tests.firn_local.snowflake.in_process import InProcess, run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder = tmp_path_factory.mktemp("snowflake")
    sql: Path = folder / "first.sql"
    sql.write_text(first_statements(*(public_key(SecretStr(new_private_key())) for _ in range(3))))
    server = InProcess(folder / "data", bootstrap_sql=sql)
    yield server
    server.stop()


def test_analysts_read_what_the_connector_wrote_and_build_models_of_their_own(server: InProcess) -> None:
    with server.connect(user="SVC_KAFKA_CONNECTOR") as writer:
        run(writer, "USE WAREHOUSE INGEST_WH")
        run(writer, "CREATE TABLE ORDERS (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
        run(writer, "INSERT INTO ORDERS SELECT PARSE_JSON('{}'), PARSE_JSON('{\"id\": 1}')")
    with server.connect(user="ANALYTICS_DEVELOPER") as analyst:
        run(analyst, "USE WAREHOUSE INGEST_WH")
        assert run(analyst, "SELECT CURRENT_ROLE()") == [("ANALYTICS_DEVELOPER",)]
        run(analyst, "CREATE SCHEMA MODELS")
        run(analyst, "CREATE VIEW STG AS SELECT RECORD_CONTENT:id::INT AS ID FROM PUBLIC.ORDERS")
        run(analyst, "CREATE TABLE FCT AS SELECT * FROM STG")
        assert run(analyst, "SELECT * FROM FCT") == [(1,)]
        for refused in ("DELETE FROM PUBLIC.ORDERS", "DROP TABLE PUBLIC.ORDERS"):
            with pytest.raises(ProgrammingError, match="Insufficient privileges"):
                run(analyst, refused)


def test_the_connector_makes_tables_and_no_views_and_reads_the_models_that_it_exports(server: InProcess) -> None:
    with server.connect(user="ANALYTICS_DEVELOPER") as analyst:
        run(analyst, "USE WAREHOUSE INGEST_WH")
        run(analyst, "CREATE TABLE PUBLIC.FCT_ORDERS (ORDER_ID INT)")
        run(analyst, "ALTER TABLE PUBLIC.FCT_ORDERS SET CHANGE_TRACKING = TRUE")
    with server.connect(user="SVC_KAFKA_CONNECTOR") as writer:
        run(writer, "CREATE STREAM STREAMING.PUBLIC.CHANGES ON TABLE STREAMING.PUBLIC.FCT_ORDERS")
        with pytest.raises(ProgrammingError, match="Insufficient privileges"):
            run(writer, "CREATE VIEW STREAMING.PUBLIC.V AS SELECT 1 AS A")
        with pytest.raises(ProgrammingError, match="Insufficient privileges"):
            run(writer, "DROP TABLE STREAMING.PUBLIC.FCT_ORDERS")


def test_a_login_may_not_take_a_role_that_it_has_not(server: InProcess) -> None:
    with (
        server.connect(user="ANALYTICS_DEVELOPER") as analyst,
        pytest.raises(ProgrammingError, match="not assigned to the executing user"),
    ):
        run(analyst, "USE ROLE SVC_KAFKA_CONNECTOR")
