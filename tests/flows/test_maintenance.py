"""The maintenance flow frees the disk; Prefect itself removes old runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from prefect.settings.models.server.services import ServerServicesDBVacuumSettings

from firn.settings import load_settings
from firn_local.home import Home
from firn_local.servers.prefect_servers import PrefectServer
from flows.maintenance import maintenance

DAY = 86_400.0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A FIRN_HOME with an old rotated log, a newer one, and a log that is written to."""
    monkeypatch.setenv("FIRN_HOME", str(tmp_path))
    monkeypatch.setattr("firn.disk_cleanup.tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    load_settings.cache_clear()
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, days in (("sink-orders.log", 60), ("sink-orders.log.1", 2), ("sink-orders.log.2", 60)):
        (logs / name).write_text("x" * 10)
        os.utime(logs / name, (time.time() - days * DAY,) * 2)
    return tmp_path


@pytest.mark.stack
@pytest.mark.usefixtures("prefect_server")
def test_the_flow_lists_what_it_would_remove_and_then_removes_it(home: Path) -> None:
    log = home / "logs" / "sink-orders.log.2"
    expected = [{"what": "rotated log", "where": str(home / "logs"), "count": 1, "size": 10, "left": False}]
    for dry_run in (True, False):
        result = maintenance(dry_run=dry_run)
        assert [each.model_dump() for each in result.removed] == expected
        assert log.exists() is dry_run
    assert maintenance().removed == []
    assert {each.name for each in (home / "logs").iterdir()} == {"sink-orders.log", "sink-orders.log.1"}


def test_the_embedded_server_removes_old_runs_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = PrefectServer().launch(Home(tmp_path, {"prefect": 1})).env
    assert environment
    for name, value in environment.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    vacuum = ServerServicesDBVacuumSettings()
    assert vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
    assert vacuum.retention_period.days == 30
