"""What the local Snowflake still knows after a stop, a SIGKILL, and with which key it lets a user in."""

from __future__ import annotations

import base64
import signal
import subprocess
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from snowflake.connector.errors import DatabaseError, ProgrammingError

from tests.firn_local.snowflake.in_process import run, write_parquet
from tests.firn_local.snowflake.process import Server


def new_key() -> tuple[bytes, str]:
    """(private key as DER, public key as PEM)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return private, key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def bare(pem: str) -> str:
    return "".join(line for line in pem.splitlines() if "-----" not in line)


KEYS = {name: new_key() for name in ("admin", "second", "stranger")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("snowflake")
    bootstrap = base / "bootstrap.sql"
    bootstrap.write_text(
        "CREATE ROLE IF NOT EXISTS DEV; -- a comment; with a semicolon\n"
        f"CREATE USER ADMIN RSA_PUBLIC_KEY='{bare(KEYS['admin'][1])}' DEFAULT_ROLE=ACCOUNTADMIN;\n"
        "GRANT ROLE ACCOUNTADMIN TO USER ADMIN;"
        "CREATE DATABASE STREAMING COMMENT = 'a; b';"
    )
    server = Server(base / "data", "--bootstrap-sql", str(bootstrap), "--account", "LOCAL")
    yield server
    assert server.stop() == 0


def admin(server: Server, key: str = "admin", **options: object):
    return server.connect(
        **{"user": "ADMIN", "authenticator": "SNOWFLAKE_JWT", "private_key": KEYS[key][0], "password": None} | options
    )


DEFINITION = "COPY INTO D (N)\n  FROM (SELECT $1:n -- cents\n  FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))"


@pytest.fixture(scope="module", params=[signal.SIGTERM, signal.SIGKILL])
def restarted(server: Server, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The server, stopped or killed while somebody had one of everything, and an open transaction."""
    file = write_parquet(tmp_path_factory.mktemp("files") / "f.parquet", 3)
    with admin(server) as connection:
        for statement in (
            "CREATE SCHEMA IF NOT EXISTS STREAMING.MARTS",
            "CREATE OR REPLACE SCHEMA STREAMING.OTHER",
            "CREATE TABLE OTHER.T (A INT)",
            "CREATE PIPE OTHER.P AS COPY INTO OTHER.T FROM @S",
            "USE SCHEMA STREAMING.PUBLIC",
            "CREATE OR REPLACE TABLE T (A INT, V VARIANT)",
            "CREATE OR REPLACE VIEW W AS SELECT A FROM T",
            "COMMENT ON TABLE T IS 'kept'",
            "CREATE OR REPLACE STAGE S",
            f"PUT file://{file} @S/a/b/ AUTO_COMPRESS=FALSE",
            "GRANT SELECT ON TABLE T TO ROLE DEV",
            "CREATE WAREHOUSE IF NOT EXISTS INGEST_WH WAREHOUSE_SIZE = XSMALL",
            "DROP TABLE IF EXISTS NEW",
            "CREATE TRANSIENT TABLE OLD (S VARCHAR(5) NOT NULL) ENABLE_SCHEMA_EVOLUTION = TRUE",
            "ALTER TABLE OLD ADD COLUMN \"l\" TIMESTAMP_LTZ(3) COMMENT 'c'",
            "ALTER TABLE OLD RENAME TO NEW",
            "ALTER TABLE NEW RENAME COLUMN S TO S2",
            "CREATE OR REPLACE TABLE D (N NUMBER)",
            f"CREATE OR REPLACE PIPE D AS {DEFINITION};",
            "INSERT INTO T SELECT 1, PARSE_JSON('{\"x\": 1}')",
            "BEGIN",
            "INSERT INTO T SELECT 2, NULL",  # never committed
        ):
            run(connection, statement)
        server.restart(request.param)
    return server


def test_everything_committed_survives(restarted: Server) -> None:
    with admin(restarted, database="STREAMING", schema="PUBLIC") as connection:
        assert run(connection, "SELECT A, V:x::INT FROM T") == [(1, 1)]
        assert run(connection, "SELECT A FROM W") == [(1,)]
        assert [row[0] for row in run(connection, "LIST @S")] == ["s/a/b/f.parquet"]
        assert [(row[1], row[5]) for row in run(connection, "SHOW TABLES LIKE 'T'")] == [("T", "kept")]
        assert [row[1:4] for row in run(connection, "SHOW GRANTS TO ROLE DEV")] == [
            ("SELECT", "TABLE", "STREAMING.PUBLIC.T")
        ]
        assert "MARTS" in {row[1] for row in run(connection, "SHOW SCHEMAS IN DATABASE STREAMING")}
        run(connection, "USE WAREHOUSE INGEST_WH")


