"""dbt in a process of its own, for tests: it imports dbt once for all commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import contextlib, io, json, sys
from dbt.cli.main import dbtRunner
for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        done = dbtRunner().invoke(json.loads(line))
    print(json.dumps([done.success, printed.getvalue() + str(done.exception or "")]), flush=True)
"""


class Dbt:
    """Commands on one project, whose folder has its profile too."""

    def __init__(self, project: Path) -> None:
        self._options = ["--no-use-colors", "--project-dir", str(project), "--profiles-dir", str(project)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"},
            cwd=project,
        )

    def run(self, *command: str) -> tuple[bool, str]:
        """Whether a command succeeded, and what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([*command, *self._options]), file=self._process.stdin, flush=True)
        succeeded, printed = json.loads(self._process.stdout.readline())
        return bool(succeeded), str(printed)

    def build(self, *options: str) -> None:
        """dbt build, which must succeed."""
        self.must("build", *options)

    def must(self, *command: str) -> None:
        """A command that must succeed."""
        succeeded, printed = self.run(*command)
        assert succeeded, printed

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)
