"""A local Snowflake in a process of its own, for tests: started, asked for health, stopped by its process id."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import snowflake.connector
from snowflake.connector import SnowflakeConnection

DETACHED_SECONDS = 1.5


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    def __init__(self, data_dir: Path, *options: str) -> None:
        self.data_dir, self.port, self._options = data_dir, free_port(), options
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "firn_local.snowflake", "--port", str(self.port)]
        command += ["--data-dir", str(self.data_dir), "--detached-session-seconds", str(DETACHED_SECONDS)]
        command += ["--answer-within-seconds", "0.5"]  # so that waits go through "in progress" too
        self.log = self.data_dir.with_suffix(".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*command, *self._options], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not self.healthy():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as answer:
                return bool(json.load(answer)["ok"])
        except OSError:
            return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)

    def restart(self, how: signal.Signals) -> None:
        self.stop(how)
        self.start()

    def connect(self, **options: Any) -> SnowflakeConnection:
        defaults: dict[str, Any] = {
            "user": "TESTER",
            "password": "any",  # accepted while no user exists
            "account": "LOCAL",
            "host": "127.0.0.1",
            "port": self.port,
            "protocol": "http",
            "database": "STREAMING",
            "schema": "PUBLIC",
            "login_timeout": 10,
            "network_timeout": 30,
        }
        return snowflake.connector.connect(**(defaults | options))
