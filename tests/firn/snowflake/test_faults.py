"""What a user reads when Snowflake refuses: the name of the error, and the statement that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import uuid4

import pytest
from pydantic import SecretStr
from snowflake.connector.errors import ProgrammingError

from firn.errors import AuthenticationError, ConfigError, FirnError, PrivilegeError, TransientError
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query
from firn.snowflake.faults import LockConflictError, MissingObjectError, QuotaError, translated
from firn_local.admin import new_private_key
from tests.support.sinks import login_of
from tests.support.snowflake import OwnUser, admin_sql, own_user


def said(number: int, text: str, sql: str, role: str = "R") -> FirnError:
    with pytest.raises(FirnError) as raised, translated(sql=sql, role=role):
        raise ProgrammingError(msg=text, errno=number)
    return raised.value


@pytest.mark.parametrize(
    ("refused", "sql", "grant"),
    [
        ("schema 'PUBLIC'", "CREATE TABLE IF NOT EXISTS DB.PUBLIC.T (A INT)", "CREATE TABLE ON SCHEMA DB.PUBLIC"),
        ("schema 'S'", 'CREATE STAGE "DB"."S"."X"', 'CREATE STAGE ON SCHEMA "DB"."S"'),
        ("schema 'PUBLIC'", "CREATE OR REPLACE VIEW V AS SELECT 1", "CREATE VIEW ON SCHEMA PUBLIC"),
        ("database 'DB'", "CREATE SCHEMA DB.S", "CREATE SCHEMA ON DATABASE DB"),
        ("table 'T'", "\nCOPY INTO DB.S.T FROM @DB.S.ST FILES = ('a')", "INSERT ON TABLE DB.S.T"),
        ("stage 'ST'", "COPY INTO DB.S.T FROM @DB.S.ST FILES = ('a')", "READ ON STAGE DB.S.ST"),
        ("stage 'ST'", "PUT 'file:///a' '@DB.S.ST/x/'", "WRITE ON STAGE DB.S.ST"),
        ("table 'T'", "UPDATE T SET A = 1", "UPDATE ON TABLE T"),
        ("table 'T'", "DROP TABLE A.B.T", "OWNERSHIP ON TABLE A.B.T"),
    ],
)
def test_the_grant_is_told_from_the_message_and_the_statement(refused: str, sql: str, grant: str) -> None:
    error = said(3001, f"SQL access control error:\nInsufficient privileges to operate on {refused}.", sql)
    assert isinstance(error, PrivilegeError)
    assert error.what.startswith("Insufficient privileges: ")
    assert error.next_step == f"GRANT {grant} TO ROLE R; see what it holds: SHOW GRANTS TO ROLE R;"


def test_what_cannot_be_told_is_looked_up() -> None:
    for text in ("SQL access control error: no", "Insufficient privileges to operate on pipe 'P'."):
        assert "SHOW GRANTS TO ROLE <role>;" in said(3001, text, "CALL P()", role="").next_step


def test_a_new_session_is_not_needed_for_a_lost_object() -> None:
    error = said(
        2043, "SQL compilation error:\nObject does not exist, or operation cannot be performed.", "USE SCHEMA X"
    )
    assert isinstance(error, MissingObjectError)
    assert "SHOW GRANTS TO ROLE R;" in error.next_step


@pytest.mark.parametrize(
    ("number", "state", "text"),
    [
        (604, "57014", "SQL execution canceled"),
        (630, "57014", "Statement reached its statement or warehouse timeout of 1,800 second(s) and was canceled."),
        (639, "57014", "canceled for a reason of its own number"),
    ],
)
def test_a_canceled_statement_may_be_tried_again(number: int, state: str, text: str) -> None:
    with pytest.raises(TransientError, match="canceled the statement: ") as raised, translated(sql="COPY INTO T"):
        raise ProgrammingError(msg=text, errno=number, sqlstate=state)
    assert text in raised.value.what
    assert "STATEMENT_TIMEOUT_IN_SECONDS" in raised.value.next_step


def test_a_lock_conflict_is_no_canceled_statement() -> None:
    with pytest.raises(LockConflictError), translated(sql="UPDATE T SET A = 1"):
        raise ProgrammingError(msg="Statement 'x' has locked table 'T'", errno=625, sqlstate="57014")


def test_a_warehouse_without_credits_wants_a_person() -> None:
    text = "Warehouse 'INGEST_WH' cannot be resumed because resource monitor 'M' has exceeded its quota."
    error = said(90073, text, "COPY INTO T")
    assert isinstance(error, QuotaError)
    assert error.what.startswith("The warehouse may not run: ")
    assert text in error.what
    assert "SET CREDIT_QUOTA" in error.next_step


@pytest.fixture(scope="module")
def settings(stack) -> Settings:
    return stack.settings


@pytest.fixture(scope="module")
def user(settings: Settings) -> Iterator[OwnUser]:
    """A user that may look around in the schema, and no more."""
    usage = (
        "GRANT USAGE ON DATABASE STREAMING TO ROLE {role}",
        "GRANT USAGE ON SCHEMA STREAMING.PUBLIC TO ROLE {role}",
    )
    with own_user(settings, *usage) as made:
        yield made


@pytest.mark.stack
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"private_key": SecretStr(new_private_key())}, "private_key (the full PEM)"),
        ({"user": "NOBODY"}, "Check account, user"),
        ({"account": "elsewhere"}, "Check account, user"),
        ({"role": "SYSADMIN"}, "GRANT ROLE <role> TO USER <user>;"),
        ({"role": "NOPE"}, "Make the role"),
    ],
    ids=["wrong key", "unknown user", "wrong account", "role of others", "unknown role"],
)
def test_authentication_failed(settings: Settings, change: dict[str, object], said: str) -> None:
    login: SnowflakeLogin = replace(login_of(settings), **change)  # type: ignore[arg-type]
    with pytest.raises(AuthenticationError, match=r"^Authentication failed: ") as raised, connect(login):
        pass
    assert said in raised.value.next_step
    assert login.private_key.get_secret_value().splitlines()[1] not in str(raised.value)


@pytest.mark.stack
def test_a_disabled_user_is_told_how_to_come_back(settings: Settings, user: OwnUser) -> None:
    admin_sql(settings, f"ALTER USER {user.name} SET DISABLED = TRUE")
    with pytest.raises(AuthenticationError, match="access disabled") as raised, connect(login_of(user.settings)):
        pass
    assert raised.value.next_step == "ALTER USER <user> SET DISABLED = FALSE;"
    admin_sql(settings, raised.value.next_step.replace("<user>", user.name))
    with connect(login_of(user.settings)):
        pass


@pytest.mark.stack
def test_the_printed_grant_is_the_one_that_was_missing(settings: Settings, user: OwnUser) -> None:
    name = f"STREAMING.PUBLIC.G_{uuid4().hex[:8].upper()}"

    def granted(run: Callable[[], object]) -> None:
        with pytest.raises(PrivilegeError, match=r"^Insufficient privileges: ") as raised:
            run()
        assert raised.value.next_step.startswith("GRANT ")
        admin_sql(settings, raised.value.next_step.partition(";")[0])
        run()

    with connect(login_of(user.settings)) as connection:
        granted(lambda: execute(connection, f"CREATE TABLE IF NOT EXISTS {name} (A INT)"))
        admin_sql(settings, f"GRANT OWNERSHIP ON TABLE {name} TO ROLE ACCOUNTADMIN")
        admin_sql(settings, f"GRANT REFERENCES ON TABLE {name} TO ROLE {user.name}")
        granted(lambda: execute(connection, f"INSERT INTO {name} VALUES (1)"))
        granted(lambda: query(connection, f"SELECT A FROM {name}"))
    admin_sql(settings, f"DROP TABLE {name}", f"REVOKE CREATE TABLE ON SCHEMA STREAMING.PUBLIC FROM ROLE {user.name}")


@pytest.mark.stack
@pytest.mark.parametrize(
    ("sql", "what", "step"),
    [
        ("SELECT * FROM STREAMING.PUBLIC.NOWHERE", "Table not found", "CREATE TABLE STREAMING.PUBLIC.NOWHERE ("),
        ("CREATE TABLE STREAMING.NOWHERE.T (A INT)", "Schema not found", "CREATE SCHEMA STREAMING.NOWHERE;"),
        ("LIST @STREAMING.PUBLIC.NOWHERE", "Stage not found", "start the sink again: it makes its stage"),
        ("USE SCHEMA NOWHERE.PUBLIC", "not found", "GRANT USAGE ON"),
    ],
)
def test_what_is_not_there_says_what_it_is_and_how_it_comes(user: OwnUser, sql: str, what: str, step: str) -> None:
    with connect(login_of(user.settings)) as connection, pytest.raises(MissingObjectError) as raised:
        execute(connection, sql)
    assert what in raised.value.what
    assert step in raised.value.next_step


@pytest.mark.stack
def test_no_warehouse_names_the_grant(settings: Settings, user: OwnUser) -> None:
    login = replace(login_of(user.settings), warehouse="NO_SUCH_WH")
    admin_sql(
        settings,
        f"CREATE TABLE IF NOT EXISTS W_{user.name} (A INT)",
        f"GRANT SELECT ON TABLE W_{user.name} TO ROLE {user.name}",
    )
    with connect(login) as connection, pytest.raises(ConfigError, match="No active warehouse") as raised:
        query(connection, f"SELECT * FROM STREAMING.PUBLIC.W_{user.name}")
    assert f"GRANT USAGE ON WAREHOUSE <warehouse> TO ROLE {user.name};" in raised.value.next_step
    admin_sql(settings, f"DROP TABLE W_{user.name}")


@pytest.mark.stack
def test_a_session_bounds_what_a_statement_takes(settings: Settings) -> None:
    with connect(login_of(settings)) as connection:
        rows = query(connection, "SHOW PARAMETERS LIKE 'STATEMENT_%TIMEOUT_IN_SECONDS'")
        assert {row["key"]: row["value"] for row in rows} == {
            "STATEMENT_TIMEOUT_IN_SECONDS": "300",
            "STATEMENT_QUEUED_TIMEOUT_IN_SECONDS": "300",
        }
