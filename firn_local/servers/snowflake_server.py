"""The supervisor's side of the local Snowflake: how `firn_local.snowflake` is started and checked, and nothing more."""

from __future__ import annotations

import sys
from typing import ClassVar

from firn.errors import ConfigError
from firn_local.admin import ACCOUNT
from firn_local.home import Home, write_private
from firn_local.process import Launch
from firn_local.servers.seed import snowflake_sql
from firn_local.servers.server_contract import Server, http_get


class Snowflake(Server):
    """Snowflake, with the seed's database, warehouse, roles and user in it."""

    name: ClassVar[str] = "snowflake"
    ports: ClassVar[tuple[str, ...]] = ("snowflake", "snowflake-streaming")
    needs: ClassVar[tuple[str, ...]] = ("secrets-manager",)

    def launch(self, home: Home) -> Launch:
        """Write the SQL of the first users and grants (the server runs what is new in it) and say what to start."""
        folder = home.data(self.name)
        bootstrap = folder / "bootstrap.sql"
        try:
            write_private(bootstrap, snowflake_sql(home))
        except (
            ConfigError
        ):  # somebody broke the secret, perhaps on purpose: a stack that has its user starts all the same
            if not bootstrap.exists():
                raise
        ports = ("--port", str(home.ports["snowflake"]), "--streaming-port", str(home.ports["snowflake-streaming"]))
        options = (*ports, "--data-dir", str(home.snowflake_data))
        more = ("--account", ACCOUNT, "--bootstrap-sql", str(bootstrap))
        return Launch([sys.executable, "-m", "firn_local.snowflake", *options, *more], cwd=folder, env={})

    def check(self, home: Home) -> None:
        """Both answer: SQL, and Snowpipe Streaming to a client that trusts the authority of its own."""
        http_get(f"{home.url('snowflake')}/health")
        if "snowflake-streaming" in home.ports:  # else an older version started it
            http_get(f"{home.streaming_url}/health", home.snowflake_ca_file)

    def address(self, home: Home) -> str:
        """The account URL."""
        return home.url("snowflake")

    def also(self, home: Home) -> str:
        """The streaming url."""
        return f"Snowpipe Streaming at {home.streaming_url}" if "snowflake-streaming" in home.ports else ""
