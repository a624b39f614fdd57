"""A real HTTP proxy (proxy.py) in a process of its own, on a free loopback port, with a log of its requests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from firn.proxy import ProxyConfig
from firn.settings import PROJECT_ROOT
from tests.support.proxy_requests import LOG, RequestLog

START_SECONDS = 30


@dataclass(frozen=True)
class LocalProxy:
    """A running proxy; `config` is what a sink's configuration would say about it."""

    port: int
    log: Path
    config: ProxyConfig

    def served(self) -> str:
        """The requests so far, a line for each: `<method> <host>:<port><path>`."""
        return self.log.read_text() if self.log.exists() else ""


@contextmanager
def running_proxy(folder: Path, *, user: str | None = None, password: str | None = None) -> Iterator[LocalProxy]:
    """A proxy for the length of a block, with basic authentication where a user is given."""
    log, port_file = folder / "requests.log", folder / "proxy.port"
    command = [sys.executable, "-m", "proxy", "--hostname", "127.0.0.1", "--port", "0", "--port-file", str(port_file)]
    command += ["--num-workers", "1", "--num-acceptors", "1", "--data-dir", str(folder)]
    command += ["--plugins", f"{RequestLog.__module__}.{RequestLog.__name__}"]
    if user is not None:
        command += ["--basic-auth", f"{user}:{password}"]
    process = subprocess.Popen(
        command,
        cwd=PROJECT_ROOT,
        env=os.environ | {LOG: str(log)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = _port(port_file, process)
        secret = None if password is None else SecretStr(password)
        yield LocalProxy(port, log, ProxyConfig("127.0.0.1", port, user, secret))
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _port(port_file: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "the proxy ended"
        assert time.monotonic() < deadline, "the proxy did not start"
        if port_file.is_file() and (text := port_file.read_text().split()):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", int(text[0]))) == 0:
                    return int(text[0])
        time.sleep(0.05)


def closed_port() -> int:
    """A port of loopback where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])
