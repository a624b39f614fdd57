"""What happens between the tasks of a batch and its commit: Spark fails over it, or its topic is made again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from firn.connector.parse import parse_sink_config
from firn.errors import TerminalError, TransientError
from firn.ledger.positions import LostPositionError
from firn.settings import Settings
from firn.sinks.context import resolve
from spark_jobs.sink.run import SAME_FAILURES, SinkRun
from spark_jobs.spark.engine import Engine, EngineFailedError, EngineLostError
from tests.support.faults_checks import exactly_once
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, connector, landed, wait_until

pytestmark = pytest.mark.stack


class Meddled:
    """An engine after whose jobs something happens."""

    def __init__(self, engine: Engine, after: Callable[[int], object]) -> None:
        self._engine, self._after = engine, after
        self.jobs = 0

    @property
    def slots(self) -> int:
        return self._engine.slots

    def run(self, task: Callable[[Iterator[Any]], Iterator[str]], groups: Sequence[Any]) -> list[str]:
        self.jobs += 1
        answer = self._engine.run(task, groups)
        self._after(self.jobs)
        return answer

    def cancel(self) -> None:
        self._engine.cancel()


def run_with(settings: Settings, topic: Topic, engine: Engine) -> SinkRun:
    context = resolve(parse_sink_config(connector(topic, **JSON), where="test"), settings)
    return SinkRun(context, engine, once=True, stop=threading.Event())


def fail(_job: int) -> None:
    raise EngineFailedError("Spark failed: nobody knows why", next_step="See Spark's log.")


def test_what_spark_fails_over_again_and_again_ends_the_run_and_is_named(settings: Settings, spark: Engine) -> None:
    topic, engine = Topic(settings, "spark"), Meddled(spark, fail)
    topic.send([b"1"] * 5)
    topic.send([b"1"] * 7, partition=1)
    with pytest.raises(TerminalError, match="3 times in a row") as raised:
        run_with(settings, topic, engine).run()
    assert engine.jobs == SAME_FAILURES == 3
    assert f"{topic.name}-0 offsets 0 to 4, {topic.name}-1 offsets 0 to 6" in raised.value.where
    assert "nobody knows why" in raised.value.what
    assert sum(committed(settings, topic).values()) == 0


def test_what_spark_fails_over_once_is_read_again(settings: Settings, spark: Engine) -> None:
    topic = Topic(settings, "once")
    topic.send([b"1"] * 5)
    engine = Meddled(spark, lambda job: fail(job) if job < SAME_FAILURES else None)
    assert run_with(settings, topic, engine).run().records == 5
    exactly_once(settings, topic, {0: 5})


def test_a_topic_that_is_made_again_while_it_is_read_commits_nothing(settings: Settings, spark: Engine) -> None:
    topic = Topic(settings, "midway", partitions=1)
    topic.send([b"1"] * 5)

    def make_again(_job: int) -> None:
        topic.delete()
        wait_until(topic.try_make, what="topic made again")
        topic.send([b"2"] * 9)

    with pytest.raises(LostPositionError, match="the topic was deleted and made again"):
        run_with(settings, topic, Meddled(spark, make_again)).run()
    assert committed(settings, topic) == {0: 0}
    assert landed(settings, topic) == []


def test_a_jvm_that_does_not_answer_ends_the_process_for_another(settings: Settings, spark: Engine) -> None:
    def lose(_job: int) -> None:
        raise EngineLostError("Spark's JVM has ended, or was killed.")

    topic, engine = Topic(settings, "lost"), Meddled(spark, lose)
    topic.send([b"1"] * 5)
    with pytest.raises(TransientError, match="JVM has ended") as raised:
        run_with(settings, topic, engine).run()
    assert (engine.jobs, raised.value.exit_code) == (1, 4)
