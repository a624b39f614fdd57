"""Credits of a sink: `python -m benchmarks.costs`. The table of docs/costs.md, measured on the local Snowflake's meter.

Each measurement is an account of its own, an X-Small warehouse with AUTO_SUSPEND 60, one sink of three partitions, and
a clock that the benchmark moves (`metered_sink`). Minutes are measured and said as a day. What Snowpipe Streaming bills
for data is arithmetic: gigabytes of an order's values by the listed rate. Results: benchmarks/results/costs.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from rich.console import Console
from rich.table import Table

from benchmarks.metered_sink import account, sink
from benchmarks.results import write_results
from firn.connector.config import BufferConfig, Method, SinkConfig, StreamingConfig
from firn.operations.costs import DAY, STREAMING_CREDITS_PER_GB, estimate
from firn_local.snowflake.metering.ingestion import size_of_values
from firn_local.snowflake.metering.usage import Usage

TOPIC = "order-events"
BATCH_SECONDS = 3.0
"""An assumption: a batch of method SNOWPIPE takes so long at least, from its plan to its commit."""
RATES = (0.0, 1.0, 100.0, 10_000.0)
RECORD = {
    "RECORD_METADATA": {
        "topic": TOPIC, "partition": 1, "offset": 1234567, "CreateTime": 1790000000000, "key": "order-1001",
        "schema_id": 1, "SnowflakeConnectorPushTime": 1790000000500,
    },
    "RECORD_CONTENT": {
        "order_id": 1001, "customer_id": "cust_abc123", "order_status": "CREATED", "order_total": 99.99,
        "created_at": 1790000000000,
    },
}  # fmt: skip
"""An order of the demo as a row."""
COURSE = {
    "low volume (< 100/min): 1000 records or 60 s": (BufferConfig(1_000, 60), 100 / 60),
    "medium volume (1000/min): 10000 records or 60 s": (BufferConfig(10_000, 60), 1_000 / 60),
    "high volume (10000+/min): 50000 records or 30 s": (BufferConfig(50_000, 30), 10_000 / 60),
}
"""The tuning rows of the course that this project follows, each at the rate that it is for."""


@dataclass(frozen=True)
class Measured:
    """One line: a configuration at a rate, the usage of so many seconds, and its day in credits."""

    name: str
    method: str
    rate: float
    seconds: float
    usage: Usage
    ingestion: float
    estimate: float

    @property
    def warehouse(self) -> float:
        """Credits a day of the warehouse."""
        return self.usage.compute_credits * DAY / self.seconds

    @property
    def cloud_services(self) -> float:
        """Credits a day of cloud services above their allowance, if the sink had the account for itself."""
        return (self.usage.billed_credits - self.usage.compute_credits) * DAY / self.seconds


def measure(name: str, config: SinkConfig, rate: float) -> Measured:
    """Run a sink for an hour of its clock, or for minutes where batches are seconds apart."""
    streams = config.method is Method.SNOWPIPE_STREAMING
    seconds = 3600.0 if streams or rate * config.buffer.seconds < config.buffer.records else 300.0
    with account() as on, sink(on, config) as running:
        before = on.meter.usage()
        if streams:
            running.moves_of_the_ledger(rate, seconds)
        else:
            running.batches(rate, seconds, batch_seconds=BATCH_SECONDS)
        usage = on.meter.usage() - before
    text, values = len(json.dumps(RECORD, separators=(",", ":"))), size_of_values(RECORD)
    ingestion = rate * values * DAY / 1000**3 * STREAMING_CREDITS_PER_GB if streams else 0.0
    return Measured(name, config.method, rate, seconds, usage, ingestion, estimate(config, rate, rate * text).credits)


def measurements() -> Iterator[Measured]:
    """Every line of the table."""
    defaults = SinkConfig("orders", (TOPIC,))
    streaming = replace(defaults, method=Method.SNOWPIPE_STREAMING)
    for rate in RATES:
        yield measure("defaults: 10000 records or 120 s", defaults, rate)
        yield measure("defaults: ledger every 600 s", streaming, rate)
    yield measure("buffer.flush.time 600", replace(defaults, buffer=BufferConfig(10_000, 600)), 1)
    yield measure("firn.ledger.seconds 3600", replace(streaming, streaming=StreamingConfig(ledger_seconds=3600)), 100)
    for name, (buffer, rate) in COURSE.items():
        yield measure(name, replace(defaults, buffer=buffer), rate)
        yield measure(name, replace(streaming, buffer=buffer), rate)


def main() -> None:
    """Measure, print the table, write the results."""
    columns = (
        "configuration",
        "method",
        "records/s",
        "wakes/h",
        "warehouse",
        "cloud services",
        "ingestion",
        "estimate",
    )
    table = Table(*columns, title="credits a day")
    lines = []
    for each in measurements():
        lines.append(asdict(each) | {"warehouse": each.warehouse, "cloud_services": each.cloud_services})
        wakes = each.usage.resumes * 3600 / each.seconds
        credits = (each.warehouse, each.cloud_services, each.ingestion, each.estimate)
        table.add_row(each.name, each.method, f"{each.rate:,.4g}", f"{wakes:.0f}", *(f"{c:.2f}" for c in credits))
    console = Console(width=150)
    console.print(table)
    console.print(f"Written to {write_results('costs', {'lines': lines, 'batch_seconds': BATCH_SECONDS})}.")


if __name__ == "__main__":
    main()
