"""Who may do what in the local Snowflake: without its privilege a statement fails as on Snowflake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from snowflake.connector.errors import DatabaseError, ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run, write_parquet

SETUP = """
CREATE DATABASE STREAMING; CREATE WAREHOUSE WH;
CREATE ROLE WORKER; CREATE ROLE HELPER; CREATE ROLE STRANGER;
CREATE USER ADMIN DEFAULT_ROLE = ACCOUNTADMIN; GRANT ROLE ACCOUNTADMIN TO USER ADMIN;
CREATE USER WORKER DEFAULT_ROLE = WORKER DEFAULT_WAREHOUSE = WH;
GRANT ROLE WORKER TO USER WORKER; GRANT ROLE HELPER TO USER WORKER;
GRANT USAGE ON DATABASE STREAMING TO ROLE WORKER; GRANT USAGE ON SCHEMA STREAMING.PUBLIC TO ROLE WORKER;
GRANT USAGE ON WAREHOUSE WH TO ROLE WORKER;
"""
Sql = Callable[..., list[tuple[Any, ...]]]


def login(server: InProcess, user: str, **options: Any) -> Connection:
    return server.connect(user=user, **options)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    base = tmp_path_factory.mktemp("privileges")
    (base / "bootstrap.sql").write_text(SETUP)
    server = InProcess(base / "data", base / "bootstrap.sql")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def admin(server: InProcess) -> Iterator[Sql]:
    """Runs statements as the administrator."""
    with login(server, "ADMIN") as connection:
        yield lambda *statements: [run(connection, statement) for statement in statements][-1]


@pytest.fixture
def worker(server: InProcess) -> Iterator[Sql]:
    """Runs statements in one session of the worker."""
    with login(server, "WORKER") as connection:
        yield lambda *statements: [run(connection, statement) for statement in statements][-1]


@pytest.fixture(scope="module")
def objects(admin: Sql, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A table, a view and a stage of the administrator."""
    file = write_parquet(tmp_path_factory.mktemp("files") / "f.parquet", 2)
    admin(
        "CREATE TABLE T (A INT)",
        "CREATE TABLE U (A VARIANT)",
        "CREATE VIEW V AS SELECT A FROM T",
        "CREATE STAGE ST",
        f"PUT file://{file} @ST/in/ AUTO_COMPRESS=FALSE",
    )


def refused(sql: Sql, statement: str) -> tuple[int, str]:
    with pytest.raises(ProgrammingError) as raised:
        sql(statement)
    return raised.value.errno or 0, str(raised.value.raw_msg)


WANTED = {
    "SELECT A FROM T": "SELECT ON TABLE T",
    "WITH T2 AS (SELECT A FROM T) SELECT * FROM T2": "SELECT ON TABLE T",
    "SELECT A FROM V": "SELECT ON VIEW V",
    "CREATE TEMPORARY TABLE OWN AS SELECT A FROM T": "SELECT ON TABLE T",
    "INSERT INTO T VALUES (1)": "INSERT ON TABLE T",
    "UPDATE T SET A = 2 WHERE A = 9": "UPDATE ON TABLE T",
    "DELETE FROM T WHERE A = 9": "DELETE ON TABLE T",
    "TRUNCATE TABLE T": "TRUNCATE ON TABLE T",
    "MERGE INTO T USING (SELECT 1 AS A) S ON T.A = S.A WHEN MATCHED THEN DELETE": "DELETE ON TABLE T",
    "LIST @ST/in/": "READ ON STAGE ST",
    "REMOVE @ST/none/": "WRITE ON STAGE ST",
}


@pytest.mark.parametrize("statement", WANTED)
def test_a_statement_wants_its_privilege(objects: None, admin: Sql, worker: Sql, statement: str) -> None:
    wanted = WANTED[statement]
    kind, name = wanted.split()[-2:]
    other = "WRITE" if wanted.startswith("READ") else "READ" if kind == "STAGE" else "REFERENCES"
    unseen = f"{'Stage' if kind == 'STAGE' else 'Object'} 'STREAMING.PUBLIC.{name}' does not exist or not authorized."
    assert refused(worker, statement) == (2003, f"SQL compilation error:\n{unseen}")
    admin(f"GRANT {other} ON {kind} {name} TO ROLE WORKER")
    code, text = refused(worker, statement)
    seen_as = "table" if kind == "VIEW" else kind.lower()
    assert (code, text) == (
        3001,
        f"SQL access control error:\nInsufficient privileges to operate on {seen_as} '{name}'.",
    )
    admin(f"GRANT {wanted} TO ROLE WORKER")
    worker(statement)
    admin(f"REVOKE {wanted} FROM ROLE WORKER")  # an open session notices at once
    assert refused(worker, statement)[0] == 3001
    admin(f"REVOKE {other} ON {kind} {name} FROM ROLE WORKER")


