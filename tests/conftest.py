"""Shared by all tests: one embedded stack for the whole run, and settings that never come from a developer's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from firn.connector.config import Method
from firn.settings import PROJECT_ROOT, Settings, load_settings
from tests.support import methods

FIRN = Path(sys.executable).with_name("firn")
STOP_SECONDS = 120

# Whatever starts tests in the background leaves SIGINT ignored, and every process that they start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_firn(
    home: Path, *args: str | Path, timeout: float = 120, check: bool = True, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the public command line against `home`; with `check`, a failure shows what it printed."""
    child = subprocess.Popen(
        [FIRN, *map(str, args)],
        cwd=PROJECT_ROOT,
        env=environment(home) | (env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=timeout)
    except BaseException:
        # The whole group: Spark and dbt are children of the command.
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise
    line = "firn " + " ".join(map(str, args))
    assert not check or child.returncode == 0, f"`{line}` ended with {child.returncode}\n{out}\n{err}"
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def environment(home: Path) -> dict[str, str]:
    """The environment of a command that belongs to `home`, with nothing of the developer's own stack in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FIRN_", "PREFECT_"))}
    own = {"FIRN_HOME": str(home), "PREFECT_HOME": str(home / "prefect-client"), "DO_NOT_TRACK": "1"}
    return kept | own


@dataclass(frozen=True)
class RunningStack:
    """The embedded stack of this test run."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment for subprocesses that use the stack."""
        return environment(self.home)

    @property
    def settings(self) -> Settings:
        """The settings of the stack's clients."""
        return Settings(_env_file=self.home / "stack.env", home=self.home)  # type: ignore[call-arg]

    def run(
        self, *args: str | Path, timeout: float = 120, check: bool = True, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `firn <args>` against the stack; `env` adds variables."""
        return run_firn(self.home, *args, timeout=timeout, check=check, env=env)


@pytest.fixture(scope="session")
def firn_in() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_firn`, for tests that have a home of their own: firn_in(home, "up", check=False)."""
    return run_firn


def pytest_configure(config: pytest.Config) -> None:
    """`make test` tries the same examples each time, so that chance makes no commit red. Other runs look further."""
    hypothesis.settings.register_profile("same examples", derandomize=True)
    if config.option.markexpr == "not full":
        hypothesis.settings.load_profile("same examples")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked `both_methods` run with each ingestion method."""
    methods.parametrize(metafunc)


@pytest.fixture
def ingestion_method(request: pytest.FixtureRequest) -> Iterator[Method]:
    """The method of a test that is marked `both_methods`: configurations of `tests.support.sinks` have it."""
    methods.choose(request.param)
    yield request.param
    methods.choose(Method.SNOWPIPE)


class Homes:
    """Homes whose servers stop when the run ends, however it ends, a kill of pytest included."""

    def __init__(self, folder: pytest.TempPathFactory) -> None:
        self._folder, self._guards = folder, list[subprocess.Popen[bytes]]()

    def make(self, name: str) -> Path:
        """A new home: an empty folder."""
        home = self._folder.mktemp(name)
        # Waits for the end of its input, which comes when this process closes it or dies.
        script = f'cat > /dev/null; [ ! -e stack.json ] || exec "{FIRN}" down'
        self._guards.append(
            subprocess.Popen(
                ["/bin/sh", "-c", script],
                cwd=home,
                env=environment(home),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        return home

    def close(self) -> None:
        """Stop the servers of all of them."""
        for guard in self._guards:
            assert guard.stdin is not None
            guard.stdin.close()
        for guard in self._guards:
            guard.wait(STOP_SECONDS)


HOMES = pytest.StashKey[Homes]()
SHARED_HOME = pytest.StashKey[Path]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """The process that a run begins with makes the home of the stack that all of its processes share."""
    config = session.config
    homes = config.stash[HOMES] = Homes(config._tmp_path_factory)
    given = getattr(config, "workerinput", {}).get("shared_home")
    config.stash[SHARED_HOME] = Path(given) if given else homes.make("stack")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell one of several processes (pytest-xdist) which stack it shares."""
    node.workerinput["shared_home"] = str(node.config.stash[SHARED_HOME])


def pytest_unconfigure(config: pytest.Config) -> None:
    """No server outlives the run."""
    if HOMES in config.stash:
        config.stash[HOMES].close()


@pytest.fixture(scope="session")
def new_stack(pytestconfig: pytest.Config) -> Callable[[str], RunningStack]:
    """Makes stacks that a test may harm: new_stack(name)."""

    def make(name: str) -> RunningStack:
        home = pytestconfig.stash[HOMES].make(name)
        run_firn(home, "up", timeout=300)
        return RunningStack(home)

    return make


@pytest.fixture(scope="session")
def stack(pytestconfig: pytest.Config) -> RunningStack:
    """One embedded stack for all tests. FIRN_TEST_STACK=<its home>: one that already runs, and goes on running."""
    if running := os.environ.get("FIRN_TEST_STACK"):
        return RunningStack(Path(running).resolve())
    home = pytestconfig.stash[SHARED_HOME]
    run_firn(home, "up", timeout=300)
    return RunningStack(home)


@pytest.fixture(scope="session")
def _empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty-home")


@pytest.fixture(scope="session")
def settings(stack) -> Settings:
    """The stack's settings, with little patience."""
    return stack.settings.model_copy(update={"retry_deadline_seconds": 10.0, "sink_patience_seconds": 10.0})


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, _empty_home: Path) -> Iterator[None]:
    """Settings start fresh in each test, from a home without a stack and without the developer's variables."""
    for name in [name for name in os.environ if name.startswith("FIRN_") and name != "FIRN_TEST_STACK"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FIRN_HOME", str(_empty_home))
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()
