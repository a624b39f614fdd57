"""Real processes of the sink's main program with faults armed."""

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


@contextmanager
def job(stack: Any, file: Path, *faults: Fault, once: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    """The sink's main program with faults armed, and Spark with it, gone at the end of the block."""
    command = [sys.executable, "-m", "tests.support.faulty_job", str(file), *(["--once"] if once else [])]
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


def run(stack: Any, file: Path, *faults: Fault) -> int:
    """Run to its end; returns the exit code, negative for a signal."""
    with job(stack, file, *faults) as process:
        return process.wait(END_SECONDS)
