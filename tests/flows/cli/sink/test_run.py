"""`firn sink run` around a stand-in of the driver: the driver starts first, Prefect only where it is configured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firn.child import Child
from firn.errors import ConfigError
from firn.settings import Settings
from flows.supervision.driver import SINK, EarlyDriver, Place, run_once
from tests.support.proxies import closed_port
from tests.support.sinks import wait_until

DRIVER = """
import json, sys
print(json.dumps({"level": "info", "event": "the driver is here"}), file=sys.stderr, flush=True)
print(json.dumps({"report": {"sink": "s", "records": 7}}))
"""
RUN = """
import logging, sys
from pathlib import Path
from firn.supervisor import launcher
launcher.driver_command = lambda module, config, once: [sys.executable, "-c", sys.argv[2]]
from flows.cli.sink.run import run_sink
logging.basicConfig(level=logging.INFO)
report = run_sink(Path(sys.argv[1]), once=True)
print(report.records, "prefect" in sys.modules)
"""


def started(line: Callable[[str], None]) -> Child:
    return Child([sys.executable, "-c", DRIVER], os.environ, line)


def test_what_an_early_driver_says_is_heard_by_who_takes_it_and_only_once() -> None:
    early = EarlyDriver(started)
    first: list[str] = []
    driver = early.take(first.append)
    assert driver is not None
    wait_until(lambda: driver.poll() == 0, what="the end of the driver")
    assert [json.loads(line)["event"] for line in first] == ["the driver is here"]
    assert early.take(first.append) is None


def test_lines_come_in_their_order_whenever_the_driver_is_taken() -> None:
    heard: list[str] = []
    say: Any = None

    def start(line: Callable[[str], None]) -> Any:
        nonlocal say
        say = line
        return object()

    early = EarlyDriver(start)
    speaker = threading.Thread(target=lambda: [say(str(n)) for n in range(20_000)])
    speaker.start()
    early.take(heard.append)
    speaker.join()
    assert heard == [str(n) for n in range(20_000)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    monkeypatch.setattr("firn.supervisor.launcher.driver_command", lambda _module, _config, once: command)
    return Place(SINK, Path("s.json"), Settings(home=tmp_path), "s", deployed=False)


def test_a_driver_that_nobody_took_ends_with_its_block(place: Place) -> None:
    with place.launched(once=True) as ready:
        assert ready.early
        driver = ready.early._driver
        assert driver.poll() is None
    assert driver.poll() is not None


def test_a_driver_that_cannot_be_started_early_fails_where_it_is_needed(place: Place) -> None:
    wrong = Place(SINK, place.config, Settings(home=place.settings.home, spark_master="nowhere"), "s", deployed=False)
    with wrong.launched(once=True) as ready, pytest.raises(ConfigError, match="nowhere"):
        run_once(ready)


@pytest.fixture
def ran(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Runs a sink in a process of its own, with this environment; its stdout and stderr."""
    file = tmp_path / "s.json"
    config = {"topics": "t", "snowflake.role.name": "WRITER", "input.data.format": "JSON"}
    file.write_text(json.dumps({"name": "s", "config": config}))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "FIRN_"))}

    def run(**env: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(file), DRIVER],
            env=clean | {"FIRN_HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path)} | env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    return run


def test_prefect_is_not_imported_where_none_is_configured(ran: Callable[..., tuple[str, str]]) -> None:
    out, err = ran()
    assert out == "7 False\n"
    assert "the driver is here" in err


def test_a_prefect_that_does_not_answer_is_not_imported_either(ran: Callable[..., tuple[str, str]]) -> None:
    url = f"http://127.0.0.1:{closed_port()}/api"
    out, err = ran(PREFECT_API_URL=url)
    assert out == "7 False\n"
    assert f"Prefect does not answer at {url}" in err


def test_a_profile_of_prefect_is_asked(ran: Callable[..., tuple[str, str]], tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/api"
    (tmp_path / "profiles.toml").write_text(f'active = "here"\n[profiles.here]\nPREFECT_API_URL = "{url}"\n')
    out, err = ran()
    assert out.startswith("7")
    assert f"Prefect does not answer at {url}" in err
