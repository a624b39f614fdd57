"""The transform flow: builds dbt models over the sinks' tables, a task for each model. Not for what they are (dbt/)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from pydantic import Field

from firn.dbt.failing_rows import LIMIT, failing_rows
from firn.dbt.results import TransformError, TransformInterruptedError, TransformResult
from firn.dbt.transform import Build, run_dbt
from firn.settings import load_settings
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.logins import dbt_login
from flows.prefect_ui.dbt_tasks import NodeTasks
from flows.prefect_ui.forms import described

ARTIFACT_KEY = "transform"


@flow(name="transform", description="Build the dbt models over the sinks' tables, and run their tests.")
@described
def transform(
    select: Annotated[
        str | None, Field(description="dbt node selection, for example fct_order_events+; empty: all.")
    ] = None,
    full_refresh: Annotated[bool, Field(description="Rebuild incremental models from all rows.")] = False,
    only_new: Annotated[
        bool, Field(description="Build what is below sources that have newer rows than at the last good run.")
    ] = False,
    freshness: Annotated[bool, Field(description="Fail if the newest row of a source is too old.")] = True,
    variables: Annotated[
        dict[str, Any] | None, Field(description='dbt\'s vars, for example {"firn_backfill_from": "2026-03-01"}.')
    ] = None,
    project_dir: Annotated[Path | None, Field(description="A dbt project; empty: Firn's own.")] = None,
) -> TransformResult:
    """Build the dbt models and run their tests. Raises TransformError with the result if one of them failed."""
    settings = load_settings()
    login = dbt_login(settings)
    get_run_logger().info("dbt build in %s.%s, %s", login.database, login.schema, login.address)
    build = Build(select, full_refresh, only_new, freshness, variables or {}, project_dir)
    source = settings.snowflake_database, settings.snowflake_schema
    tasks = NodeTasks()
    try:
        result = run_dbt(settings, login, build, source=source, on_node=tasks.note)
    except (TransformError, TransformInterruptedError) as error:
        if error.result:
            _publish(error.result, login)
        raise
    finally:
        tasks.close()
    _publish(result, login)
    return result


def _publish(result: TransformResult, login: SnowflakeLogin) -> None:
    """An artifact of all nodes, and one for each test that found rows: those rows."""
    create_table_artifact(
        key=ARTIFACT_KEY,
        table=result.rows(),
        description=f"dbt: {', '.join(f'{count} {status}' for status, count in result.counts.items())}",
    )
    for node in result.nodes:
        if node.status in ("fail", "warn") and (rows := failing_rows(login, node)):
            create_table_artifact(
                key=artifact_key(node.name),
                table=[{name: None if value is None else str(value) for name, value in row.items()} for row in rows],
                description=f"{node.status}: {node.message}. The first {min(len(rows), LIMIT)} of {node.rows} rows.",
            )


def artifact_key(node: str) -> str:
    """The key of a test's artifact: letters, digits and dashes, as Prefect wants it."""
    return f"{ARTIFACT_KEY}-{re.sub(r'[^a-z0-9]+', '-', node.lower()).strip('-')}"[:200]
