"""`firn export ...` within this process: a local Snowflake of the module's own, the stack's Kafka, and tasks here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firn.operations.exports import control
from tests.conftest import RunningStack
from tests.spark_jobs.export.conftest import World, connection, local, world  # noqa: F401 - fixtures
from tests.support.commands import run_here

Firn = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def firn(stack: RunningStack, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Firn:  # noqa: F811
    """Runs `firn export <command> <file> <more>` for the export of `world`, as it is configured at that moment."""
    file = tmp_path / "export.json"
    file.write_text(json.dumps({"name": world.name, "config": {}}))
    monkeypatch.setattr(control, "export_of_file", lambda _file, _settings: world.context)

    def run(command: str, *more: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return run_here(stack.home, "export", *command.split(), file, *more, **options)

    return run


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What a command printed with --json."""
    return [json.loads(line) for line in done.stdout.splitlines()]