def test_put_and_copy_want_both_ends(objects: None, admin: Sql, worker: Sql, tmp_path: Path) -> None:
    put = f"PUT file://{write_parquet(tmp_path / 'g.parquet', 1)} @ST/more/ AUTO_COMPRESS=FALSE"
    copy = "COPY INTO U FROM (SELECT PARSE_JSON($1:RECORD_METADATA) FROM @ST/in/) FILE_FORMAT = (TYPE = PARQUET)"
    admin("GRANT READ ON STAGE ST TO ROLE WORKER")
    assert refused(worker, put)[0] == 3001
    assert refused(worker, copy)[0] == 2003
    admin("GRANT INSERT ON TABLE U TO ROLE WORKER", "GRANT WRITE ON STAGE ST TO ROLE WORKER")
    worker(put, copy)
    admin("REVOKE READ ON STAGE ST FROM ROLE WORKER")
    assert refused(worker, copy)[0] == 3001
    admin("REVOKE WRITE ON STAGE ST FROM ROLE WORKER", "REVOKE INSERT ON TABLE U FROM ROLE WORKER")


@pytest.mark.parametrize("kind", ["TABLE", "VIEW", "STAGE"])
def test_what_is_made_belongs_to_its_maker(admin: Sql, worker: Sql, kind: str) -> None:
    body = {"TABLE": " (A INT)", "VIEW": " AS SELECT 1 AS A", "STAGE": ""}[kind]
    create = f"CREATE {kind} MINE{body}"
    assert refused(worker, create) == (
        3001,
        "SQL access control error:\nInsufficient privileges to operate on schema 'PUBLIC'.",
    )
    admin(f"GRANT CREATE {kind} ON SCHEMA PUBLIC TO ROLE WORKER")
    worker(create, create.replace("CREATE", "CREATE OR REPLACE", 1))
    worker(f"GRANT {'READ' if kind == 'STAGE' else 'SELECT'} ON {kind} MINE TO ROLE HELPER", f"DROP {kind} MINE")
    admin(create)
    code, text = refused(worker, create.replace(kind, f"{kind} IF NOT EXISTS", 1))
    assert code == 3041
    assert "already exists, but current role has no privileges on it" in text
    assert refused(worker, f"DROP {kind} MINE")[0] == 2003
    worker(f"DROP {kind} IF EXISTS MINE")  # nothing to drop, for those who do not see it
    admin(f"DROP {kind} MINE", f"REVOKE CREATE {kind} ON SCHEMA PUBLIC FROM ROLE WORKER")


def test_a_role_holds_what_roles_granted_to_it_hold(objects: None, admin: Sql, worker: Sql) -> None:
    admin("GRANT SELECT ON TABLE T TO ROLE STRANGER", "GRANT ROLE STRANGER TO ROLE HELPER")
    assert refused(worker, "SELECT A FROM T")[0] == 2003
    admin("GRANT ROLE HELPER TO ROLE WORKER")
    worker("SELECT A FROM T", "USE ROLE STRANGER")
    admin("REVOKE ROLE HELPER FROM ROLE WORKER", "REVOKE ROLE STRANGER FROM ROLE HELPER")


def test_secondary_roles_count_only_where_they_are_on(objects: None, admin: Sql, worker: Sql) -> None:
    admin("GRANT SELECT ON TABLE T TO ROLE HELPER", "GRANT CREATE TABLE ON SCHEMA PUBLIC TO ROLE HELPER")
    assert worker("SELECT CURRENT_SECONDARY_ROLES()") == [('{"roles":"","value":""}',)]
    assert refused(worker, "SELECT A FROM T")[0] == 2003
    worker("USE SECONDARY ROLES ALL", "SELECT A FROM T")
    assert worker("SELECT CURRENT_SECONDARY_ROLES()") == [('{"roles":"HELPER,WORKER","value":"ALL"}',)]
    assert refused(worker, "CREATE TABLE BY_HELPER (A INT)")[0] == 3001
    worker("USE SECONDARY ROLES NONE")
    assert refused(worker, "SELECT A FROM T")[0] == 2003
    admin("REVOKE SELECT ON TABLE T FROM ROLE HELPER", "REVOKE CREATE TABLE ON SCHEMA PUBLIC FROM ROLE HELPER")


