"""What the local Snowflake still knows after a stop, a SIGKILL, and with which key it lets a user in."""

from __future__ import annotations

import base64
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from snowflake.connector.errors import DatabaseError, ProgrammingError

from tests.firn_local.snowflake.process import Server, run, write_parquet


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


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_everything_committed_survives(server: Server, how: signal.Signals, tmp_path: Path) -> None:
    with admin(server) as connection:
        run(connection, "CREATE SCHEMA IF NOT EXISTS STREAMING.MARTS")
        run(connection, "USE SCHEMA STREAMING.PUBLIC")
        run(connection, "CREATE OR REPLACE TABLE T (A INT, V VARIANT)")
        run(connection, "CREATE OR REPLACE VIEW W AS SELECT A FROM T")
        run(connection, "COMMENT ON TABLE T IS 'kept'")
        run(connection, "CREATE OR REPLACE STAGE S")
        run(connection, f"PUT file://{write_parquet(tmp_path / 'f.parquet', 3)} @S/a/b/ AUTO_COMPRESS=FALSE")
        run(connection, "GRANT SELECT ON TABLE T TO ROLE DEV")
        run(connection, "CREATE WAREHOUSE IF NOT EXISTS INGEST_WH WAREHOUSE_SIZE = XSMALL")
        run(connection, "INSERT INTO T SELECT 1, PARSE_JSON('{\"x\": 1}')")
        run(connection, "BEGIN")
        run(connection, "INSERT INTO T SELECT 2, NULL")  # never committed
        server.restart(how)
    with admin(server) as connection:
        assert run(connection, "SELECT A, V:x::INT FROM T") == [(1, 1)]
        assert run(connection, "SELECT A FROM W") == [(1,)]
        assert [row[0] for row in run(connection, "LIST @S")] == ["s/a/b/f.parquet"]
        assert [(row[1], row[5]) for row in run(connection, "SHOW TABLES LIKE 'T'")] == [("T", "kept")]
        assert [row[1:4] for row in run(connection, "SHOW GRANTS TO ROLE DEV")] == [
            ("SELECT", "TABLE", "STREAMING.PUBLIC.T")
        ]
        assert "MARTS" in {row[1] for row in run(connection, "SHOW SCHEMAS IN DATABASE STREAMING")}
        run(connection, "USE WAREHOUSE INGEST_WH")


def test_nothing_is_written_outside_the_data_directory(server: Server) -> None:
    assert {p.name for p in server.data_dir.iterdir()} == {"bootstrapped", "databases", "stages", "tmp"}
    assert any(p.name.startswith("fakesnow_bucket") for p in (server.data_dir / "tmp").iterdir())


def test_a_dropped_database_stays_dropped(server: Server) -> None:
    with admin(server) as connection:
        run(connection, "CREATE OR REPLACE DATABASE GONE")
        assert run(connection, "SELECT CURRENT_DATABASE(), CURRENT_SCHEMA()") == [("GONE", "PUBLIC")]
        run(connection, "DROP DATABASE GONE")
    server.restart(signal.SIGTERM)
    with admin(server) as connection, pytest.raises(ProgrammingError, match="does not exist"):
        run(connection, "USE DATABASE GONE")


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
