"""A local Snowflake for the tests of one module, in this process; `server` has one behind HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.firn_local.snowflake.in_process import InProcess, run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """One with an empty database STREAMING."""
    server = InProcess(tmp_path_factory.mktemp("snowflake") / "data")
    with server.connect(database=None, schema=None) as connection:
        run(connection, "CREATE DATABASE STREAMING")
    yield server
    server.stop()
