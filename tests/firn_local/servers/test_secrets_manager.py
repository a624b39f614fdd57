"""The local Secrets Manager keeps what it acknowledged, through a SIGKILL at once after the answer."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from firn_local.home import Home
from firn_local.servers.secrets_manager import SecretsManager
from firn_local.servers.server_contract import NotHealthy
from firn_local.stack import loopback_ports


class Process:
    def __init__(self, data: Path) -> None:
        self.data, self.port = data, loopback_ports.choose(1)[0]
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--data-dir", str(self.data)]
        self.child = subprocess.Popen([sys.executable, "-m", "firn_local.servers.secrets_manager", *options])
        deadline = time.monotonic() + 60
        while True:
            try:
                return SecretsManager().check(Home(self.data, {"secrets-manager": self.port}))
            except NotHealthy:
                assert self.child.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def client(self) -> Any:
        url = f"http://127.0.0.1:{self.port}"
        return boto3.client(
            "secretsmanager",
            region_name="eu-west-2",
            endpoint_url=url,
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    yield process
    process.kill()


def crash(server: Process) -> Any:
    server.kill()
    server.start()
    return server.client()


@pytest.mark.parametrize(
    "change",
    [
        lambda client: client.put_secret_value(SecretId="s", SecretString="after"),
        lambda client: client.update_secret(SecretId="s", SecretString="after"),
    ],
)
def test_an_acknowledged_value_survives_a_kill(server: Process, change: Callable[[Any], Any]) -> None:
    client = server.client()
    arn = client.create_secret(Name="s", SecretString="before", Tags=[{"Key": "team", "Value": "data"}])["ARN"]
    change(client)
    client = crash(server)
    assert client.get_secret_value(SecretId=arn)["SecretString"] == "after"
    assert client.get_secret_value(SecretId="s", VersionStage="AWSPREVIOUS")["SecretString"] == "before"
    assert client.describe_secret(SecretId="s")["Tags"] == [{"Key": "team", "Value": "data"}]


def test_a_deleted_secret_stays_deleted_and_can_still_be_restored(server: Process) -> None:
    client = server.client()
    client.create_secret(Name="gone", SecretString="v")
    client.create_secret(Name="back", SecretBinary=b"\x00\xff")
    client.delete_secret(SecretId="gone", ForceDeleteWithoutRecovery=True)
    client.delete_secret(SecretId="back")
    client = crash(server)
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_secret_value(SecretId="gone")
    client.restore_secret(SecretId="back")
    client = crash(server)
    assert client.get_secret_value(SecretId="back")["SecretBinary"] == b"\x00\xff"


def test_only_the_owner_can_read_the_file(server: Process) -> None:
    server.client().create_secret(Name="s", SecretString="v")
    assert stat.S_IMODE((server.data / "secrets.json").stat().st_mode) == 0o600
