"""A supervision attended by a flow: what Prefect does to the flow's thread, and what becomes of the sink."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect.logging.handlers import PrefectConsoleHandler

from firn.errors import TransientError
from firn.supervisor.job import Policy, Result
from flows.prefect_ui.publishing import PrefectPublisher, outlive_reader
from flows.supervision import attended
from tests.support.sinks import wait_until
from tests.support.supervision import World

log = logging.getLogger("test")


class Fake:
    """A supervisor that runs until it is asked or aborted."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.calls: list[str] = []

    def run(self) -> Result:
        self.over.wait(60)
        return Result("ended", report={"sink": "s"})

    def ask(self) -> None:
        self.calls.append("ask")
        self.over.set()

    def abort(self) -> None:
        self.calls.append("abort")
        self.over.set()


def waited_for(fake: Any, *, deployed: bool = True, cancelled: threading.Event | None = None) -> Result:
    return attended._attended(fake, Policy(), log, cancelled or threading.Event(), deployed=deployed)


WORKER = 4321


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that started this one had this id; pytest itself may be a child of process 1, as an orphan is."""
    monkeypatch.setattr(attended, "_PARENT", WORKER)


def raise_in(thread: int, kind: type[BaseException]) -> None:
    """As Prefect does it: `prefect._internal.concurrency.cancellation._send_exception_to_thread`."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_long(thread), ctypes.py_object(kind))


def test_a_lost_concurrency_slot_does_not_end_the_sink() -> None:
    fake, here = Fake(), threading.get_ident()

    def prefect() -> None:
        for _ in range(5):
            time.sleep(0.3)  # the attending thread is at another place each time
            raise_in(here, asyncio.CancelledError)
        time.sleep(0.5)
        fake.over.set()

    threading.Thread(target=prefect, daemon=True).start()
    assert waited_for(fake).report == {"sink": "s"}
    assert fake.calls == []


def test_a_cancellation_aborts_the_supervision_and_is_passed_on() -> None:
    class TerminationSignal(BaseException):
        """What Prefect makes of SIGTERM."""

    fake, here = Fake(), threading.get_ident()
    threading.Timer(0.3, lambda: raise_in(here, TerminationSignal)).start()
    with pytest.raises(TerminationSignal):
        waited_for(fake)
    assert fake.calls == ["abort"]


def test_a_cancellation_that_no_worker_passes_on_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.prefect_ui.publishing.CANCEL_SECONDS", 0.0)
    fake = Fake()
    publisher = PrefectPublisher(log, lambda _event, _data: None, lambda _snapshot: None, lambda: True)
    publisher.emit("committed", "x", {})
    assert waited_for(fake, cancelled=publisher.cancelled).kind == "cancelled"
    assert fake.calls == ["abort"]
    publisher.close()


