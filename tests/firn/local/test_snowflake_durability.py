"""What the local Snowflake still knows after a stop, a SIGKILL, and with which key it lets a user in."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from snowflake.connector.errors import DatabaseError, ProgrammingError

from tests.firn.local.snowflake_process import Server, run, write_parquet


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


def test_the_second_public_key_lets_in_too_and_both_fingerprints_are_shown(server: Server) -> None:
    with admin(server) as connection:
        run(connection, f"ALTER USER ADMIN SET RSA_PUBLIC_KEY_2='{bare(KEYS['second'][1])}'")
    with admin(server, "second") as connection:
        shown = {row[0]: row[1] for row in run(connection, "DESC USER ADMIN")}
        assert run(connection, "SELECT CURRENT_USER(), CURRENT_ROLE()") == [("ADMIN", "ACCOUNTADMIN")]
        run(connection, "ALTER USER ADMIN UNSET RSA_PUBLIC_KEY_2")
    assert shown["RSA_PUBLIC_KEY_FP"].startswith("SHA256:")
    assert shown["RSA_PUBLIC_KEY_2_FP"] not in (None, shown["RSA_PUBLIC_KEY_FP"])
    with pytest.raises(DatabaseError, match="JWT token is invalid"):
        admin(server, "second")


def test_an_unknown_role_in_the_login_is_refused(server: Server) -> None:
    with pytest.raises(DatabaseError, match="Role 'NOPE' specified in the connect string does not exist"):
        admin(server, role="NOPE")
