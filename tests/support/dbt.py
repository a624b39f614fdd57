"""A local Snowflake for dbt, with records as the sink writes them; the models built in this process or by `run_dbt`."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from firn.dbt.process import PROJECT, environment
from firn.dbt.results import TransformResult, read_result
from firn.dbt.transform import Build, run_dbt
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query
from firn.snowflake.statements import run_statements
from firn_local.admin import ADMIN_USER
from firn_local.servers.seed import first_statements, public_key

CREATED_AT = 1_772_713_815_123  # 2026-03-05 12:30:15.123 UTC
HOUR_MS = 3_600_000
SINK, ANALYST = "SVC_KAFKA_CONNECTOR", "ANALYTICS_DEVELOPER"


@dataclass
class Warehouse:
    """A local Snowflake with an empty ORDER_EVENTS, and a home for dbt. login: dbt's; sinks have their own."""

    login: SnowflakeLogin
    settings: Settings

    def build(self, **options: Any) -> TransformResult:
        """As `firn transform`, in a process of its own."""
        return run_dbt(self.settings, self.login, Build(**options))

    def query(self, sql: str) -> list[dict[str, Any]]:
        with connect(self.login) as session:
            return query(session, sql)

    @property
    def sink(self) -> SnowflakeLogin:
        """The sinks' login, whose tables dbt's may only read."""
        return user(self.login, SINK)

    def sink_does(self, *statements: str) -> None:
        """Statements of a sink."""
        with connect(self.sink) as session:
            for statement in statements:
                execute(session, statement)

    def load(self, table: str, metadata: dict[str, Any], content: str) -> None:
        """One row of a sink's table; `content` is JSON text."""
        with connect(self.sink) as session:
            statement = f"INSERT INTO {table} SELECT PARSE_JSON(?), PARSE_JSON(?)"
            execute(session, statement, (json.dumps(metadata), content))

    def land(
        self,
        partition: int,
        offset: int,
        *,
        content: dict[str, Any] | None = None,
        hours_ago: float = 0,
        **order: Any,
    ) -> None:
        """One order as the sink writes it; `content={}` is a tombstone. hours_ago: when the sink pushed it."""
        value = {
            "order_id": 1000 + offset,
            "customer_id": "cust_abc123",
            "order_status": "CREATED",
            "order_total": 99.99,
            "created_at": CREATED_AT,
        }
        metadata = metadata_of("order-events", partition, offset, hours_ago=hours_ago)
        metadata |= {"key": str(1000 + offset), "schema_id": 0 if content == {} else 1, "headers": {"trace": "t-1"}}
        self.load("ORDER_EVENTS", metadata, json.dumps(value | order if content is None else content))

    def events(self) -> list[tuple[int, int]]:
        """(partition, offset) of every row of the mart, sorted."""
        rows = self.query("SELECT e.PARTITION AS P, e.OFFSET AS O FROM FCT_ORDER_EVENTS AS e ORDER BY P, O")
        return [(row["P"], row["O"]) for row in rows]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a mart without the time of the run that wrote them, in an order of their own; NaN as text."""
        rows = [{k: v for k, v in row.items() if k != "LOADED_AT"} for row in self.query(f"SELECT * FROM {table}")]
        rows = [{k: "NaN" if v != v else v for k, v in row.items()} for row in rows]
        return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def metadata_of(topic: str, partition: int, offset: int, *, hours_ago: float = 0) -> dict[str, Any]:
    """RECORD_METADATA of a record that the sink pushed so long ago."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "CreateTime": CREATED_AT + offset,
        "SnowflakeConnectorPushTime": time.time_ns() // 1_000_000 - int(hours_ago * HOUR_MS),
        "schema_id": 1,
    }


def emptied(server: SnowflakeLogin, home: Path) -> Warehouse:
    """The server as a new stack's is before any build: its users, roles and grants, and a table that a sink made.

    server: the analyst's login, whose key all users here share.
    """
    warehouse = Warehouse(server, Settings(home=home, retry_deadline_seconds=1))
    key = public_key(server.private_key)
    with connect(replace(user(server, ADMIN_USER), role="ACCOUNTADMIN")) as session:
        execute(session, "CREATE OR REPLACE DATABASE STREAMING")
        for _ in run_statements(session, first_statements(key, key, key)):
            pass
    warehouse.sink_does("CREATE TABLE STREAMING.PUBLIC.ORDER_EVENTS (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
    return warehouse


def user(login: SnowflakeLogin, name: str) -> SnowflakeLogin:
    """The login of another user, whose role has the same name."""
    return replace(login, user=name, role=name)


def copied_project(folder: Path) -> Path:
    """Firn's own project, to be changed by a test."""
    project = folder / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("target", "logs"))
    return project


@contextmanager
def dbt_here(warehouse: Warehouse) -> Iterator[Any]:
    """dbt in this process, which imports it once: `run(project, *arguments)` gives the nodes of a build."""
    from dbt.cli.main import dbtRunner

    variables = {k: v for k, v in environment(warehouse.login, ("STREAMING", "PUBLIC")).items() if "FIRN_" in k}

    def run(project: Path, *arguments: str) -> TransformResult:
        target = warehouse.settings.home / "target"
        places = [f"--project-dir={project}", f"--profiles-dir={PROJECT}", f"--target-path={target}"]
        quiet = [
            "--quiet",
            "--no-use-colors",
            "--no-partial-parse",
            "--no-send-anonymous-usage-stats",
            f"--log-path={warehouse.settings.home}",
        ]
        done = dbtRunner().invoke(["build", *quiet, *places, *arguments])
        if done.exception:
            pytest.fail(f"dbt raised {done.exception}")
        return read_result(target)

    with patch.dict("os.environ", variables):
        yield run