def test_what_was_declared_survives_renaming_too(restarted: Server) -> None:
    with admin(restarted) as connection:
        described = {r[0]: (r[1], r[3], r[4], r[9]) for r in run(connection, "DESCRIBE TABLE NEW")}
        assert described == {
            "S2": ("VARCHAR(5)", "N", None, None),
            "l": ("TIMESTAMP_LTZ(3)", "Y", None, "c"),
        }
        with connection.cursor() as cursor:
            rows = cursor.execute("SHOW TABLES LIKE 'NEW'").fetchall()
            (shown,) = [dict(zip([column.name for column in cursor.description], row, strict=True)) for row in rows]
        assert (shown["kind"], shown["enable_schema_evolution"]) == ("TRANSIENT", "Y")
        with pytest.raises(ProgrammingError) as error:
            run(connection, "INSERT INTO NEW (S2) VALUES ('123456')")
        assert error.value.errno == 100078


def test_pipes_survive_and_go_with_their_schema(restarted: Server) -> None:
    with admin(restarted) as connection, connection.cursor() as cursor:
        (pipe,) = cursor.execute("SHOW PIPES IN SCHEMA PUBLIC").fetchall()
        assert dict(zip([column.name for column in cursor.description], pipe, strict=True))["definition"] == DEFINITION
        assert len(run(connection, "SHOW PIPES IN ACCOUNT")) == 2
        run(connection, "DROP SCHEMA OTHER")
        assert len(run(connection, "SHOW PIPES IN ACCOUNT")) == 1


def test_nothing_is_written_outside_the_data_directory(server: Server) -> None:
    assert {p.name for p in server.data_dir.iterdir()} == {"bootstrapped", "databases", "stages", "tmp"}
    assert any(p.name.startswith("fakesnow_bucket") for p in (server.data_dir / "tmp").iterdir())


@pytest.mark.parametrize(
    "options",
    [{"key": "stranger"}, {"user": "NOBODY"}, {"account": "OTHER"}],
    ids=["wrong key", "unknown user", "unknown account"],
)
def test_a_login_that_proves_nothing_is_refused(server: Server, options: dict[str, str]) -> None:
    with pytest.raises(DatabaseError, match="JWT token is invalid") as refused:
        admin(server, **options)
    assert refused.value.errno in {390144, 250001}


def test_a_password_is_refused_once_users_exist(server: Server) -> None:
    with pytest.raises(DatabaseError, match="Incorrect username or password"):
        server.connect(user="ADMIN", password="guess")


def fingerprint_by_openssl(public: str) -> str:
    """As Snowflake's key-pair guide computes it by hand."""
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-outform", "DER"], input=public.encode(), capture_output=True, check=True
    ).stdout
    digest = subprocess.run(
        ["openssl", "dgst", "-sha256", "-binary"], input=der, capture_output=True, check=True
    ).stdout
    return "SHA256:" + base64.b64encode(digest).decode()


def test_a_key_is_rotated_without_a_moment_in_which_nobody_gets_in(server: Server) -> None:
    with admin(server) as old_session:
        run(old_session, f"ALTER USER ADMIN SET RSA_PUBLIC_KEY_2='{bare(KEYS['second'][1])}'")
        shown = {row[0]: row[1] for row in run(old_session, "DESC USER ADMIN")}
        assert shown["RSA_PUBLIC_KEY_FP"] == fingerprint_by_openssl(KEYS["admin"][1])
        assert shown["RSA_PUBLIC_KEY_2_FP"] == fingerprint_by_openssl(KEYS["second"][1])
        with admin(server), admin(server, "second") as new_session:
            run(new_session, "ALTER USER ADMIN UNSET RSA_PUBLIC_KEY")
            assert run(old_session, "SELECT CURRENT_USER()") == [("ADMIN",)]  # open sessions live on
            with pytest.raises(DatabaseError, match="JWT token is invalid"):
                admin(server)
            assert dict(row[:2] for row in run(new_session, "DESC USER ADMIN"))["RSA_PUBLIC_KEY_FP"] is None
            run(new_session, f"ALTER USER ADMIN SET RSA_PUBLIC_KEY='{bare(KEYS['admin'][1])}'")
            run(new_session, "ALTER USER ADMIN UNSET RSA_PUBLIC_KEY_2")
    with pytest.raises(DatabaseError, match="JWT token is invalid"):
        admin(server, "second")


def test_a_disabled_user_loses_open_sessions_and_may_come_back(server: Server) -> None:
    with admin(server) as connection:
        run(connection, f"CREATE USER LEAVER RSA_PUBLIC_KEY='{bare(KEYS['second'][1])}'")
        leaver = admin(server, "second", user="LEAVER")
        run(leaver, "SELECT 1")
        run(connection, "ALTER USER LEAVER SET DISABLED = TRUE")
        with pytest.raises(DatabaseError, match="Session no longer exists"):
            run(leaver, "SELECT 1")
        with pytest.raises(DatabaseError, match="User access disabled"):
            admin(server, "second", user="LEAVER")
        run(connection, "ALTER USER LEAVER SET DISABLED = FALSE")
        with pytest.raises(DatabaseError, match="Session no longer exists"):
            run(leaver, "SELECT 1")
        admin(server, "second", user="LEAVER").close()


def test_an_unknown_role_in_the_login_is_refused(server: Server) -> None:
    with pytest.raises(DatabaseError, match="Role 'NOPE' specified in the connect string does not exist"):
        admin(server, role="NOPE")