def test_future_grants_and_all_privileges(admin: Sql, worker: Sql) -> None:
    admin(
        "GRANT SELECT ON FUTURE TABLES IN SCHEMA PUBLIC TO ROLE WORKER",
        "CREATE TABLE LATER (A INT)",
        "REVOKE SELECT ON FUTURE TABLES IN SCHEMA PUBLIC FROM ROLE WORKER",
    )
    worker("SELECT A FROM LATER")
    assert refused(worker, "INSERT INTO LATER VALUES (1)")[0] == 3001
    admin("GRANT ALL PRIVILEGES ON TABLE LATER TO ROLE WORKER")
    worker("INSERT INTO LATER VALUES (1)", "TRUNCATE TABLE LATER")
    assert refused(worker, "DROP TABLE LATER")[0] == 3001
    admin("REVOKE ALL ON ALL TABLES IN SCHEMA PUBLIC FROM ROLE WORKER")
    assert refused(worker, "SELECT A FROM LATER")[0] == 2003
    admin("DROP TABLE LATER")


def test_a_renamed_table_keeps_its_grants(admin: Sql, worker: Sql) -> None:
    admin("CREATE TABLE BEFORE (A INT)", "GRANT SELECT ON TABLE BEFORE TO ROLE WORKER")
    admin("ALTER TABLE BEFORE RENAME TO AFTERWARDS")
    worker("SELECT A FROM AFTERWARDS")
    admin("DROP TABLE AFTERWARDS")


def test_nothing_inside_a_schema_or_database_is_seen_without_usage(objects: None, admin: Sql, worker: Sql) -> None:
    admin("GRANT SELECT ON TABLE T TO ROLE WORKER")
    for kind, name in (("SCHEMA", "STREAMING.PUBLIC"), ("DATABASE", "STREAMING")):
        admin(f"REVOKE USAGE ON {kind} {name} FROM ROLE WORKER")
        assert refused(worker, "SELECT A FROM STREAMING.PUBLIC.T")[0] == 2003
        assert worker("SHOW TABLES") == []
        assert refused(worker, "USE SCHEMA STREAMING.PUBLIC")[0] in {2003, 2043}
        admin(f"GRANT USAGE ON {kind} {name} TO ROLE WORKER")
    assert [row[1] for row in worker("SHOW TABLES")] == ["T"]
    admin("REVOKE SELECT ON TABLE T FROM ROLE WORKER")


def test_queries_want_a_warehouse_and_constants_do_not(objects: None, admin: Sql, worker: Sql) -> None:
    admin("GRANT SELECT ON TABLE T TO ROLE WORKER", "REVOKE USAGE ON WAREHOUSE WH FROM ROLE WORKER")
    code, text = refused(worker, "SELECT A FROM T")
    assert code == 606
    assert "No active warehouse" in text
    assert worker("SELECT CURRENT_ROLE()") == [("WORKER",)]
    assert refused(worker, "USE WAREHOUSE WH")[0] == 2043
    admin("GRANT USAGE ON WAREHOUSE WH TO ROLE WORKER", "REVOKE SELECT ON TABLE T FROM ROLE WORKER")


def test_what_is_not_read_is_guarded_as_well(objects: None, admin: Sql, worker: Sql) -> None:
    admin("GRANT REFERENCES ON TABLE T TO ROLE WORKER")
    for statement in (
        "ALTER TABLE T ADD COLUMN B INT",
        "ALTER TABLE T CLUSTER BY (A)",
        "ALTER TABLE T RENAME TO TT",
        "COMMENT ON TABLE T IS 'x'",
        "comment on table t is $$it's$$",  # as dbt writes it
        "COMMENT ON COLUMN T.A IS 'x'",
        "CREATE OR REPLACE TABLE T (A INT)",
        "DROP TABLE T",
        "DROP SCHEMA STREAMING.PUBLIC",
        "CREATE SCHEMA STREAMING.MINE",
        "DROP DATABASE STREAMING",
    ):
        assert refused(worker, statement)[0] == 3001, statement
    worker("DESCRIBE TABLE T", "USE DATABASE STREAMING", "USE SCHEMA PUBLIC")
    admin("REVOKE REFERENCES ON TABLE T FROM ROLE WORKER")
    assert refused(worker, "DESCRIBE TABLE T")[0] == 2003
    assert refused(admin, "GRANT SELECT ON TABLE TYPO TO ROLE WORKER")[0] == 2003


def test_the_name_of_a_common_table_expression_is_no_table(objects: None, admin: Sql, worker: Sql) -> None:
    assert refused(worker, "WITH T AS (SELECT A FROM T) SELECT * FROM T")[0] == 2003
    assert worker("WITH T AS (SELECT 1 AS A), S AS (SELECT A FROM T) SELECT * FROM S, T") == [(1, 1)]


