"""What a sink's own statements cost on the warehouse meter: an idle hour, a trickle, a backlog; hours in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from benchmarks.metered_sink import Account, MeteredSink, account, sink
from firn.connector.config import BufferConfig, Method, SinkConfig, StreamingConfig
from firn.ledger.control_record import DesiredState
from firn.ledger.requests import RequestTable
from firn.snowflake.connection import connect
from firn_local.snowflake.metering.usage import Usage

HOUR = 3600.0
SNOWPIPE = SinkConfig("idle", ("idle-topic",), buffer=BufferConfig(10_000, 600))
STREAMING = replace(SNOWPIPE, method=Method.SNOWPIPE_STREAMING, streaming=StreamingConfig(ledger_seconds=600))


@pytest.fixture(scope="module")
def metered() -> Iterator[Account]:
    """One account for all sinks."""
    with account() as made:
        yield made


@contextmanager
def running(on: Account, config: SinkConfig, name: str) -> Iterator[MeteredSink]:
    """A sink with a topic of its own, that has claimed an hour ago."""
    with sink(on, replace(config, name=name, topics=(f"{name}-topic",))) as made:
        yield made


@contextmanager
def measured(on: Account) -> Iterator[list[Usage]]:
    """What is used until the end, and in the minute after it, in the list."""
    before, found = on.meter.usage(), list[Usage]()
    yield found
    on.clock.advance(60)
    found.append(on.meter.usage() - before)


@pytest.mark.parametrize("config", [SNOWPIPE, STREAMING], ids=lambda config: config.method)
def test_an_idle_hour_wakes_no_warehouse(metered: Account, config: SinkConfig) -> None:
    with running(metered, config, f"idle-{config.method}") as idle, measured(metered) as used:
        if config.method is Method.SNOWPIPE:
            assert idle.batches(0, HOUR, batch_seconds=1) == 0
        else:
            assert idle.moves_of_the_ledger(0, HOUR) == 0
    assert used[0].compute_credits == 0
    assert used[0].resumes == 0


def test_a_supervisor_that_looks_for_requests_every_half_minute_wakes_no_warehouse(metered: Account) -> None:
    with running(metered, SNOWPIPE, "supervised") as idle, connect(metered.login) as connection:
        requests = RequestTable(idle.context.namespace, "supervised")
        requests.ensure(connection)
        requests.request(connection, DesiredState.RUNNING, "me")
        assert requests.read(connection) is not None  # the one that Snowflake computes
        metered.clock.advance(HOUR)
        with measured(metered) as used:
            for _ in range(40):
                metered.clock.advance(30)
                requests.read(connection)
        assert used[0].resumes == 0
        since = metered.clock.now
        requests.request(connection, DesiredState.PAUSED, "me")  # what a person wants costs a minute
        found = requests.read(connection)
        assert found is not None
        assert found.desired is DesiredState.PAUSED
        assert len(metered.meter.resumed_by(since=since)) == 1


def test_an_hour_of_a_record_a_second_wakes_it_once_a_batch(metered: Account) -> None:
    with running(metered, SNOWPIPE, "trickle") as trickle, measured(metered) as used:
        since = metered.clock.now
        assert trickle.batches(1, HOUR, batch_seconds=1) == 6
    assert used[0].seconds == 6 * 60
    assert used[0].compute_credits == pytest.approx(0.1)
    assert {query.tag for query in metered.meter.resumed_by(since=since)} == {"firn sink trickle"}
    assert all(query.text.startswith("COPY INTO") for query in metered.meter.resumed_by(since=since))


def test_streaming_wakes_it_once_a_move_of_the_ledger_whatever_the_rate(metered: Account) -> None:
    for name, rate in (("slow", 1.0), ("fast", 10_000.0)):
        with running(metered, STREAMING, name) as streaming, measured(metered) as used:
            assert streaming.moves_of_the_ledger(rate, HOUR) == 6
        assert used[0].seconds == 6 * 60
        assert used[0].compute_credits == pytest.approx(0.1)


def test_a_backlog_keeps_it_awake_for_as_long_as_it_takes(metered: Account) -> None:
    config = replace(SNOWPIPE, batch_records=60_000)
    with running(metered, config, "backlog") as backlog, measured(metered) as used:
        backlog.produced = 240_000
        assert backlog.batches(0, 60, batch_seconds=10) == 4
        assert set(backlog.ledger.committed.values()) == {80_000}
    assert used[0].resumes == 1
    assert used[0].seconds == pytest.approx(3 * 10 + 60)


def test_tasks_that_look_at_the_ledger_ride_on_the_claim(metered: Account) -> None:
    since = metered.clock.now
    with running(metered, STREAMING, "tasks"):
        pass
    looks = [query for query in metered.meter.queries(since=since) if "FIRN_OFFSETS WHERE SINK = 'tasks'" in query.text]
    assert len(looks) >= 4  # the claim's own, and one a task
    assert [str(query.compute) for query in looks[-3:]] == ["PERSISTED RESULT"] * 3
