"""What a process imports before it needs it: each of these libraries costs seconds of CPU at every start."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

from firn import supervisor

SPARK = {"pyspark", "py4j"}
HEAVY = SPARK | {"prefect", "snowflake.connector", "botocore", "pyarrow", "numpy", "httpx", "confluent_kafka"}


def imported(code: str) -> set[str]:
    """Which of the heavy modules a new Python has after it ran the code."""
    shown = f"import sys, json\n{code}\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return HEAVY.intersection(json.loads(done.stdout.splitlines()[-1]))


def test_help_imports_nothing_heavy() -> None:
    code = """
from flows import cli
sys.argv = ["firn", "sink", "--help"]
try:
    cli.main()
except SystemExit as end:
    assert end.code == 0
"""
    assert imported(code) == set()


def test_a_driver_is_started_before_anything_heavy_is_imported() -> None:
    assert imported("import flows.cli.sink.run, flows.cli.with_prefect") == set()


def test_a_supervisor_imports_no_spark() -> None:
    rooms = [f"firn.supervisor.{room.name}" for room in pkgutil.iter_modules(supervisor.__path__)]
    assert imported(f"import flows.supervision.attended, {', '.join(rooms)}") & (SPARK | {"prefect"}) == set()
