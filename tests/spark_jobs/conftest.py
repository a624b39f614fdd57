"""One Spark context for all tests of Spark jobs, and sinks that run in it against the embedded stack."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from firn.connector.parse import parse_sink_config
from firn.settings import Settings
from firn.sinks.context import resolve
from spark_jobs.sink.run import SinkRun
from spark_jobs.sink.spark.engine import Engine, SparkEngine
from spark_jobs.sink.spark.session import spark_context
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
