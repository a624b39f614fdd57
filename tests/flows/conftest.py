"""Commands and flows of these tests run in this process, against the stack that all tests share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunningStack
from tests.support.commands import run_here


class StackHere(RunningStack):
    """The stack, with commands that run in this process."""

    def run(self, *args: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `firn <args>` against the stack, as `run_here` does."""
        return run_here(self.home, *args, **options)


@pytest.fixture(scope="session")
def stack(stack: RunningStack) -> StackHere:
    """The stack that all tests share."""
    return StackHere(stack.home)


@pytest.fixture(scope="session")
def firn_in() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_here`, for tests that have a home of their own: firn_in(home, "sink", "validate", file, check=False)."""
    return run_here


@pytest.fixture
def prefect_server(stack: RunningStack) -> Iterator[None]:
    """Flow runs of this process belong to the stack's Prefect server."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: stack.settings.prefect_api_url}):
        yield
