"""One run of a sink in a new process, measured from outside: `python -m benchmarks.cold <connector file>`.

The process is the driver (`spark_jobs.sink.job --once`) as the supervisor starts it, with JVM and workers below it.
Their CPU seconds are read when the driver reports its claim and when it reports a commit; servers are not in them. The
first claim-to-commit figure is a cold one: nothing was compiled, connected or cached before.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.meter import ProcessTree
from firn.errors import FirnError

MEGABYTE = 1_000_000
SAMPLE_SECONDS = 0.2


@dataclass(frozen=True)
class Mark:
    """Wall-clock and CPU seconds since the process was started, and records committed so far."""

    wall: float
    cpu: float
    records: int


@dataclass
class ColdRun:
    """What one process did. commits: after each. peak: most resident megabytes of all its processes at one moment.

    processes: Python processes at that moment, the driver among them.
    """

    claimed: Mark
    commits: list[Mark] = field(default_factory=list)
    peak: float = 0.0
    processes: int = 0

    @property
    def records(self) -> int:
        """Records committed."""
        return self.commits[-1].records

    @property
    def seconds(self) -> float:
        """From the claim to the last commit."""
        return self.commits[-1].wall - self.claimed.wall

    @property
    def cpu(self) -> float:
        """The same in CPU seconds of driver, JVM and workers."""
        return self.commits[-1].cpu - self.claimed.cpu

    def microseconds(self, first: int, last: int | None = None) -> float | None:
        """CPU microseconds a record between two counts of records, by the commits next to them; None without any."""
        marks = [Mark(self.claimed.wall, self.claimed.cpu, 0), *self.commits]
        low = next((mark for mark in marks if mark.records >= first), None)
        high = next((mark for mark in marks if mark.records >= last), None) if last else marks[-1]
        if low is None or high is None or high.records <= low.records:
            return None
        return (high.cpu - low.cpu) / (high.records - low.records) * 1e6

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for results as JSON."""
        figures = {
            "records": self.records,
            "seconds": round(self.seconds, 2),
            "cpu_seconds": round(self.cpu, 2),
            "records_per_cpu_second": round(self.records / self.cpu),
            "start_to_first_commit_seconds": round(self.commits[0].wall, 2),
            "start_to_first_commit_cpu_seconds": round(self.commits[0].cpu, 2),
            "start_to_claim_cpu_seconds": round(self.claimed.cpu, 2),
            "peak_resident_megabytes": round(self.peak),
            "python_processes": self.processes,
        }
        return figures | {"commits": [asdict(mark) for mark in self.commits]}


def run_cold(config: Path, *, command: list[str] | None = None) -> ColdRun:
    """Run the sink once in a new process. Raises FirnError where it fails, with what it said last."""
    begun = time.monotonic()
    command = command or [sys.executable, "-m", "spark_jobs.sink.job"]
    with subprocess.Popen([*command, str(config), "--once"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        watched, tree = _Watched(psutil.Process(child.pid)), ProcessTree(psutil.Process(child.pid))
        run: ColdRun | None = None
        records = 0
        assert child.stderr is not None
        lines: list[str] = []
        for line in child.stderr:
            lines.append(line.decode(errors="replace").rstrip())
            event = _event(line)
            mark = Mark(time.monotonic() - begun, tree.seconds(), records)
            if event.get("firn_event") == "started":
                run = run or ColdRun(mark)
            elif event.get("firn_event") == "committed" and run is not None:
                records += int(event["firn_data"]["rows"])
                run.commits.append(Mark(mark.wall, mark.cpu, records))
        code = child.wait()
    watched.stop()
    if code or run is None or not run.commits:
        raise FirnError("The sink failed: " + "\n".join(lines[-5:]), where=str(config))
    run.peak, run.processes = watched.peak, watched.processes
    return run


def _event(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(line)
        return found if isinstance(found, dict) else {}
    return {}


class _Watched:
    """A process tree whose resident memory is read every SAMPLE_SECONDS; what processes share is counted once."""

    def __init__(self, root: psutil.Process) -> None:
        self.root = root
        self.peak, self.processes = 0.0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            total, python = 0.0, 0
            with suppress(psutil.Error):
                for process in (self.root, *self.root.children(recursive=True)):
                    with suppress(psutil.Error):
                        total += process.memory_full_info().pss / MEGABYTE
                        python += "python" in process.name()
            if total > self.peak:
                self.peak, self.processes = total, python


def main() -> None:
    """Run a connector file and print the figures as JSON."""
    print(json.dumps(run_cold(Path(sys.argv[1])).as_dict()))


if __name__ == "__main__":
    main()
