"""The life of the embedded stack: `up`, `down` and `status` of all servers of one home (FIRN_HOME).

Servers are processes of their own that outlive the command; nothing runs in between to watch them. A crashed one is
seen by `status` and started again by `up`. What a single server is stands in its own module.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from firn.errors import TerminalError
from firn.settings import PROJECT_ROOT
from firn_local import process
from firn_local.home import JVM_DIR, Home
from firn_local.servers.broker import Broker
from firn_local.servers.prefect_servers import PrefectServer, PrefectWorker
from firn_local.servers.schema_registry import SchemaRegistry
from firn_local.servers.secrets_manager import SecretsManager
from firn_local.servers.server_contract import NotHealthy, Server
from firn_local.servers.snowflake_server import Snowflake
from firn_local.stack import loopback_ports
from firn_local.stack.startup import Starter, each_in_order, needed_by, needing, stop_server

# In start order: a server stands behind those it needs.
SERVERS: tuple[Server, ...] = (
    SecretsManager(),
    PrefectServer(),
    Broker(),
    SchemaRegistry(),
    Snowflake(),
    PrefectWorker(),
)

State = Literal["running", "unhealthy", "crashed", "stopped"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class ServerStatus:
    """What is known of one server; `reason` says why it is unhealthy, `also` where else it is found."""

    name: str
    state: State
    pid: int | None
    address: str
    log: Path
    reason: str = ""
    also: str = ""


def status(root: Path) -> list[ServerStatus]:
    """The state of every server, asked all at once."""
    home = Home.load(root)
    with ThreadPoolExecutor(max_workers=len(SERVERS)) as pool:
        return list(pool.map(lambda server: _observe(home, server), SERVERS))


def up(root: Path, say: Say, *, new_ports: bool = False) -> list[ServerStatus]:
    """Bring every server up that is not. After a failure or Ctrl-C each server either works or is stopped.

    `new_ports` stops everything and chooses other ports. Raises StartError, or TerminalError for a port in use.
    """
    with locked(root, say):
        if new_ports:
            _stop(Home.load(root), say)
            (root / "stack.json").unlink(missing_ok=True)
        home = loopback_ports.with_ports(Home.load(root), SERVERS)
        if all(server.state == "running" for server in status(root)):
            home.write_env()
            say("The stack is already running.")
        else:
            _start(home, say)
        return status(root)


def down(root: Path, say: Say, *, purge: bool = False) -> None:
    """Stop every server, the ones that need others first; with `purge` also remove all state except the JVM parts."""
    if not root.exists():
        say("Nothing runs.")
        return
    with locked(root, say):
        home = Home.load(root) if not purge else Home(root.resolve())
        home.env_file.unlink(missing_ok=True)
        _stop(home, say)
        if purge:
            _purge(home, say)


def _observe(home: Home, server: Server) -> ServerStatus:
    pid_file = home.pid_file(server.name)
    running = process.find(pid_file)
    address = server.address(home) if home.ports else ""
    state: State = "crashed" if pid_file.exists() else "stopped"
    if running is None:
        return ServerStatus(server.name, state, None, address, home.log(server.name))
    try:
        server.check(home)
    except NotHealthy as error:
        return ServerStatus(server.name, "unhealthy", running.pid, address, home.log(server.name), str(error))
    return ServerStatus(server.name, "running", running.pid, address, home.log(server.name), also=server.also(home))


def _start(home: Home, say: Say) -> None:
    for server in SERVERS:
        if process.find(home.pid_file(server.name)) is None:
            loopback_ports.require_free(home, server)
    # Before the worker is there: the first thing it runs may be a flow that reads the settings.
    home.write_env()
    starter = Starter(home)

    def bring_up(server: Server, abandon: threading.Event) -> None:
        seconds = starter.bring_up(server, abandon)
        say(f"{server.name} is ready ({seconds:.1f} s)")

    try:
        each_in_order(SERVERS, needed_by(SERVERS), bring_up)
    except BaseException:
        running = [server.name for server in SERVERS if process.find(home.pid_file(server.name))]
        if running:
            say(f"Running: {', '.join(running)}. `firn up` starts the rest, `firn down` stops them.")
        else:
            home.env_file.unlink(missing_ok=True)
        raise


def _stop(home: Home, say: Say) -> None:
    def stop(server: Server, _abandon: threading.Event) -> None:
        if stop_server(home, server):
            say(f"{server.name} stopped")

    each_in_order(SERVERS[::-1], needing(SERVERS), stop)


def _purge(home: Home, say: Say) -> None:
    if PROJECT_ROOT.is_relative_to(home.root) or Path.home().is_relative_to(home.root):
        raise TerminalError(
            "This folder holds more than a stack, so it is not emptied.",
            where=f"FIRN_HOME={home.root}",
            next_step="Give FIRN_HOME a folder of its own.",
        )
    for entry in home.root.iterdir():
        # The lock file stays: somebody may be waiting on it.
        if entry in (JVM_DIR, home.root / "stack.lock"):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    say(f"All state in {home.root} is removed.")


@contextmanager
def locked(root: Path, say: Say) -> Iterator[None]:
    """Hold the home's lock: one `up` or `down` at a time. The system frees it when its holder dies."""
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root / "stack.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another `firn up` or `firn down` is at work; waiting for it ...")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
