"""Rows a second and a CPU-second of the export, beside a plain loop: `python -m benchmarks.export`.

A stream holds a backlog of 1x, 10x and 100x rows; each contestant publishes it from a stream of its own. One warm Spark
engine, one uncounted round before the counted ones. Client CPU is this process with Spark's JVM and its Python workers;
the servers' stand apart. Needs the embedded stack, which it starts. Results: benchmarks/results/export.json.
"""

from __future__ import annotations

import argparse
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table
from snowflake.connector import SnowflakeConnection

from benchmarks.meter import Meter, Reading
from benchmarks.plain_export import PlainExport
from benchmarks.preload import ensure_stack, server_pids
from benchmarks.results import write_results
from firn.connector.export.config import (
    BatchConfig,
    ExportConfig,
    MessageConfig,
    MessageFormat,
    SnapshotConfig,
    SourceConfig,
    SourceKind,
)
from firn.errors import FirnError
from firn.exports import names
from firn.exports.context import ExportContext, resolve_export
from firn.kafka import cluster
from firn.operations.exports.costs import statement_costs
from firn.settings import Settings, load_settings
from firn.snowflake.connection import connect, execute
from spark_jobs.export.run import ExportRun
from spark_jobs.spark.engine import SparkEngine
from spark_jobs.spark.session import spark_context

FACTORS = (1, 10, 100)
PLAIN = "plain loop"
EXPORTS = (
    ("export, batches of 1,000, JSON", 1_000, MessageFormat.JSON),
    ("export, batches of 10,000, JSON", 10_000, MessageFormat.JSON),
    ("export, batches of 10,000, Avro", 10_000, MessageFormat.AVRO),
)
"""The guide's own batch, and one for a backlog."""
_TOPIC_SECONDS = 15.0
_ROWS = """
INSERT INTO {table} SELECT SEQ4(), 'cust_' || SEQ4() % 1000, 'SHIPPED', 99.95 + SEQ4() % 100,
  DATEADD(SECOND, SEQ4(), '2026-01-01'::TIMESTAMP_NTZ) FROM TABLE(GENERATOR(ROWCOUNT => {rows}))
"""
_TABLE = "ID NUMBER(18, 0), CUSTOMER VARCHAR(40), STATUS VARCHAR(20), TOTAL NUMBER(12, 2), CHANGED TIMESTAMP_NTZ(6)"
console = Console(width=150)


@dataclass(frozen=True)
class Measured:
    """One contestant at one backlog. statements, warehouse_seconds: by Snowflake's own history."""

    contestant: str
    rows: int
    used: Reading
    statements: int
    warehouse_seconds: float

    def figures(self) -> dict[str, Any]:
        """As JSON."""
        cpu = self.used.cpu
        return {
            "contestant": self.contestant,
            "rows": self.rows,
            "seconds": self.used.wall,
            "rows_per_second": self.rows / self.used.wall,
            "rows_per_client_cpu_second": self.rows / cpu["client"],
            **{f"{part}_cpu_seconds": seconds for part, seconds in cpu.items()},
            "statements": self.statements,
            "warehouse_seconds": self.warehouse_seconds,
        }


