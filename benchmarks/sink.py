"""`make bench`: the sink end to end and committed, beside two yardsticks, warm and in one run.

    python -m benchmarks.sink [--records 1000000] [--rounds 5]

Three things take turns on the same preloaded topic of orders: the raw drain of Spark's Kafka source (nothing is done
with the records), the plain loop (`plain_loop`), and the sink. CPU seconds are those of all processes involved: this
one with Spark's JVM and Python workers, the broker and the local Snowflake.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.meter import Meter, Reading
from benchmarks.plain_loop import FILE_RECORDS, PlainLoop
from benchmarks.preload import preload, server_pids
from firn.connector.config import BufferConfig, SinkConfig, TableConfig
from firn.errors import FirnError
from firn.kafka import cluster
from firn.settings import load_settings
from firn.snowflake import connect, execute, query
from spark_jobs.sink.context import SinkContext, resolve
from spark_jobs.sink.ledger import Ledger
from spark_jobs.sink.limits import BatchLimit
from spark_jobs.sink.run import SinkRun
from spark_jobs.sink.session import spark_session
from spark_jobs.sink.source import open_stream, partitions_of
from spark_jobs.sink.tables import ensure_variant_table

TOPIC = "bench-order-events"
console = Console(width=120)


@dataclass(frozen=True)
class Contestant:
    """A name and what it runs; returns what to verify and clear away after the clock has stopped."""

    name: str
    run: Callable[[], Callable[[], None]]


class Bench:
    """One warm session and everything that the contestants share."""

    def __init__(self, spark: SparkSession, context: SinkContext) -> None:
        self._spark, self._context = spark, context
        self._partitions = partitions_of(cluster.admin_client(context.kafka), context.config)

    @property
    def records(self) -> int:
        """Records in the topic."""
        return sum(p.latest - p.earliest for p in self._partitions.values())

    def drain(self) -> Callable[[], None]:
        """Read every record with Spark's Kafka source and do nothing with it."""
        ledger = Ledger("drain", 1, {where: p.earliest for where, p in self._partitions.items()})
        config = self._context.config
        frame = open_stream(self._spark, self._context.kafka, ledger, BatchLimit(config, waits=False), None)
        checkpoint = self._context.settings.home / "checkpoints" / f"drain-{uuid.uuid4().hex}"
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return lambda: shutil.rmtree(checkpoint)

    def sink(self) -> Callable[[], None]:
        """The product: a new sink into a new table, claimed, staged and committed."""
        name = f"bench_{uuid.uuid4().hex[:8]}"
        config = replace(self._context.config, name=name, table_map=((TOPIC, name.upper()),))
        run = SinkRun(replace(self._context, config=config), self._spark, once=True, stop=threading.Event())
        report = run.run()
        return lambda: self._check(name.upper(), report.records)

    def plain(self) -> Callable[[], None]:
        """The yardstick without Spark."""
        table = f"PLAIN_{uuid.uuid4().hex[:8]}".upper()
        with connect(self._context.login) as connection:
            ensure_variant_table(connection, self._context.namespace, table, create=True, tables=TableConfig())
            execute(connection, "CREATE STAGE IF NOT EXISTS FIRN_STAGE")
        loop = PlainLoop(self._context, self._context.kafka.librdkafka(), table)
        rows = loop.run({(w.topic, w.partition): p.latest for w, p in self._partitions.items()})
        return lambda: self._check(table, rows)

    def _check(self, table: str, rows: int) -> None:
        """A contestant that lands fewer rows is not faster. Drops the table."""
        with connect(self._context.login) as connection:
            found = int(query(connection, f"SELECT COUNT(*) AS N FROM {table}")[0]["N"])
            execute(connection, f"DROP TABLE {table}")
        if not found == rows == self.records:
            raise FirnError(f"{table} holds {found} rows, {rows} were reported, the topic has {self.records}.")


def main() -> None:
    """Preload, warm up, measure in turns, print."""
    parser = argparse.ArgumentParser(description="Benchmark of the sink.")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    settings = load_settings()
    preload(settings, TOPIC, options.records)
    buffer = BufferConfig(records=FILE_RECORDS, bytes=250_000_000)
    config = SinkConfig("bench", (TOPIC,), buffer=buffer, batch_records=1_000_000)
    context = resolve(config, settings)
    spark = spark_session(settings, "bench", context.kafka)
    bench = Bench(spark, context)
    contestants = [
        Contestant("raw drain of Spark's Kafka source", bench.drain),
        Contestant("plain loop", bench.plain),
        Contestant("sink, committed", bench.sink),
    ]
    meter = Meter(server_pids(settings))
    results = _measure(contestants, meter, options.rounds)
    spark.stop()
    _print(results, bench.records, options.rounds)


def _measure(contestants: list[Contestant], meter: Meter, rounds: int) -> dict[str, list[Reading]]:
    """One uncounted round to warm up, then `rounds` counted ones, in turns."""
    results: dict[str, list[Reading]] = {c.name: [] for c in contestants}
    for number in range(rounds + 1):
        for contestant in contestants:
            before = meter.read()
            verify = contestant.run()
            used = meter.read().since(before)
            verify()
            console.print(f"round {number}: {contestant.name}: {used.wall:.1f} s", highlight=False)
            if number:
                results[contestant.name].append(used)
    return results


def _print(results: dict[str, list[Reading]], records: int, rounds: int) -> None:
    table = Table(title=f"{records:,} orders, warm, median of {rounds} rounds in turns", title_justify="left")
    for column in ("", "records/s", "records/CPU-s", "CPU-s", "of these client", "broker", "Snowflake"):
        table.add_column(column, justify="left" if not column else "right")
    rates = {}
    for name, readings in results.items():
        wall = statistics.median(r.wall for r in readings)
        cpu = statistics.median(r.total for r in readings)
        parts = [statistics.median(r.cpu[part] for r in readings) for part in ("client", "broker", "snowflake")]
        rates[name] = (records / wall, records / cpu)
        table.add_row(
            name, f"{records / wall:,.0f}", f"{records / cpu:,.0f}", f"{cpu:.2f}", *(f"{p:.2f}" for p in parts)
        )
    console.print(table)
    (drain, plain, sink) = rates.values()
    console.print(f"sink / raw drain, per CPU-second: {sink[1] / drain[1]:.2f} (floor 0.25)", highlight=False)
    console.print(f"sink / plain loop, per CPU-second: {sink[1] / plain[1]:.2f} (floor 1.2)", highlight=False)
    console.print(f"sink / plain loop, wall clock: {sink[0] / plain[0]:.2f} (floor 2)", highlight=False)


if __name__ == "__main__":
    main()