def test_a_worker_that_is_gone_ends_the_run_in_order(worker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    pids = iter([WORKER])
    monkeypatch.setattr(os, "getppid", lambda: next(pids, 1))
    result = waited_for(fake)
    assert fake.calls[0] == "ask"
    assert isinstance(result.error, TransientError)
    assert "worker" in result.error.what


def test_a_worker_that_was_gone_before_supervision_began_ends_the_run_too(
    worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake()
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert "worker" in str(waited_for(fake).error)
    assert fake.calls[0] == "ask"


def test_a_supervisor_that_ends_for_whatever_reason_ends_the_run() -> None:
    class Exits(Fake):
        def run(self) -> Result:
            raise SystemExit(1)

    result = waited_for(Exits())
    assert result.kind == "failed"
    assert result.error


def test_a_log_that_nobody_reads_any_more_ends_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with suppress(BrokenPipeError), os.fdopen(write, "w", buffering=1) as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        handler = PrefectConsoleHandler(unread)
        logging.getLogger().addHandler(handler)
        try:
            outlive_reader()
            for _ in range(3):
                log.warning("the worker is gone")
        finally:
            logging.getLogger().removeHandler(handler)


def test_a_terminal_that_is_gone_ends_nothing(worker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    pids = iter([WORKER])
    monkeypatch.setattr(os, "getppid", lambda: next(pids, 1))
    threading.Timer(1, fake.over.set).start()
    assert waited_for(fake, deployed=False).kind == "ended"


def snapshots() -> Any:
    world = World()
    world.script = {30: world.supervisor.ask}
    world.run()
    return world.snapshot


def test_prefect_that_hangs_delays_nothing_and_its_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.prefect_ui.publishing.LAST_SECONDS", 0.5)
    never = threading.Event()
    publisher = PrefectPublisher(log, lambda _event, _data: never.wait(60) and None, lambda _snapshot: None)
    begun = time.monotonic()
    for _ in range(10_000):
        publisher.emit("committed", "x", {"sink": "s"})
        publisher.show(snapshots_once)
    publisher.close()
    assert time.monotonic() - begun < 5
    assert len(publisher._events) <= 200
    never.set()


snapshots_once = snapshots()


def test_prefect_that_comes_back_hears_what_was_kept(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    away = threading.Event()
    away.set()

    def emit(event: str, _data: object) -> None:
        if away.is_set():
            raise ConnectionError
        heard.append(event)

    publisher = PrefectPublisher(log, emit, lambda _snapshot: None)
    for event in ("stalled", "recovered"):
        publisher.emit(event, "x", {"sink": "s"})
    wait_until(lambda: "without it" in caplog.text, what="it was told that Prefect is away")
    away.clear()
    publisher.emit("stopped", "x", {"sink": "s"})
    wait_until(lambda: heard == ["stalled", "recovered", "stopped"], what="events in their order")
    assert caplog.text.count("without it") == 1
    publisher.close()


DRIVER = """
import json, os, sys
print(json.dumps({"level": "info", "event": "here", "pid": os.getpid()}), file=sys.stderr, flush=True)
sys.stdin.read()
print(json.dumps({"report": {"sink": "s", "records": 7}}))
"""
SUPERVISE = """
import logging, sys, threading
from datetime import UTC, datetime
from pathlib import Path
from firn.child import Child
from firn.settings import Settings
from flows.supervision import attended
from flows.prefect_ui.publishing import LogPublisher
from flows.supervision.driver import SINK
from firn.ledger.control_record import DesiredState
from firn.operations.observation import Observation
from firn.supervisor.job import Policy, SupervisedJob

class Nothing:
    def look(self, *, ledger=True): return Observation(datetime.now(UTC), (), None, DesiredState.RUNNING, None)
    def close(self): pass
    def report(self, *args, **more): pass
    def request(self, *args): pass

attended._JOBS = {"sink": lambda name, read, *driver: SupervisedJob("sink", name, *driver, Nothing(), Nothing())}
from firn.supervisor import launcher
launcher.driver_command = lambda module, config, once: [sys.executable, "-c", sys.argv[2]]
place = attended.Place(SINK, Path("s.json"), Settings(home=Path(sys.argv[1])), "s", deployed=False)
log = logging.getLogger("flows")
result = attended.supervise(place, Policy(), LogPublisher(log), log)
print(result.kind, result.report["records"])
"""


@pytest.fixture
def supervising(tmp_path: Path) -> Any:
    """A process that supervises a stand-in of a driver; and the driver's log."""
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(tmp_path), DRIVER], stdout=subprocess.PIPE, text=True
    )
    yield process, tmp_path / "logs" / "sink-s.log"
    process.kill()
    process.wait()


def drivers(log_file: Path) -> list[int]:
    """Process ids of the drivers so far."""
    return [json.loads(line)["pid"] for line in log_file.read_text().splitlines()] if log_file.exists() else []


def test_a_real_driver_is_started_again_after_sigkill_and_ends_when_asked(supervising: Any) -> None:
    process, log_file = supervising
    wait_until(lambda: len(drivers(log_file)) == 1, what="a driver")
    psutil.Process(drivers(log_file)[0]).kill()
    wait_until(lambda: len(drivers(log_file)) == 2, what="another driver")
    process.send_signal(2)
    out, _ = process.communicate(timeout=30)
    assert out == "ended 7\n"
    assert not any(psutil.pid_exists(pid) for pid in drivers(log_file))


def test_no_driver_outlives_a_supervisor_that_is_killed(supervising: Any) -> None:
    process, log_file = supervising
    wait_until(lambda: len(drivers(log_file)) == 1, what="a driver")
    process.kill()
    process.wait()
    wait_until(lambda: not psutil.pid_exists(drivers(log_file)[0]), what="the driver ends")
