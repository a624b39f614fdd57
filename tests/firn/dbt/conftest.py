"""One local Snowflake for the tests of dbt."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin
from tests.support.dbt import ANALYST, Warehouse, emptied


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnowflakeLogin]:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = tmp_path_factory.mktemp("snowflake")
    process = subprocess.Popen(
        [sys.executable, "-m", "firn_local.snowflake", "--port", str(port), "--data-dir", str(data)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_open(process, port)
        yield SnowflakeLogin(
            account="local",
            user=ANALYST,
            role=ANALYST,
            warehouse="INGEST_WH",
            database="STREAMING",
            schema="PUBLIC",
            host="127.0.0.1",
            port=port,
            protocol="http",
            private_key=SecretStr(key.decode()),
        )
    finally:
        process.terminate()
        process.wait(20)


def _wait_until_open(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the local Snowflake ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the local Snowflake did not open its port within 60 s")


@pytest.fixture
def warehouse(server: SnowflakeLogin, tmp_path: Path) -> Warehouse:
    return emptied(server, tmp_path)


@pytest.fixture
def nowhere(tmp_path: Path) -> Warehouse:
    """A login that no test may use: these tests end before dbt starts."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    login = SnowflakeLogin("a", "u", "r", "w", "d", "s", "127.0.0.1", 1, "http", SecretStr(key.decode()))
    return Warehouse(login, Settings(home=tmp_path, retry_deadline_seconds=1))
