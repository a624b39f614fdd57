"""A local Snowflake with its streaming endpoint for the tests of one module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.firn_local.snowflake.streaming.streaming_server import Streaming


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streaming]:
    """One with an empty database D."""
    server = Streaming(tmp_path_factory.mktemp("streaming") / "data")
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _without_faults(streaming: Streaming) -> Iterator[None]:
    """No test leaves its faults to the next one."""
    yield
    streaming.endpoint.faults.clear()
    streaming.endpoint.administration.set(commit_delay=0.02, commit_paused=False, token_seconds=3600)
