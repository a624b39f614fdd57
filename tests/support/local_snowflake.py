"""A local Snowflake of a test module's own, in this process, with its meter and a clock that the tests move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from firn.snowflake.connection import SnowflakeLogin
from firn_local.admin import new_private_key
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.metering.meter import FastClock
from firn_local.snowflake.metering.usage import Usage
from firn_local.snowflake.server.serving import served


@dataclass(frozen=True)
class Local:
    """The local Snowflake, and how to log in: database D, schema PUBLIC, warehouse WH."""

    snowflake: LocalSnowflake
    login: SnowflakeLogin

    def used(self, before: Usage) -> Usage:
        """What was used since `before`."""
        return self.snowflake.meter.usage() - before


@contextmanager
def running_local(folder: Path, clock: FastClock | None = None) -> Iterator[Local]:
    """Serve one with its data in a new folder, for the length of the block."""
    (folder / "tmp").mkdir()
    snowflake = LocalSnowflake(folder, threads=1, clock=clock or FastClock())
    with snowflake.session("MAKER", "ACCOUNTADMIN") as session:
        snowflake.run(session, "CREATE WAREHOUSE WH AUTO_SUSPEND = 60 INITIALLY_SUSPENDED = TRUE")
        snowflake.run(session, "CREATE DATABASE D")
    with served(snowflake) as port:
        login = SnowflakeLogin(
            "LOCAL", "TESTER", "", "WH", "D", "PUBLIC", "127.0.0.1", port, "http", SecretStr(new_private_key())
        )
        yield Local(snowflake, login)
