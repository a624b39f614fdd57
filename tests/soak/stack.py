"""A soak's own stack: the servers that a sink needs (no Prefect) in a folder of their own, killed and started again.

Whatever happens to the soak, a guard (`guard`) ends every process whose pid stands in the folder's run/*.json.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from firn.settings import PROJECT_ROOT, Settings
from firn_local import process
from firn_local.home import LOOPBACK, Home
from firn_local.servers.server_contract import Server
from firn_local.stack.lifecycle import SERVERS
from firn_local.stack.loopback_ports import with_ports
from firn_local.stack.startup import Starter, each_in_order, needed_by
from tests.soak.processes import alive, send
from tests.support.sinks import wait_until

NAMES = ("secrets-manager", "kafka", "schema-registry", "snowflake")
GONE_SECONDS = 20
START_SECONDS = 180.0
"""How long a server may take to start: beside a sink that catches up, and on a busy machine."""


class SoakStack:
    """The servers of one soak. `keep` leaves the folder with its logs where it is after `close`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="firn-soak-"))
        Server.start_seconds = START_SECONDS
        self.home = with_ports(Home.load(self.root), SERVERS)
        self.keep = False
        self._say = say
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.guard", str(self.root)],
            cwd=PROJECT_ROOT,
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def settings(self) -> Settings:
        """The settings of the stack's clients."""
        return Settings(_env_file=self.home.env_file, home=self.root)  # type: ignore[call-arg]

    def start(self) -> None:
        """Bring all servers up."""
        self.home.write_env()
        servers = [server for server in SERVERS if server.name in NAMES]
        each_in_order(servers, needed_by(servers), self._bring_up)

    def kill(self, name: str) -> str:
        """SIGKILL a server and see it gone: no process, and nobody at its port. Returns what was seen."""
        found = process.find(self.home.pid_file(name))
        assert found is not None, f"{name} did not run"
        for member in [*found.children(recursive=True), found]:
            send(member, signal.SIGKILL)
        wait_until(lambda: not alive(found), seconds=GONE_SECONDS, what=f"{name} is gone")
        wait_until(lambda: self.refuses(name), seconds=GONE_SECONDS, what=f"nobody listens at {name}'s port")
        return f"{name} (pid {found.pid}) is gone, port {self.home.ports[name]} refuses"

    def start_again(self, name: str) -> None:
        """Bring one server up, as `firn up` does."""
        self._bring_up(next(server for server in SERVERS if server.name == name), threading.Event())

    def refuses(self, name: str) -> bool:
        """Whether nobody listens at the server's port."""
        with socket.socket() as client:
            return client.connect_ex((LOOPBACK, self.home.ports[name])) != 0

    def close(self) -> None:
        """Stop everything; remove the folder unless it is to be kept."""
        assert self._guard.stdin is not None
        if self.keep:
            self._guard.stdin.write(b"keep")
        self._guard.stdin.close()
        self._guard.wait()

    def _bring_up(self, server: Server, abandon: threading.Event) -> None:
        seconds = Starter(self.home).bring_up(server, abandon)
        self._say(f"{server.name} is ready ({seconds:.1f} s)")
