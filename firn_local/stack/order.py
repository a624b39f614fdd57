"""Doing one thing to each server, in parallel, none before those it has to wait for. Knows nothing of processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from firn_local.servers.contract import Server


class Abandoned(Exception):  # noqa: N818  (a state, not a fault)
    """A server it waits for failed, or Ctrl-C: this one stops trying."""


def needed_by(servers: Iterable[Server]) -> dict[str, tuple[str, ...]]:
    """Start order: each server after those it needs."""
    return {server.name: server.needs for server in servers}


def needing(servers: Sequence[Server]) -> dict[str, tuple[str, ...]]:
    """Stop order: each server after those that need it."""
    return {server.name: tuple(s.name for s in servers if server.name in s.needs) for server in servers}


def each_in_order(
    servers: Sequence[Server], after: Mapping[str, Sequence[str]], work: Callable[[Server, threading.Event], None]
) -> None:
    """Run `work(server, abandon)` for each server in a thread, once those in `after[server.name]` are done.

    `servers` must be sorted so that every server comes behind those it waits for. A failure keeps back those that wait
    for that server, nobody else; when all threads have ended, the first failure is raised. Ctrl-C sets `abandon`, at
    which `work` should leave with Abandoned.
    """
    abandon = threading.Event()
    done: dict[str, Future[None]] = {}

    def run(server: Server) -> None:
        for name in after[server.name]:
            if name in done and done[name].exception() is not None:
                raise Abandoned
        if abandon.is_set():
            raise Abandoned
        work(server, abandon)

    with ThreadPoolExecutor(max_workers=max(len(servers), 1)) as pool:
        try:
            for server in servers:
                done[server.name] = pool.submit(run, server)
            wait(done.values())
        except BaseException:
            abandon.set()
            raise
    failures = [failure for future in done.values() if (failure := future.exception()) is not None]
    for failure in sorted(failures, key=lambda f: isinstance(f, Abandoned)):
        raise failure
