"""Takes the pictures of docs/operations.md: the Prefect UI of a running sink and of a stalled one.

    FIRN_HOME=/tmp/pictures firn up && FIRN_HOME=/tmp/pictures python docs/screenshots.py
    FIRN_HOME=/tmp/pictures firn down --purge

Needs Chromium; with Pillow installed the files are smaller. The program uses an embedded stack of its own: it deploys,
produces orders for some minutes, and takes the pictures. Then it freezes the Kafka broker until the sink is stalled,
takes that picture, and resumes the broker. CI does not run it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from firn.settings import PROJECT_ROOT, load_settings

IMAGES = PROJECT_ROOT / "docs/images"
FIRN = Path(sys.executable).with_name("firn")
WIDTH = 1200
COLOURS = 256
RENDER_MILLISECONDS = 15_000
LONGEST_SECONDS = 600


def main() -> None:
    """Deploy, wait, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long orders flow before the first picture")
    minutes = parser.parse_args().minutes
    firn("provision")
    firn("deploy")
    producer = subprocess.Popen([FIRN, "produce", "--rate", "12", "--count", "1000000"], stdout=subprocess.DEVNULL)
    try:
        ui = Ui()
        wait_for("the sink to run", lambda: ui.state() == "Running")
        time.sleep(60 * minutes)
        wait_for("lag that is low", lambda: ui.lag() < 300)
        ui.take_calm()
        take_stalled(ui)
    finally:
        producer.terminate()


def take_stalled(ui: Ui) -> None:
    """The artifact of a sink whose broker does not answer."""
    broker = next(row["pid"] for row in rows("status") if row["server"] == "kafka")
    os.kill(broker, signal.SIGSTOP)
    try:
        wait_for("the sink to be stalled", lambda: ui.state() == "Stalled")
        ui.take("stalled", f"artifacts/artifact/{ui.artifact()['id']}", 1120)
    finally:
        os.kill(broker, signal.SIGCONT)


class Ui:
    """The Prefect server of the stack: what its API says, and pictures of its pages."""

    def __init__(self) -> None:
        self._api = str(load_settings().prefect_api_url).rstrip("/")

    def take_calm(self) -> None:
        """All pictures of a sink that runs."""
        control = self._found("deployments", deployments={"name": {"any_": ["sink-control"]}})
        running = {"state": {"type": {"any_": ["RUNNING"]}}}
        run = self._found("flow_runs", deployments={"name": {"any_": ["sink"]}}, flow_runs=running)
        self.take("deployments", "deployments", 620)
        self.take("run-form", f"deployments/deployment/{control['id']}/run", 1400)
        self.take("flow-run", f"runs/flow-run/{run['id']}", 1000)
        self.take("artifact", f"artifacts/artifact/{self.artifact()['id']}", 2200)
        self.take("automations", "automations", 1300)

    def artifact(self) -> dict[str, Any]:
        """The sink's artifact that was updated last."""
        return self._found("artifacts", artifacts={"key": {"like_": "sink-%"}}, sort="UPDATED_DESC")

    def state(self) -> str:
        """The word in the artifact's heading; empty while there is none."""
        try:
            return str(self.artifact()["data"]).splitlines()[0].rsplit(": ", 1)[1]
        except IndexError:
            return ""

    def lag(self) -> int:
        """The records that wait, as the artifact has them."""
        text = str(self.artifact()["data"])
        return int(text.split(" records wait")[0].rsplit("**", 1)[1].replace(",", ""))

    def take(self, name: str, page: str, height: int) -> None:
        """One page of the UI as docs/images/<name>.png."""
        file = IMAGES / f"{name}.png"
        file.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as profile:
            subprocess.run(
                [
                    *(browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                    *(f"--window-size={WIDTH},{height}", f"--virtual-time-budget={RENDER_MILLISECONDS}"),
                    *(f"--user-data-dir={profile}", f"--screenshot={file}"),
                    f"{self._api.removesuffix('/api')}/v2/{page}",
                ],
                check=True,
                capture_output=True,
                timeout=120,
            )
        if importlib.util.find_spec("PIL"):
            image = importlib.import_module("PIL.Image")
            image.open(file).convert("RGB").quantize(COLOURS, dither=0).save(file, optimize=True)
        say(f"{file.relative_to(PROJECT_ROOT)}: {file.stat().st_size // 1000} kB")

    def _found(self, kind: str, **filters: Any) -> dict[str, Any]:
        answer = httpx.post(f"{self._api}/{kind}/filter", json={**filters, "limit": 1}, timeout=30)
        found: list[dict[str, Any]] = answer.raise_for_status().json()
        return found[0]


def browser() -> str:
    """The Chromium of this machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        sys.exit(f"No browser: none of {', '.join(names)} is in the PATH.")
    return found


def firn(*arguments: str) -> str:
    """Run a command; returns what it prints."""
    return subprocess.run([FIRN, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def rows(*arguments: str) -> list[dict[str, Any]]:
    """The rows of a command that prints a table."""
    return [json.loads(line) for line in firn(*arguments, "--json").splitlines()]


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Ask each two seconds until it is so."""
    say(f"Waiting for {what} ...")
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"Waited {LONGEST_SECONDS} s for {what}.")
        time.sleep(2)


def say(message: str) -> None:
    """Progress, on stderr."""
    sys.stderr.write(f"{message}\n")


if __name__ == "__main__":
    main()
