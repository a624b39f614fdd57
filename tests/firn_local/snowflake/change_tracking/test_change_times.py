"""SYSTEM$LAST_CHANGE_COMMIT_TIME: whether a table changed between two looks."""

from __future__ import annotations

import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import InProcess, run


def token(connection, name: str) -> int:
    return int(run(connection, f"SELECT SYSTEM$LAST_CHANGE_COMMIT_TIME('{name}')")[0][0])


def test_the_token_of_a_table_grows_with_its_commits_and_with_no_other(server: InProcess) -> None:
    with server.connect() as connection, server.connect() as other:
        run(connection, "CREATE TABLE LOOKED_AT (A INT)")
        run(connection, "CREATE TABLE BESIDE (A INT)")
        before = token(connection, "streaming.public.looked_at")
        run(connection, "INSERT INTO BESIDE VALUES (1)")
        assert token(connection, "LOOKED_AT") == before
        run(other, "BEGIN")
        run(other, "INSERT INTO LOOKED_AT VALUES (1)")
        assert token(connection, "LOOKED_AT") == before
        run(other, "COMMIT")
        assert token(connection, "LOOKED_AT") > before


def test_the_token_of_a_view_grows_with_its_table(server: InProcess) -> None:
    with server.connect() as connection:
        run(connection, "CREATE TABLE UNDER_VIEW (A INT)")
        run(connection, "CREATE VIEW OVER_TABLE AS SELECT A FROM UNDER_VIEW")
        before = token(connection, "OVER_TABLE")
        run(connection, "INSERT INTO UNDER_VIEW VALUES (1)")
        assert token(connection, "OVER_TABLE") > before


def test_a_token_grows_over_a_restart_and_an_absent_table_has_none(server: InProcess) -> None:
    with server.connect() as connection:
        run(connection, "CREATE TABLE KEPT (A INT)")
        before = token(connection, "KEPT")
        with pytest.raises(ProgrammingError, match="does not exist"):
            token(connection, "ABSENT")
    server.restart()
    with server.connect() as connection:
        assert token(connection, "KEPT") > before
