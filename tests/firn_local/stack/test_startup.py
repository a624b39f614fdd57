"""What the supervisor does to processes and folders, shown with small processes instead of servers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from firn.errors import TerminalError
from firn_local import process
from firn_local.home import Home
from firn_local.process import Launch
from firn_local.servers.server_contract import NotHealthy, Server
from firn_local.stack import lifecycle
from firn_local.stack.startup import Abandoned, Starter, StartError, each_in_order, needed_by, needing

# Says when it is ready, and then ignores TERM; its child does the same.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1] == "parent":
    child = subprocess.Popen([sys.executable, __file__, "child"])
    open(sys.argv[2], "w").write(str(child.pid))
time.sleep(120)
"""


class Fake(Server):
    """A server that is healthy once its file exists."""

    start_seconds = 2.0
    stop_seconds = 0.3

    def __init__(self, name: str, code: str, sign: Path, needs: Sequence[str] = ()) -> None:
        self.name, self.needs = name, tuple(needs)  # type: ignore[misc]
        self._code, self._sign = code, sign

    def launch(self, home: Home) -> Launch:
        return Launch([sys.executable, "-c", self._code], cwd=home.root, env={})

    def check(self, home: Home) -> None:
        if not self._sign.exists():
            raise NotHealthy("no sign")


def eventually(condition: Callable[[], Any], seconds: float = 10) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "120"], start_new_session=True)
    yield child
    child.kill()
    child.wait()


def test_a_pid_that_was_given_to_somebody_else_is_never_killed(
    tmp_path: Path, bystander: subprocess.Popen[bytes], firn_in: Callable[..., Any]
) -> None:
    pid_file = Home(tmp_path).pid_file("kafka")
    pid_file.parent.mkdir()
    started = psutil.Process(bystander.pid).create_time() - psutil.boot_time()
    pid_file.write_text(json.dumps({"pid": bystander.pid, "started": started - 60}))

    firn_in(tmp_path, "down")
    assert bystander.poll() is None
    assert not pid_file.exists()


def test_a_process_is_found_again_by_its_pid_file(tmp_path: Path) -> None:
    launch = Launch(["sleep", "120"], cwd=tmp_path, env={})
    child = process.spawn(launch, tmp_path / "log", tmp_path / "pid.json")
    found = process.find(tmp_path / "pid.json")
    assert found is not None
    assert found.pid == child.pid
    process.stop(found, 5)
    assert process.find(tmp_path / "pid.json") is None
    child.wait()


def test_stopping_kills_children_that_ignore_term(tmp_path: Path) -> None:
    script, child_pid = tmp_path / "stubborn.py", tmp_path / "child"
    script.write_text(STUBBORN)
    launch = Launch([sys.executable, str(script), "parent", str(child_pid)], cwd=tmp_path, env={})
    parent = process.spawn(launch, tmp_path / "log", tmp_path / "pid.json")
    grandchild = psutil.Process(int(eventually(lambda: child_pid.exists() and child_pid.read_text())))
    found = process.find(tmp_path / "pid.json")
    assert found is not None
    process.stop(found, 0.3)
    assert not psutil.pid_exists(parent.pid)
    eventually(lambda: not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE)


def test_a_server_that_ends_is_reported_with_the_end_of_this_starts_log(tmp_path: Path) -> None:
    log = Home(tmp_path).log("fake")
    log.parent.mkdir()
    log.write_text("an old complaint\n")
    server = Fake("fake", "print('cannot open the vault'); raise SystemExit(7)", tmp_path / "never")
    with pytest.raises(StartError) as error:
        Starter(Home(tmp_path)).bring_up(server, threading.Event())
    assert "fake did not start: it ended with exit code 7" in str(error.value)
    assert "cannot open the vault" in str(error.value)
    assert "an old complaint" not in str(error.value)
    assert str(log) in str(error.value)


def test_a_server_that_never_gets_healthy_is_stopped_and_reported(tmp_path: Path) -> None:
    server = Fake("fake", "import time; time.sleep(120)", tmp_path / "never")
    with pytest.raises(StartError, match="no sign of health within 2 s"):
        Starter(Home(tmp_path)).bring_up(server, threading.Event())
    assert process.find(Home(tmp_path).pid_file("fake")) is None


def test_an_interrupted_start_leaves_nothing_half(tmp_path: Path) -> None:
    abandon, sign = threading.Event(), tmp_path / "never"
    server = Fake("fake", "import time; time.sleep(120)", sign)
    pid_file = Home(tmp_path).pid_file("fake")
    threading.Thread(target=lambda: (eventually(pid_file.exists), abandon.set())).start()
    with pytest.raises(Abandoned):
        Starter(Home(tmp_path)).bring_up(server, abandon)
    assert not pid_file.exists()


def test_servers_wait_for_what_they_need_and_fail_alone(tmp_path: Path) -> None:
    first, second, third, alone = (
        Fake("first", "", tmp_path),
        Fake("second", "", tmp_path, ["first"]),
        Fake("third", "", tmp_path, ["second"]),
        Fake("alone", "", tmp_path),
    )
    servers, done = [first, second, third, alone], []

    def work(server: Server, _abandon: threading.Event) -> None:
        if server is second:
            raise ValueError("second is broken")
        done.append(server.name)

    with pytest.raises(ValueError, match="second is broken"):
        each_in_order(servers, needed_by(servers), work)
    assert sorted(done) == ["alone", "first"]


def test_stopping_goes_the_other_way(tmp_path: Path) -> None:
    servers = [Fake("base", "", tmp_path), Fake("user", "", tmp_path, ["base"])]
    done: list[str] = []
    each_in_order(servers[::-1], needing(servers), lambda server, _: done.append(server.name))
    assert done == ["user", "base"]


def test_purge_empties_the_home_but_keeps_the_jvm_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "JVM_DIR", tmp_path / "jvm")
    for name in ("jvm/kafka.jar", "data/kafka/logs/00.log", "logs/kafka.log", "spark/blockmgr-0/0", "stack.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    lifecycle.down(tmp_path, lambda _: None, purge=True)
    assert {p.name for p in tmp_path.iterdir()} == {"jvm", "stack.lock"}
    assert (tmp_path / "jvm" / "kafka.jar").exists()


def test_purge_refuses_a_folder_that_holds_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "PROJECT_ROOT", tmp_path / "checkout")
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(TerminalError, match="more than a stack"):
        lifecycle.down(tmp_path, lambda _: None, purge=True)
    assert (tmp_path / "thesis.txt").exists()


def test_a_second_command_waits_for_the_first(tmp_path: Path) -> None:
    said: list[str] = []
    with lifecycle.locked(tmp_path, lambda _: None):
        waiting = threading.Thread(target=lifecycle.down, args=(tmp_path, said.append))
        waiting.start()
        eventually(lambda: any("waiting" in line for line in said))
        assert waiting.is_alive()
    waiting.join(10)
    assert not waiting.is_alive()
