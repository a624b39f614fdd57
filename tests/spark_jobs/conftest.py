"""One Spark context for all tests of Spark jobs, and sinks that run in it against the embedded stack."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from firn.connector.parse import load_sink_config, parse_sink_config
from firn.connector.references import Resolver
from firn.operations.run_report import RunReport
from firn.secrets import secret_reader
from firn.settings import Settings
from firn.sinks.context import resolve
from spark_jobs.sink.run import SinkRun
from spark_jobs.spark.engine import Engine, SparkEngine
from spark_jobs.spark.session import spark_context
from tests.support.kafka import Topic
from tests.support.sinks import connector


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[Engine]:
    """The Spark engine of this test run."""
    context = spark_context(settings, "tests")
    yield SparkEngine(context, "tests")
    context.stop()


@pytest.fixture
def new_run(spark: Engine, settings: Settings) -> Callable[..., SinkRun]:
    """Makes a run of a topic's sink: new_run(topic, once=False, **parameters)."""

    def make(topic: Topic, *, once: bool = True, stop: threading.Event | None = None, **parameters: str) -> SinkRun:
        config = parse_sink_config(connector(topic, **parameters), where="test")
        return SinkRun(resolve(config, settings), spark, once=once, stop=stop or threading.Event())

    return make


@pytest.fixture
def sinks_here(spark: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """`firn sink run` within this process (`tests.support.commands`) runs its sink here, too, without Prefect."""

    def run(config: Path, *, once: bool) -> RunReport:
        context = resolve(load_sink_config(config, Resolver(secret_reader(settings))), settings)
        return SinkRun(context, spark, once=once, stop=threading.Event()).run()

    monkeypatch.setattr("flows.cli.sink.run.run_sink", run)