def test_only_roles_of_the_user_can_be_taken(server: InProcess, worker: Sql) -> None:
    worker("USE ROLE HELPER", "USE ROLE PUBLIC", "USE ROLE WORKER")
    code, text = refused(worker, "USE ROLE STRANGER")
    assert code == 3013
    assert "Requested role 'STRANGER' is not assigned to the executing user" in text
    with pytest.raises(DatabaseError, match="Role 'STRANGER' specified in the connect string is not granted"):
        login(server, "WORKER", role="STRANGER")


def test_granting_is_for_owners_and_for_those_who_may_pass_it_on(objects: None, admin: Sql, worker: Sql) -> None:
    grant = "GRANT SELECT ON TABLE T TO ROLE HELPER"
    assert refused(worker, grant)[0] == 2003
    admin("GRANT SELECT ON TABLE T TO ROLE WORKER")
    assert refused(worker, grant)[0] == 3001
    admin("GRANT SELECT ON TABLE T TO ROLE WORKER WITH GRANT OPTION")
    worker(grant, grant.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    admin("REVOKE SELECT ON TABLE T FROM ROLE WORKER")
    for statement in ("CREATE ROLE R", "CREATE USER R", "CREATE WAREHOUSE R", "CREATE DATABASE R"):
        assert refused(worker, statement)[0] == 3001
    assert refused(worker, "GRANT ROLE STRANGER TO ROLE WORKER")[0] in {2003, 2043, 3001}
    assert refused(worker, "ALTER USER ADMIN UNSET RSA_PUBLIC_KEY")[0] in {2003, 2043}


def test_a_role_makes_pipes_and_sees_those_it_may_monitor(objects: None, admin: Sql, worker: Sql) -> None:
    pipe = "CREATE PIPE STREAMING.PUBLIC.{} AS COPY INTO T FROM @ST"
    admin(pipe.format("HIDDEN"))
    assert refused(worker, pipe.format("OWN"))[0] == 3001
    admin("GRANT CREATE PIPE ON SCHEMA STREAMING.PUBLIC TO ROLE WORKER", "REVOKE INSERT ON TABLE T FROM ROLE WORKER")
    assert refused(worker, pipe.format("OWN"))[0] in {2003, 3001}  # nothing, or not INSERT, on the table
    admin("GRANT INSERT ON TABLE T TO ROLE WORKER")
    worker(pipe.format("OWN"))
    assert [row[1] for row in worker("SHOW PIPES")] == ["OWN"]
    assert refused(worker, "DESC PIPE HIDDEN")[0] == 2003
    admin("GRANT MONITOR ON PIPE HIDDEN TO ROLE WORKER")
    assert [row[1] for row in worker("SHOW PIPES")] == ["HIDDEN", "OWN"]
    assert refused(worker, "DROP PIPE HIDDEN")[0] == 3001
    worker("DROP PIPE OWN")
    admin("DROP PIPE HIDDEN", "REVOKE INSERT ON TABLE T FROM ROLE WORKER")


def test_alter_table_wants_ownership_however_many_columns_it_names(objects: None, admin: Sql, worker: Sql) -> None:
    admin(
        "CREATE OR REPLACE TABLE ALTERED (A INT NOT NULL, B INT NOT NULL)",
        "GRANT INSERT ON TABLE ALTERED TO ROLE WORKER",
    )
    for change in (
        "ADD COLUMN C INT", "ALTER COLUMN A DROP NOT NULL", "ALTER COLUMN A DROP NOT NULL, COLUMN B DROP NOT NULL",
        "SET ENABLE_SCHEMA_EVOLUTION = TRUE",
    ):  # fmt: skip
        assert refused(worker, f"ALTER TABLE ALTERED {change}")[0] == 3001


def test_a_home_of_an_older_server_is_mended_at_its_next_start(server: InProcess, admin: Sql, worker: Sql) -> None:
    """An older server kept no owners; its tables belong to the role that may make tables there."""
    admin("CREATE ROLE OLDER", "GRANT CREATE TABLE ON SCHEMA PUBLIC TO ROLE OLDER", "GRANT ROLE OLDER TO ROLE WORKER")
    admin("CREATE TABLE FROM_OLDER_TIMES (A INT)", "REVOKE OWNERSHIP ON TABLE FROM_OLDER_TIMES FROM ROLE ACCOUNTADMIN")
    assert refused(worker, "SELECT A FROM FROM_OLDER_TIMES")[0] == 2003
    server.restart()
    with login(server, "WORKER") as connection:
        assert run(connection, "SELECT A FROM FROM_OLDER_TIMES") == []
