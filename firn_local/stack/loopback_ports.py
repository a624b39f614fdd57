"""Ports on loopback: chosen free once, kept by the home, and who holds one that is taken."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection, Iterable

import psutil

from firn.errors import TerminalError
from firn_local.home import LOOPBACK, Home
from firn_local.servers.server_contract import Server

# Below Linux's ephemeral ports (32768 and up): a remembered port must not be lent to some outgoing connection while
# the stack is down.
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now. A connection that lingers after its close does not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(count: int, avoid: Collection[int] = ()) -> list[int]:
    """`count` free ports, at random so that two stacks that start at once rarely meet."""
    chosen: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if len(chosen) == count:
            break
        if port not in avoid and is_free(port):
            chosen.append(port)
    return chosen


def holder(port: int) -> str:
    """Who listens on the port, for a message; the system tells us only about our own processes unless we are root."""
    try:
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if local and local.port == port and connection.status == psutil.CONN_LISTEN and connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        pass
    return "another process"


def with_ports(home: Home, servers: Iterable[Server]) -> Home:
    """The home with a port for every name of the servers; those it remembers stay."""
    missing = [name for server in servers for name in server.ports if name not in home.ports]
    if not missing:
        return home
    chosen = choose(len(missing), avoid=set(home.ports.values()))
    complete = Home(home.root, dict(home.ports) | dict(zip(missing, chosen, strict=True)))
    complete.save()
    return complete


def require_free(home: Home, server: Server) -> None:
    """Raises TerminalError, which names the holder, where a port of the server is taken."""
    for name in server.ports:
        if not is_free(home.ports[name]):
            raise TerminalError(
                f"Port {home.ports[name]} of {server.name} is in use by {holder(home.ports[name])}.",
                where=f"{home.address(name)}, remembered in {home.root / 'stack.json'}",
                next_step="Stop that process, or run `firn up --new-ports` to choose other ports for the whole stack.",
            )
