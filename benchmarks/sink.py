"""`make bench`: the sink end to end and committed, warm and from a cold start, beside its yardsticks, in one sitting.

    python -m benchmarks.sink [--records 3000000] [--rounds 3] [--cold 3] [--method SNOWPIPE_STREAMING]

Four things take turns on the same preloaded topic of orders: the raw drain of librdkafka (nothing is done with the
records), the reader (librdkafka to Arrow), the plain loop (`plain_loop`), and the sink in a session that has worked
before. Then the sink runs in new processes (`cold`). Client CPU seconds are those of the contestant's own processes
(with Spark's JVM and Python workers); the servers' stand apart. With another method than SNOWPIPE the sink takes a turn
with each of both. Results go to benchmarks/results/ as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaOffset
from rich.console import Console
from rich.table import Table

from benchmarks.cold import ColdRun, run_cold
from benchmarks.meter import Meter, Reading
from benchmarks.plain_loop import FILE_RECORDS, PlainLoop
from benchmarks.preload import ensure_stack, preload, server_pids
from benchmarks.results import write_results
from firn.connector.config import BufferConfig, Method, SinkConfig, TableConfig
from firn.errors import FirnError
from firn.kafka import cluster
from firn.kafka.partitions import OffsetRange
from firn.kafka.ranges import RangeReader
from firn.settings import load_settings
from firn.sinks.context import SinkContext, resolve
from firn.sinks.topics import partitions_of
from firn.snowflake.connection import connect, execute, query
from spark_jobs.sink.run import SinkRun
from spark_jobs.sink.tables.target_tables import ensure_variant_table
from spark_jobs.spark.engine import Engine, SparkEngine
from spark_jobs.spark.session import spark_context

TOPIC = "bench-order-events"
BATCH_RECORDS = 1_000_000
PARTS = ("client", "broker", "snowflake")
RAW, READER, PLAIN, WARM = "raw drain of librdkafka", "reader: librdkafka to Arrow", "plain loop", "sink, warm"
WARM_STREAMING = "sink, warm, SNOWPIPE_STREAMING"
console = Console(width=100)


@dataclass(frozen=True)
class Contestant:
    """A name and what it runs; returns what to verify and clear away after the clock has stopped."""

    name: str
    run: Callable[[], Callable[[], None]]


class Bench:
    """One warm engine and everything that the contestants share."""

    def __init__(self, engine: Engine, context: SinkContext) -> None:
        self._engine, self._context = engine, context
        self._partitions = partitions_of(cluster.admin_client(context.kafka), context.config)

    @property
    def records(self) -> int:
        """Records in the topic."""
        return sum(p.latest - p.earliest for p in self._partitions.values())

    def drain(self) -> Callable[[], None]:
        """Take every record out of librdkafka and do nothing with it."""
        config = {"group.id": "firn-bench", "fetch.queue.backoff.ms": "5", "auto.offset.reset": "error"}
        consumer = Consumer(self._context.kafka.librdkafka() | config)
        consumer.assign([KafkaOffset(*where, seen.earliest) for where, seen in self._partitions.items()])
        left = self.records
        while left > 0:
            left -= len(consumer.consume(10_000, 1.0))
        consumer.close()
        return lambda: None

    def read(self) -> Callable[[], None]:
        """Read every range into Arrow."""
        reader, found = RangeReader(self._context.kafka), 0
        for where, seen in self._partitions.items():
            wanted = OffsetRange(*where, seen.earliest, seen.latest)
            found += sum(batch.num_rows for batch in reader.read(wanted))
        reader.close()
        return lambda: self._check_count(READER, found)

    def sink(self, method: Method = Method.SNOWPIPE) -> Callable[[], None]:
        """The product: a new sink into a new table, from its claim to its orderly end."""
        name = f"bench_{uuid.uuid4().hex[:8]}"
        config = replace(self._context.config, name=name, table_map=((TOPIC, name.upper()),), method=method)
        run = SinkRun(replace(self._context, config=config), self._engine, once=True, stop=threading.Event())
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

    def cold(self, folder: Path, method: Method) -> ColdRun:
        """The product in a new process, with the same parameters."""
        name = f"bench_{uuid.uuid4().hex[:8]}"
        config = {
            "topics": TOPIC,
            "snowflake.topic2table.map": f"{TOPIC}:{name.upper()}",
            "snowflake.ingestion.method": method.value,
            "buffer.count.records": str(FILE_RECORDS),
            "buffer.size.bytes": str(self._context.config.buffer.bytes),
            "firn.batch.records": str(BATCH_RECORDS),
        }
        file = folder / f"{name}.json"
        file.write_text(json.dumps({"name": name, "config": config}))
        run = run_cold(file)
        self._check(name.upper(), run.records)
        return run

    def _check(self, table: str, rows: int) -> None:
        """A contestant that lands fewer rows is not faster. Drops the table."""
        with connect(self._context.login) as connection:
            found = int(query(connection, f"SELECT COUNT(*) AS N FROM {table}")[0]["N"])
            execute(connection, f"DROP TABLE {table}")
        self._check_count(table, found if found == rows else -1)

    def _check_count(self, what: str, rows: int) -> None:
        if rows != self.records:
            raise FirnError(f"{what} has {rows} records, the topic has {self.records}.")


def main() -> None:
    """Start what is needed, preload, warm up, measure in turns, print and write down."""
    parser = argparse.ArgumentParser(description="Benchmark of the sink.")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds; one before them warms up")
    parser.add_argument("--cold", type=int, default=3, help="runs in a new process")
    parser.add_argument("--method", type=Method, default=Method.SNOWPIPE, help="snowflake.ingestion.method to measure")
    options = parser.parse_args()
    ensure_stack()
    settings = load_settings()
    preload(settings, TOPIC, options.records)
    buffer = BufferConfig(records=FILE_RECORDS, bytes=250_000_000)
    context = resolve(SinkConfig("bench", (TOPIC,), buffer=buffer, batch_records=BATCH_RECORDS), settings)
    spark = spark_context(settings, "bench")
    bench = Bench(SparkEngine(spark, "bench"), context)
    contestants = [
        Contestant(RAW, bench.drain),
        Contestant(READER, bench.read),
        Contestant(PLAIN, bench.plain),
        Contestant(WARM, bench.sink),
    ]
    if options.method is Method.SNOWPIPE_STREAMING:
        contestants.append(Contestant(WARM_STREAMING, lambda: bench.sink(options.method)))
    results = _measure(contestants, Meter(server_pids(settings)), options.rounds)
    spark.stop()
    with tempfile.TemporaryDirectory() as folder:
        cold = [_told(number, bench.cold(Path(folder), options.method)) for number in range(1, options.cold + 1)]
    figures = {name: _medians(readings, bench.records) for name, readings in results.items()}
    _print(figures, cold, bench.records, options.rounds)
    name = "sink" if options.method is Method.SNOWPIPE else "sink_streaming"
    file = write_results(name, {"records": bench.records, "warm": figures, "cold": [run.as_dict() for run in cold]})
    console.print(f"Written to {file}", highlight=False)


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


def _told(number: int, run: ColdRun) -> ColdRun:
    console.print(f"cold run {number}: {run.seconds:.1f} s from claim to last commit", highlight=False)
    return run


def _medians(readings: list[Reading], records: int) -> dict[str, Any]:
    wall = statistics.median(r.wall for r in readings)
    cpu = {part: statistics.median(r.cpu[part] for r in readings) for part in PARTS}
    return {
        "seconds": wall,
        "records_per_second": records / wall,
        "records_per_client_cpu_second": records / cpu["client"],
        **{f"{part}_cpu_seconds": seconds for part, seconds in cpu.items()},
    }


def _print(figures: dict[str, dict[str, Any]], cold: list[ColdRun], records: int, rounds: int) -> None:
    table = Table(title=f"{records:,} orders, median of {rounds} rounds in turns", title_justify="left")
    for column in ("", "records/s", "per client CPU-s", "client CPU-s", "broker", "Snowflake"):
        table.add_column(column, justify="left" if not column else "right")
    for name, row in figures.items():
        rates = (row["records_per_second"], row["records_per_client_cpu_second"])
        table.add_row(name, *(f"{r:,.0f}" for r in rates), *(f"{row[f'{part}_cpu_seconds']:.2f}" for part in PARTS))
    console.print(table)
    plain, warm = figures[PLAIN], figures[WARM]
    rate, clock = "records_per_client_cpu_second", "records_per_second"
    console.print(f"sink / plain loop, per client CPU-second: {warm[rate] / plain[rate]:.2f}", highlight=False)
    console.print(f"sink / plain loop, wall clock: {warm[clock] / plain[clock]:.2f}", highlight=False)
    if streaming := figures.get(WARM_STREAMING):
        console.print(
            f"streaming / SNOWPIPE, per client CPU-second: {streaming[rate] / warm[rate]:.2f}", highlight=False
        )
    if not cold:
        return
    table = Table(title="The sink in a new process", title_justify="left")
    for column in ("records per client CPU-s", "claim to last commit, s", "start to first commit, s", "peak MB"):
        table.add_column(column, justify="right")
    for run in cold:
        table.add_row(
            f"{run.records / run.cpu:,.0f}", f"{run.seconds:.1f}", f"{run.commits[0].wall:.1f}", f"{run.peak:,.0f}"
        )
    console.print(table)


if __name__ == "__main__":
    try:
        main()
    except FirnError as error:  # for instance a stack that does not start
        sys.exit(f"Error: {error}")
