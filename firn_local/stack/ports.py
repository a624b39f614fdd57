"""Ports on loopback: finding free ones and naming who holds a taken one. Remembers nothing (`firn_local.home`)."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

import psutil

from firn_local.home import LOOPBACK

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
