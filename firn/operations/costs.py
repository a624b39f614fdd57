"""What a sink costs in Snowflake, estimated in credits a day: its method, its rate, how often it needs a warehouse.

Sources in Snowflake's documentation: "Understanding compute cost" (a warehouse is billed by the second from each resume
until it is suspended, a minute at least), "Snowpipe Streaming high-performance architecture: Understand your costs"
(credits by the gigabyte of data values, uncompressed) with the rate of the Service Consumption Table. Pure arithmetic,
for one sink that has its warehouse for itself. Not for what was billed: WAREHOUSE_METERING_HISTORY says that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from firn.connector.config import Method, SinkConfig

DAY = 86_400.0
STREAMING_CREDITS_PER_GB = 0.0037
"""Of Snowpipe Streaming; a gigabyte is 1000**3 bytes here."""
WAREHOUSE_CREDITS_AN_HOUR = 1.0
"""An assumption: an X-Small one."""
AUTO_SUSPEND_SECONDS = 60.0
"""An assumption: the least that is worth it, as a minute is billed at each resume."""
COMMIT_SECONDS = 2.0
"""An assumption: for so long the statements of one commit keep a warehouse busy."""


@dataclass(frozen=True)
class CostEstimate:
    """Credits a day. warehouse: while it is awake for this sink; ingestion: what Snowpipe Streaming bills for data.

    at_least: the rate is not known; a higher one costs more.
    """

    warehouse: float
    ingestion: float
    at_least: bool = False

    @property
    def credits(self) -> float:
        """Both."""
        return self.warehouse + self.ingestion


def estimate(config: SinkConfig, records_per_second: float, bytes_per_second: float) -> CostEstimate:
    """The credits of a day at these rates; none where no record comes, as an idle sink wakes no warehouse.

    bytes_per_second: of the records as text. Field names are in them, which Snowpipe Streaming does not bill.
    """
    if records_per_second <= 0:
        return CostEstimate(0.0, 0.0)
    interval = max(_between_commits(config, records_per_second, bytes_per_second), 1 / records_per_second)
    awake = min(1.0, (COMMIT_SECONDS + AUTO_SUSPEND_SECONDS) / interval)
    streams = config.method is Method.SNOWPIPE_STREAMING
    ingested = bytes_per_second * DAY / 1000**3 if streams else 0.0
    return CostEstimate(awake * WAREHOUSE_CREDITS_AN_HOUR * DAY / 3600, ingested * STREAMING_CREDITS_PER_GB)


def least(config: SinkConfig) -> CostEstimate:
    """The same while records come and nobody knows how many: batches wait for as long as they may, data is nothing."""
    return replace(estimate(config, 1.0, 0.0), at_least=True)


def _between_commits(config: SinkConfig, records_per_second: float, bytes_per_second: float) -> float:
    """Seconds between two commits that need a warehouse: batches of SNOWPIPE, moves of the ledger otherwise."""
    if config.method is Method.SNOWPIPE_STREAMING:
        return config.streaming.ledger_seconds
    full = config.buffer.records / records_per_second
    if bytes_per_second > 0:
        full = min(full, config.buffer.bytes / bytes_per_second)
    return min(float(config.buffer.seconds), full)
