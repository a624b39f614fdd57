"""A local Snowflake for the tests of one module, a process that the connector reaches over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.firn_local.snowflake.in_process import run
from tests.firn_local.snowflake.process import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with an empty database STREAMING."""
    server = Server(tmp_path_factory.mktemp("snowflake") / "data")
    with server.connect(database=None, schema=None) as connection:
        run(connection, "CREATE DATABASE STREAMING")
    yield server
    assert server.stop() == 0
