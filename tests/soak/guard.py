"""Ends what a soak has started: waits for the end of its input, which comes also when the soak is killed.

    python -m tests.soak.guard <folder>

Input of "keep" leaves the folder with its logs; the processes end in any case.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from firn_local import process

_GRACE_SECONDS = 15.0


def main(root: Path) -> None:
    """Wait, then stop every process of the folder's run/*.json: sinks first, they need the servers."""
    keep = sys.stdin.read() == "keep"
    for pid_file in sorted((root / "run").glob("*.json"), key=lambda file: not file.name.startswith("sink-")):
        if (found := process.find(pid_file)) is not None:
            process.stop(found, 2.0 if pid_file.name.startswith("sink-") else _GRACE_SECONDS)
    if not keep:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
