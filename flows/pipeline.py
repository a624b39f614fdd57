"""The pipeline flow: provision, produce, sink all that is available, build the dbt models, and sum up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from pydantic import BaseModel, Field

from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.operations.run_report import RunReport
from firn.provision.findings import COLUMNS as FINDING_COLUMNS
from firn.secrets import secret_reader
from firn.settings import load_settings
from firn.snowflake.logins import dbt_login, sink_login
from firn.snowflake.tables import TableCount, count_tables, latest_rows
from flows.prefect_ui.forms import described
from flows.produce import DEFAULT_COUNT, ProduceResult, produce
from flows.provision import ProvisionResult, provision
from flows.sink import DEFAULT_CONFIG, sink
from flows.transform import transform

ARTIFACT_KEY = "pipeline"
TYPED_TABLES = ("FCT_ORDER_EVENTS", "FCT_ORDERS")
SAMPLE_TABLE, SAMPLE_ROWS_OF_A_PARTITION = "FCT_ORDER_EVENTS", 3
SAMPLE_COLUMNS = ("PARTITION", "ORDER_ID", "ORDER_STATUS", "ORDER_TOTAL", "CREATED_AT")

TABLE_COLUMNS = ("table", "rows", "distinct_rows")
NODE_COLUMNS = ("status", "kind", "name", "rows", "seconds", "message")
LAG_COLUMNS = ("topic", "partition", "table", "next_offset", "end_offset", "lag")


class PipelineResult(BaseModel):
    """What each step did, what is in the tables now, and a few typed orders."""

    provision: ProvisionResult
    produce: ProduceResult
    sink: RunReport
    dbt: list[dict[str, Any]]
    tables: list[TableCount]
    sample: list[dict[str, Any]]


@flow(name="pipeline", description="Orders from Kafka to typed tables: provision, produce, sink, transform.")
@described
def pipeline(
    count: Annotated[int, Field(ge=0, description="Number of sample order events.")] = DEFAULT_COUNT,
    rate: Annotated[float | None, Field(gt=0, description="Maximum records per second; empty: no limit.")] = None,
    seed: Annotated[int | None, Field(description="The same seed gives the same orders.")] = None,
    config: Annotated[Path, Field(description="Connector file of the sink.")] = DEFAULT_CONFIG,
) -> PipelineResult:
    """Run all steps in order; the first that fails ends the run with its own error."""
    load_sink_config(
        config, Resolver(secret_reader(load_settings()))
    )  # a fault in the file is an error before anything is produced
    provisioned = provision()
    produced = produce(count=count, rate=rate, seed=seed)
    report = sink(config=str(config), once=True)
    built = transform()
    settings = load_settings()
    landed, typed = sink_login(settings), dbt_login(settings)
    result = PipelineResult(
        provision=provisioned,
        produce=produced,
        sink=report,
        dbt=built.rows(),
        tables=[
            *count_tables(landed, dict.fromkeys(report.tables.values()), ()),
            *count_tables(typed, (), TYPED_TABLES),
        ],
        sample=latest_rows(
            typed, SAMPLE_TABLE, SAMPLE_COLUMNS, each="PARTITION", order="OFFSET", limit=SAMPLE_ROWS_OF_A_PARTITION
        ),
    )
    create_markdown_artifact(key=ARTIFACT_KEY, markdown=summary(result), description="What the pipeline moved.")
    return result


def summary(result: PipelineResult) -> str:
    """The result as Markdown: rows per table, lag per partition, dbt results, what was provisioned."""
    parts = [
        f"**{result.produce.delivered}** records produced, **{result.sink.records}** committed by sink "
        f"`{result.sink.sink}`.",
        "## Rows per table",
        _table([count.as_row() for count in result.tables], TABLE_COLUMNS),
        "## Lag per partition",
        _table([asdict(partition) for partition in result.sink.partitions], LAG_COLUMNS),
        "## dbt",
        _table(result.dbt, NODE_COLUMNS),
        "## Provisioned",
        _table([finding.row() for finding in result.provision.findings], FINDING_COLUMNS),
    ]
    return "\n\n".join(parts)


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    def cell(value: object) -> str:
        return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")

    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(row.get(column)) for column in columns) + " |" for row in rows]
    return "\n".join(lines)
