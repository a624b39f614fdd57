"""A row that the SELECT of a user's pipe cannot take: found within its batch, named, and left out or stopped at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from firn.errors import BadRecordError, TransientError
from firn.settings import Settings
from spark_jobs.sink.methods.snowpipe import refused_rows
from spark_jobs.sink.methods.snowpipe.refused_rows import RowSearch
from spark_jobs.sink.run import SinkRun
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, sql
from tests.support.snowflake import admin_sql

pytestmark = pytest.mark.stack
NewRun = Callable[..., SinkRun]
TYPED = JSON | {"snowflake__enable__schematization": "true"}


def piped(settings: Settings, name: str) -> Topic:
    """A topic whose pipe takes numbers alone."""
    topic = Topic(settings, name)
    sql(settings, f"CREATE TABLE {topic.table}_T (P NUMBER, O NUMBER, ID NUMBER)")
    pipe = f"{settings.snowflake_database}.{settings.snowflake_schema}.{topic.table}"
    admin_sql(
        settings,
        f"CREATE PIPE {pipe} AS COPY INTO {topic.table}_T FROM (SELECT $1:RECORD_METADATA.partition::NUMBER, "
        "$1:RECORD_METADATA.offset::NUMBER, $1:id::NUMBER FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
        f"GRANT MONITOR ON PIPE {pipe} TO ROLE SVC_KAFKA_CONNECTOR",
    )
    return topic


def records(*ids: Any) -> list[bytes]:
    return [json.dumps({"id": each}).encode() for each in ids]


def landed(settings: Settings, topic: Topic) -> list[tuple[int, int]]:
    found = sql(settings, f"SELECT P, O FROM {topic.table}_T ORDER BY P, O")
    return [(int(row["P"]), int(row["O"])) for row in found]


def tolerant(letters: Topic) -> dict[str, str]:
    return {"errors__tolerance": "all", "errors__deadletterqueue__topic__name": letters.name, **TYPED}


def test_tolerance_all_leaves_the_row_out_and_makes_it_a_dead_letter(
    settings: Settings, new_run: NewRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refused_rows, "MAX_TRIES", 20)  # less than this batch needs: it goes on where it stopped
    topic, letters = piped(settings, "refusing"), Topic(settings, "refused", partitions=1)
    topic.send(records(*range(40), "x", *range(20), "y", "z"))
    topic.send(records(1, "w"), partition=1)
    report = new_run(topic, **tolerant(letters)).run()
    bad = {(0, 40), (0, 61), (0, 62), (1, 1)}
    every = [(0, offset) for offset in range(63)] + [(1, 0), (1, 1)]
    assert landed(settings, topic) == [each for each in every if each not in bad]
    assert sorted(letter.value() for letter in letters.read()) == sorted(records("x", "y", "z", "w"))
    assert committed(settings, topic) == {0: 63, 1: 2}
    assert report.records == 61
    for partition, offset in bad:
        assert f"{topic.name}-{partition}, offset {offset}: The SELECT of the pipe cannot take a value" in caplog.text


def test_tolerance_none_stops_in_front_of_the_row_and_names_it(settings: Settings, new_run: NewRun) -> None:
    topic = piped(settings, "strictly")
    topic.send(records(1, 2, 3, "x", 5, "y"))
    with pytest.raises(BadRecordError, match="rejected_by_snowflake") as raised:
        new_run(topic, **TYPED).run()
    assert "offset 3" in f"{raised.value}"
    assert landed(settings, topic) == [(0, 0), (0, 1), (0, 2)]
    assert committed(settings, topic)[0] == 3


def test_a_run_that_dies_in_the_search_loses_and_doubles_nothing(
    settings: Settings, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, letters = piped(settings, "dying"), Topic(settings, "letters", partitions=1)
    topic.send(records(1, 2, "x", 4, 5, 6))
    tried, tries = RowSearch._try, []

    def die(*args: Any) -> str | None:
        tries.append(args[-2:])
        if len(tries) == 3:
            raise KeyboardInterrupt
        return tried(*args)

    with monkeypatch.context() as dying:
        dying.setattr(RowSearch, "_try", die)
        with pytest.raises(BaseException):  # noqa: B017, PT011
            new_run(topic, **tolerant(letters)).run()
    assert len(tries) == 3
    assert landed(settings, topic) == []
    new_run(topic, **tolerant(letters)).run()
    assert landed(settings, topic) == [(0, 0), (0, 1), (0, 3), (0, 4), (0, 5)]
    assert [letter.value() for letter in letters.read()] == records("x")


def test_a_search_that_fails_is_begun_again(
    settings: Settings, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = piped(settings, "failing")
    topic.send(records(1, "x", 3))
    tried, failures = RowSearch._try, [TransientError("injected")]

    def fail_once(*args: Any) -> str | None:
        if failures:
            raise failures.pop()
        return tried(*args)

    monkeypatch.setattr(RowSearch, "_try", fail_once)
    assert new_run(topic, errors__tolerance="all", **TYPED).run().bad_records == 1
    assert landed(settings, topic) == [(0, 0), (0, 2)]
