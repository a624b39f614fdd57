"""One server's process: started in a session of its own, found again by its pid file, stopped with its children.

Not for what the process is (`firn_local.servers`). A pid file holds the pid and the start time, so that a pid which
the system gave to somebody else is never taken for ours, and never killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from firn_local.home import write_private

_LOG_LIMIT_BYTES = 20 * 1024 * 1024
_SAME_START_SECONDS = 1.0


@dataclass(frozen=True)
class Launch:
    """What to start: a command line without secrets, its folder, and what its environment adds or drops (None)."""

    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str | None]


def spawn(launch: Launch, log: Path, pid_file: Path) -> subprocess.Popen[bytes]:
    """Start a process that outlives this one and does not get the terminal's Ctrl-C; its output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))
    added = {name: value for name, value in launch.env.items() if value is not None}
    kept = {name: value for name, value in os.environ.items() if name not in launch.env}
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(launch.command),
            cwd=launch.cwd,
            env=kept | added,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    write_private(pid_file, json.dumps({"pid": child.pid, "started": _start_time(psutil.Process(child.pid))}))
    return child


def find(pid_file: Path) -> psutil.Process | None:
    """The living process of a pid file, or None: no file, gone, a zombie, or somebody else's by now."""
    try:
        recorded = json.loads(pid_file.read_text())
        process = psutil.Process(int(recorded["pid"]))
        same = abs(_start_time(process) - float(recorded["started"])) <= _SAME_START_SECONDS
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None


def stop(process: psutil.Process, grace_seconds: float) -> None:
    """TERM to the process, its descendants and its group; KILL to those that are left after `grace_seconds`."""
    everyone = _family(process)
    for member in everyone:
        # psutil signals only the process it has seen, never a later one with the same pid.
        with contextlib.suppress(psutil.Error):
            member.terminate()
    _, alive = psutil.wait_procs(everyone, timeout=grace_seconds)
    for member in alive:
        with contextlib.suppress(psutil.Error):
            member.kill()
    psutil.wait_procs(alive, timeout=grace_seconds)


def _start_time(process: psutil.Process) -> float:
    # Seconds since boot: the wall clock may be set while the process runs, and both figures would move with it.
    return process.create_time() - psutil.boot_time()


def _family(process: psutil.Process) -> list[psutil.Process]:
    """The process, all below it (flow runs of the worker have sessions of their own), and orphans of its group."""
    family = {process}
    with contextlib.suppress(psutil.Error):
        family.update(process.children(recursive=True))
    for other in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(other.pid) == process.pid:
                family.add(other)
    return list(family)
