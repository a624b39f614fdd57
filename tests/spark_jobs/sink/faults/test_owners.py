"""Several drivers of one sink, and several sinks of one table: one writer at a time, and the older ends for good."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from firn.errors import FencedError, TerminalError
from firn.settings import Settings
from tests.support.faults_checks import NewRun, exactly_once, going_on, landed_once, until_records
from tests.support.kafka import Topic
from tests.support.sinks import JSON, landed

pytestmark = pytest.mark.stack


@pytest.mark.both_methods
def test_two_first_starts_at_once_land_every_record_once(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "twins")
    topic.send([b"1"] * 40)
    topic.send([b"2"] * 20, partition=1)
    runs = [new_run(topic, firn__batch__records="20", **JSON) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        ended = [pool.submit(run.run) for run in runs]
        errors = [done.exception(120) for done in ended]
    assert None in errors
    assert all(error is None or isinstance(error, FencedError) for error in errors)
    landed_once(settings, topic, {0: 40, 1: 20})  # what the loser staged meanwhile goes at the next start


@pytest.mark.both_methods
def test_the_older_of_two_drivers_ends_within_seconds_also_when_idle(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "zombie")
    topic.send([b"1"] * 5)
    with going_on(new_run, topic, firn__heartbeat__seconds="1", **JSON) as (older, done):
        until_records(older, done, 5)
        assert new_run(topic, **JSON).run().epoch == older.report.epoch + 1
        with pytest.raises(FencedError, match="newer run") as raised:
            done.result(15)
    assert raised.value.exit_code == 5
    topic.send([b"2"] * 5)
    new_run(topic, **JSON).run()
    exactly_once(settings, topic, {0: 10})


@pytest.mark.both_methods
def test_a_second_sink_on_a_topic_and_table_is_refused_unless_it_is_forced(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "second")
    topic.send([b"1"] * 5)
    new_run(topic, **JSON).run()
    other = f"other_{topic.table}"
    with pytest.raises(TerminalError, match=f"s_{topic.table}") as raised:
        new_run(topic, name=other, **JSON).run()
    assert "firn.share.target" in str(raised.value)
    assert landed(settings, topic) == [(0, n) for n in range(5)]
    new_run(topic, name=other, firn__share__target="true", **JSON).run()
    assert landed(settings, topic) == sorted([(0, n) for n in range(5)] * 2)
