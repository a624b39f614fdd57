"""A local Snowflake for the tests of one module; a module that wants another one has a fixture of this name itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.firn_local.snowflake.process import Server, run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with an empty database STREAMING."""
    server = Server(tmp_path_factory.mktemp("snowflake") / "data")
    with server.connect(database=None, schema=None) as connection:
        run(connection, "CREATE DATABASE STREAMING")
    yield server
    assert server.stop() == 0
