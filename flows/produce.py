"""The produce flow: writes sample orders, or the rows of a file, to a topic. Not for how (firn/produce/)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from pydantic import BaseModel, Field

from firn.errors import ConfigError
from firn.produce.framing import FormatName
from firn.produce.producer import DeliveryReport, stopped
from firn.produce.progress_bar import counting
from firn.produce.run import FileSource, Target, open_file, order_values, prepare, produce_file, produce_orders
from firn.produce.value_formats import ValueFormat
from firn.retry import with_retries
from firn.settings import Settings, load_settings
from flows.prefect_ui.forms import described

ARTIFACT_KEY = "produce"
COLUMNS = ("topic", "partition", "records", "first_offset", "last_offset")
DEFAULT_COUNT = 1000


class PartitionRow(BaseModel):
    """What one partition acknowledged; offsets of this run's first and last record."""

    topic: str
    partition: int
    records: int
    first_offset: int
    last_offset: int


class ProduceResult(BaseModel):
    """What was delivered."""

    topic: str
    delivered: int
    failed: int
    seconds: float
    interrupted: bool = Field(description="Stopped by a person; every record sent so far was delivered.")
    partitions: list[PartitionRow]


@flow(name="produce", description="Write sample orders, or the rows of a file, to a Kafka topic.")
@described
def produce(
    count: Annotated[int, Field(ge=0, description="Sample order events; not for a file.")] = DEFAULT_COUNT,
    rate: Annotated[float | None, Field(gt=0, description="Maximum records per second; empty: no limit.")] = None,
    seed: Annotated[int | None, Field(description="The same seed gives the same orders.")] = None,
    topic: Annotated[str | None, Field(description="Topic, created if absent; empty: settings.")] = None,
    from_file: Annotated[Path | None, Field(description="A .csv, .jsonl or .parquet file to send.")] = None,
    schema_file: Annotated[
        Path | None, Field(description="Schema of the file's rows: .avsc, JSON Schema or .proto.")
    ] = None,
    key: Annotated[str | None, Field(description="Field of the file that becomes the record key.")] = None,
    value_format: Annotated[FormatName, Field(description="Format of the values.")] = "avro",
    verbose: Annotated[bool, Field(description="Print a line for each delivery on stderr.")] = False,
) -> ProduceResult:
    """Produce records and account for each delivery. Raises UndeliveredError or RejectedError with the report."""
    settings = load_settings()
    source = _source(from_file, schema_file, key, topic, value_format)
    name = topic or settings.topic
    target = target_step(settings, name, source.values if source else order_values(value_format))
    line = _print if verbose else None
    with counting("Producing", source.rows.size if source else count) as progress:
        if source:
            report = produce_file(settings, target, source, rate=rate, progress=progress, report=line)
        else:
            now_ms = time.time_ns() // 1_000_000
            report = produce_orders(
                settings, target, count=count, now_ms=now_ms, seed=seed, rate=rate, progress=progress, report=line
            )
    _publish(report)
    if report.error:
        raise stopped(report)
    return result_of(report)


@task(name="target")
def target_step(settings: Settings, topic: str, values: ValueFormat) -> Target:
    """Create topic and subject if they are absent."""
    return with_retries(settings.retry_deadline_seconds, lambda: prepare(settings, topic, values))


def _print(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _source(
    file: Path | None, schema: Path | None, key: str | None, topic: str | None, value_format: FormatName
) -> FileSource | None:
    """The checked file, or None for sample orders."""
    if file is not None and topic is not None and (schema is not None or value_format == "json"):
        return open_file(file, schema, key, value_format)
    if file is not None:
        raise ConfigError(
            "A file needs a topic, and a schema unless its format is json.",
            where=str(file),
            next_step="Also give --schema FILE and --topic T (in a form: schema_file and topic).",
        )
    if schema is not None or key is not None:
        raise ConfigError("--schema and --key describe a file.", next_step="Give --from-file F, or omit them.")
    return None


def result_of(report: DeliveryReport) -> ProduceResult:
    """The report as the flow's result."""
    rows = [PartitionRow(topic=report.topic, **partition._asdict()) for partition in report.partitions]
    return ProduceResult(
        topic=report.topic,
        delivered=report.delivered,
        failed=report.failed,
        seconds=report.seconds,
        interrupted=report.interrupted,
        partitions=rows,
    )


def _publish(report: DeliveryReport) -> None:
    summary = (
        f"{report.delivered} records delivered to {report.topic}, {report.failed} failed, in {report.seconds:.1f} s "
        f"({report.delivered / max(report.seconds, 0.001):,.0f} per second)"
    )
    get_run_logger().info(summary)
    rows = [partition.model_dump() for partition in result_of(report).partitions]
    create_table_artifact(key=ARTIFACT_KEY, table=rows, description=summary)
