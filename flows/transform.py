"""The transform flow: builds the dbt models over the sinks' tables. Not for what the models are (dbt/)."""

from __future__ import annotations

from typing import Annotated

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from pydantic import Field

from firn.dbt.results import TransformError, TransformInterruptedError, TransformResult
from firn.dbt.transform import run_dbt
from firn.secrets import SnowflakeSecret, read_secret
from firn.settings import load_settings
from firn.snowflake.connection import login_from
from flows.prefect_ui.forms import described

ARTIFACT_KEY = "transform"


@flow(name="transform", description="Build the dbt models over the sinks' tables, and run their tests.")
@described
def transform(
    select: Annotated[
        str | None, Field(description="dbt node selection, for example fct_order_events+; empty: all.")
    ] = None,
    full_refresh: Annotated[bool, Field(description="Rebuild incremental models from all rows.")] = False,
) -> TransformResult:
    """Build the dbt models and run their tests. Raises TransformError with the result if one of them failed."""
    settings = load_settings()
    login = login_from(settings, read_secret(settings, settings.snowflake_secret_id, SnowflakeSecret))
    get_run_logger().info("dbt build in %s.%s, %s", login.database, login.schema, login.address)
    try:
        result = run_dbt(settings, login, select=select, full_refresh=full_refresh)
    except (TransformError, TransformInterruptedError) as error:
        if error.result:
            _publish(error.result)
        raise
    _publish(result)
    return result


def _publish(result: TransformResult) -> None:
    create_table_artifact(
        key=ARTIFACT_KEY,
        table=result.rows(),
        description=f"dbt: {', '.join(f'{count} {status}' for status, count in result.counts.items())}",
    )
