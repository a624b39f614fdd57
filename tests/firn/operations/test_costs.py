"""The estimate of a sink's credits, against the arithmetic of Snowflake's documents."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.connector.config import BufferConfig, Method, SinkConfig, StreamingConfig
from firn.operations.costs import estimate, least

SNOWPIPE = SinkConfig("orders", ("orders",), buffer=BufferConfig(10_000, 60, 5_000_000))
STREAMING = replace(SNOWPIPE, method=Method.SNOWPIPE_STREAMING)


@pytest.mark.parametrize("config", [SNOWPIPE, STREAMING])
def test_an_idle_sink_costs_nothing(config: SinkConfig) -> None:
    assert estimate(config, 0, 0).credits == 0


@pytest.mark.parametrize("rate", [1, 100, 10_000])
def test_a_batch_a_minute_keeps_the_warehouse_awake_around_the_clock(rate: float) -> None:
    assert estimate(SNOWPIPE, rate, rate * 200).credits == pytest.approx(24)


def test_a_longer_flush_time_lets_it_sleep_between_batches() -> None:
    patient = replace(SNOWPIPE, buffer=BufferConfig(10_000, 600, 5_000_000))
    assert estimate(patient, 1, 200).credits == pytest.approx(24 * 62 / 600)
    assert estimate(patient, 1000, 200_000).credits == pytest.approx(24)  # full after ten seconds


def test_a_buffer_full_of_bytes_ends_the_wait_too() -> None:
    patient = replace(SNOWPIPE, buffer=BufferConfig(1_000_000, 3600, 1_000_000))
    assert estimate(patient, 1, 1000).credits == pytest.approx(24 * 62 / 1000)


def test_records_further_apart_than_the_flush_time_count_one_by_one() -> None:
    assert estimate(SNOWPIPE, 1 / 3600, 1).credits == pytest.approx(24 * 62 / 3600)


def test_streaming_pays_for_gigabytes_and_for_moves_of_the_ledger() -> None:
    found = estimate(STREAMING, 1000, 1_000_000)  # Snowflake's example: 1 MB/s is 3.6 GB an hour
    assert found.ingestion == pytest.approx(24 * 3.6 * 0.0037)
    assert found.warehouse == pytest.approx(24 * 62 / 600)
    rarely = replace(STREAMING, streaming=StreamingConfig(ledger_seconds=3600))
    assert estimate(rarely, 1000, 1_000_000).warehouse == pytest.approx(24 * 62 / 3600)


def test_snowpipe_pays_for_no_gigabyte() -> None:
    assert estimate(SNOWPIPE, 1000, 1_000_000).ingestion == 0


def test_without_a_rate_it_says_what_a_slow_one_costs() -> None:
    patient = replace(SNOWPIPE, buffer=BufferConfig(10_000, 600, 5_000_000))
    assert (least(patient).credits, least(patient).at_least) == (estimate(patient, 1, 200).credits, True)
    assert least(STREAMING).warehouse == estimate(STREAMING, 10_000, 1_000_000).warehouse
