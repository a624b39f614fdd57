"""Real processes of the main programs, of sinks and of exports, with faults armed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firn.settings import PROJECT_ROOT
from tests.support.faults import Fault, environment

END_SECONDS = 180
"""How long a run of a few records may take on a busy machine."""
SINK, EXPORT = "tests.support.faulty_job", "tests.support.faulty_export_job"


@contextmanager
def job(
    stack: Any, file: Path, *faults: Fault, once: bool = True, program: str = SINK
) -> Iterator[subprocess.Popen[bytes]]:
    """A main program with faults armed, and Spark with it, gone at the end of the block."""
    command = [sys.executable, "-m", program, str(file), *(["--once"] if once else [])]
    process = subprocess.Popen(
        command,
        cwd=PROJECT_ROOT,
        env=stack.env | environment(*faults),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()


def run(stack: Any, file: Path, *faults: Fault, program: str = SINK) -> int:
    """Run to its end; returns the exit code, negative for a signal."""
    with job(stack, file, *faults, program=program) as process:
        return process.wait(END_SECONDS)
