"""Bringing servers up: one is started, waited for, or reported; several go in parallel, each after those it needs."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from firn.errors import TerminalError
from firn_local import process
from firn_local.home import Home
from firn_local.servers.server_contract import NotHealthy, Server

_POLL_SECONDS = 0.15
# A server that lives but does not answer may only be slow, or have been started a moment ago.
_PATIENCE_SECONDS = 15.0
_LAST_LINES = 15


class Abandoned(Exception):  # noqa: N818  (a state, not a fault)
    """A server it waits for failed, or Ctrl-C: this one stops trying."""


class StartError(TerminalError):
    """A server of the stack does not start; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Starter:
    """Brings servers of one home up. A server that fails is stopped: none is left half."""

    home: Home

    def bring_up(self, server: Server, abandon: threading.Event) -> float:
        """Make `server` work: wait for it if it lives, else start it. Returns the seconds it took.

        Raises StartError (with the end of its log), or Abandoned when `abandon` was set.
        """
        began = time.monotonic()
        if not self._recovers(server, abandon):
            self._start(server, abandon)
        server.settle(self.home)
        return time.monotonic() - began

    def _recovers(self, server: Server, abandon: threading.Event) -> bool:
        if process.find(self.home.pid_file(server.name)) is None:
            return False
        if self._wait(server, abandon, _PATIENCE_SECONDS) is None:
            return True
        stop_server(self.home, server)
        return False

    def _start(self, server: Server, abandon: threading.Event) -> None:
        log = self.home.log(server.name)
        launch = server.launch(self.home)
        before = log.stat().st_size if log.exists() else 0
        child = process.spawn(launch, log, self.home.pid_file(server.name))
        # Somebody must wait for the child, or it stays a zombie of ours when it ends.
        threading.Thread(target=child.wait, daemon=True).start()
        reason: str | None = "it was interrupted."
        try:
            reason = self._wait(server, abandon, server.start_seconds, child)
        finally:
            if reason is not None:
                stop_server(self.home, server)
        if reason is not None:
            raise StartError(
                f"{server.name} did not start: {reason}{_ending(log, before)}",
                where=f"log {log}",
                next_step="Mend what the log says, then `firn up` again.",
            )

    def _wait(
        self, server: Server, abandon: threading.Event, seconds: float, child: subprocess.Popen[bytes] | None = None
    ) -> str | None:
        """None once the server works, or else why it does not."""
        deadline = time.monotonic() + seconds
        while True:
            if child is not None and child.poll() is not None:
                return f"it ended with exit code {child.returncode}."
            try:
                server.check(self.home)
            except NotHealthy as error:
                if time.monotonic() > deadline:
                    return f"no sign of health within {seconds:.0f} s ({error})."
            else:
                return None
            if abandon.wait(_POLL_SECONDS):
                raise Abandoned


def stop_server(home: Home, server: Server) -> bool:
    """Stop a server and forget its process. Returns whether it lived."""
    pid_file = home.pid_file(server.name)
    alive = process.find(pid_file)
    if alive is not None:
        process.stop(alive, server.stop_seconds)
    pid_file.unlink(missing_ok=True)
    return alive is not None


def _ending(log: Path, offset: int) -> str:
    """The last lines that the log got since `offset`, as a paragraph."""
    try:
        with log.open("rb") as file:
            file.seek(offset)
            lines = file.read().decode(errors="replace").rstrip().splitlines()
    except OSError:
        return ""
    return "".join(f"\n    {line}" for line in ["The last lines of its log:", *lines[-_LAST_LINES:]]) if lines else ""


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
