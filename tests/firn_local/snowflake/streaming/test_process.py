"""The endpoint as a process of its own: killed at any moment, rows and token are of one commit."""

from __future__ import annotations

import http.client
import itertools
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.firn_local.snowflake.in_process import run
from tests.firn_local.snowflake.process import Server, free_port
from tests.firn_local.snowflake.streaming.streaming_server import ChannelClient, Client, PipeClient, wait_until


@dataclass(frozen=True)
class Process:
    server: Server
    port: int
    ca_file: Path

    @property
    def pipe(self) -> PipeClient:
        return Client(self).pipe(database="STREAMING")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    port, data = free_port(), tmp_path / "data"
    server = Server(data, "--streaming-port", str(port), "--commit-delay-seconds", "0.01")
    with server.connect(database=None, schema=None) as connection:
        run(connection, "CREATE DATABASE STREAMING")
        run(connection, "CREATE TABLE STREAMING.PUBLIC.T (A NUMBER)")
    yield Process(server, port, data / "streaming" / "trusted.pem")
    assert server.stop() == 0


def write(channel: ChannelClient, first: int) -> None:
    """Rows with their number as token, until the server is gone."""
    with suppress(http.client.HTTPException, OSError):
        for at in itertools.count(first, 3):
            channel.append(*({"a": a} for a in range(at, at + 3)), end=str(at + 2))


def test_a_killed_server_has_rows_and_token_of_one_commit(process: Process) -> None:
    token = -1
    for _ in range(2):
        channel = process.pipe.channel("c")
        writer = threading.Thread(target=write, args=(channel, token + 1))
        writer.start()
        asked = process.pipe
        wait_until(
            lambda seen=token, asked=asked: int(asked.status("c")["last_committed_offset_token"] or -1) > seen + 60
        )
        process.server.stop(signal.SIGKILL)
        writer.join()
        process.server.start()
        token = int(process.pipe.status("c")["last_committed_offset_token"])
        with process.server.connect() as connection:
            rows = [int(a) for (a,) in run(connection, "SELECT A FROM T ORDER BY A")]
        assert rows == list(range(token + 1))