class Bench:
    """One warm engine, one session, and what the contestants share."""

    def __init__(
        self, engine: SparkEngine, settings: Settings, context: ExportContext, connection: SnowflakeConnection
    ) -> None:
        self._engine, self._settings, self._context, self._connection = engine, settings, context, connection

    def measure(self, meter: Meter, rows: int) -> list[Measured]:
        """Every contestant at this backlog."""
        found = [self._measured(meter, PLAIN, rows, self._plain)]
        for name, batch, chosen in EXPORTS:
            found.append(self._measured(meter, name, rows, partial(self._export, batch, chosen)))
        return found

    def _measured(self, meter: Meter, name: str, rows: int, publish: Callable[[str, str], int]) -> Measured:
        """publish: takes the stream and the name that its statements are tagged with."""
        stream = self._backlog(rows)
        tagged = f"bench-{uuid.uuid4().hex[:8]}"
        before = meter.read()
        published = publish(stream, tagged)
        used = meter.read().since(before)
        if published != rows:
            raise FirnError(f"{name} published {published} of {rows} rows.")
        costs = statement_costs(self._connection, self._context.namespace, tagged, hours=1)
        console.print(f"{name}: {rows:,} rows in {used.wall:.1f} s", highlight=False)
        statements, seconds = sum(each.statements for each in costs), sum(each.warehouse_seconds for each in costs)
        return Measured(name, rows, used, statements, round(seconds, 3))

    def _backlog(self, rows: int) -> str:
        """A stream whose table got so many rows after it was made."""
        name = f"BENCH_{uuid.uuid4().hex[:8].upper()}"
        execute(self._connection, f"CREATE TABLE {name} ({_TABLE})")
        execute(self._connection, f"CREATE STREAM {name}_STREAM ON TABLE {name}")
        execute(self._connection, _ROWS.format(table=name, rows=rows))
        return f"{name}_STREAM"

    def _plain(self, stream: str, tagged: str) -> int:
        topic, kafka = f"{stream.lower()}-plain", self._context.kafka
        admin = cluster.admin_client(kafka)  # it must live until the answer
        admin.client.create_topics([NewTopic(topic, 1, 1)])[topic].result(_TOPIC_SECONDS)
        with connect(self._context.login, query_tag=names.query_tag(tagged)) as connection:
            return PlainExport(connection, kafka.librdkafka(), "ID").poll(stream, topic)

    def _export(self, batch: int, chosen: MessageFormat, stream: str, tagged: str) -> int:
        """From the claim to the orderly end: moved, published, settled."""
        source = SourceConfig("bench", SourceKind.STREAM, (stream,), key_columns=("ID",), topic=f"{stream.lower()}-out")
        config = replace(
            self._context.config,
            name=tagged,
            sources=(source,),
            batch=BatchConfig(rows=batch),
            value=MessageConfig(chosen),
        )
        context = resolve_export(config, self._settings)
        return ExportRun(context, self._engine, once=True, stop=threading.Event()).run().rows


def main() -> None:
    """Start what is needed, warm up, measure, print and write down."""
    parser = argparse.ArgumentParser(description="Benchmark of the export.")
    parser.add_argument("--rows", type=int, default=2_000, help="rows of the smallest backlog")
    options = parser.parse_args()
    ensure_stack()
    settings = load_settings()
    plain_json = MessageConfig(MessageFormat.JSON)
    config = ExportConfig("bench", (), value=plain_json, snapshot=SnapshotConfig(initial="changes only"))
    context = resolve_export(config, settings)
    spark = spark_context(settings, "bench-export")
    with connect(context.login, query_tag="firn bench export") as connection:
        bench = Bench(SparkEngine(spark, "bench-export"), settings, context, connection)
        meter = Meter(server_pids(settings))
        bench.measure(meter, options.rows)  # warm-up, not counted
        found = [each for factor in FACTORS for each in bench.measure(meter, options.rows * factor)]
    spark.stop()
    _print(found)
    console.print(f"Written to {write_results('export', {'lines': [each.figures() for each in found]})}.")


def _print(found: list[Measured]) -> None:
    table = Table(title="a backlog, from the stream to Kafka")
    for column in (
        "contestant",
        "rows",
        "s",
        "rows/s",
        "rows per client CPU-s",
        "client CPU-s",
        "Snowflake CPU-s",
        "statements",
        "warehouse s",
    ):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    for each in found:
        row = each.figures()
        table.add_row(
            each.contestant,
            f"{each.rows:,}",
            f"{row['seconds']:.1f}",
            f"{row['rows_per_second']:,.0f}",
            f"{row['rows_per_client_cpu_second']:,.0f}",
            f"{row['client_cpu_seconds']:.1f}",
            f"{row['snowflake_cpu_seconds']:.1f}",
            f"{each.statements}",
            f"{each.warehouse_seconds:.1f}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
