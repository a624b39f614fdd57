"""Snowflake and the registry behind a proxy that fails: nothing is lost, doubled, or taken for a bad record."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from firn.connector.config import Method
from firn.settings import Settings
from spark_jobs.sink.run import SinkRun
from tests.support.faults_checks import NewRun, exactly_once, of_schema
from tests.support.kafka import Topic, framed
from tests.support.sinks import JSON, login_of
from tests.support.toxics import Effect, ToxicProxy, refused_for, toxic_proxy

pytestmark = pytest.mark.stack

SCHEMA = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}
COMMIT = '"sqlText": "COMMIT"'


@pytest.fixture
def snowflake(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToxicProxy]:
    """A proxy in front of Snowflake; the driver's own retries give up after a moment."""
    monkeypatch.setattr("firn.snowflake.connection.NETWORK_TIMEOUT_SECONDS", 5)
    login = login_of(settings)
    with toxic_proxy(f"{login.protocol}://{login.host}:{login.port}") as proxy:
        yield proxy


def through(run: SinkRun, proxy: ToxicProxy) -> SinkRun:
    """The same run, whose way to Snowflake leads through the proxy."""
    login = dataclasses.replace(run._context.login, host="127.0.0.1", port=proxy.port)
    run._context = dataclasses.replace(run._context, login=login)
    return run


STATEMENTS = {Method.SNOWPIPE: ("PUT ", "COPY INTO"), Method.SNOWPIPE_STREAMING: ("SHOW PIPES", "NEXT_OFFSET = MOVED")}
"""Some that a run sends, the last one in the transaction that moves the ledger."""


@pytest.mark.both_methods
def test_answers_of_503_are_waited_out(
    settings: Settings, new_run: NewRun, snowflake: ToxicProxy, ingestion_method: Method
) -> None:
    topic = Topic(settings, "busy")
    topic.send([b"1"] * 10)
    texts = ("login-request", *STATEMENTS[ingestion_method])
    toxics = [snowflake.add(Effect.UNAVAILABLE, text, times=1) for text in texts]
    through(new_run(topic, **JSON), snowflake).run()
    assert [toxic.fired for toxic in toxics] == [1, 1, 1]
    exactly_once(settings, topic, {0: 10})


@pytest.mark.both_methods
def test_a_statement_that_is_never_answered_is_given_up_and_done_again(
    settings: Settings,
    new_run: NewRun,
    snowflake: ToxicProxy,
    monkeypatch: pytest.MonkeyPatch,
    ingestion_method: Method,
) -> None:
    topic = Topic(settings, "hang")
    topic.send([b"1"] * 10)
    monkeypatch.setattr("snowflake.connector.network.DEFAULT_SOCKET_CONNECT_TIMEOUT", 2)
    toxic = snowflake.add(Effect.HANG, STATEMENTS[ingestion_method][-1], times=1, for_good=True)
    through(new_run(topic, **JSON), snowflake).run()
    assert toxic.fired == 1
    exactly_once(settings, topic, {0: 10})


@pytest.mark.parametrize(
    "effect",
    [
        pytest.param(Effect.LOST_ANSWER, id="committed"),
        pytest.param(Effect.CUT, id="not-committed", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize(
    ("ingestion_method", "commit", "epoch"),
    [
        (Method.SNOWPIPE, 2, 2),
        *(
            pytest.param(method, commit, epoch, marks=pytest.mark.full)
            for method, commit, epoch in (
                (Method.SNOWPIPE, 0, 2),
                (Method.SNOWPIPE, 1, 2),
                (Method.SNOWPIPE_STREAMING, 0, 2),
                (Method.SNOWPIPE_STREAMING, 1, 2),
                (Method.SNOWPIPE_STREAMING, 2, 2),
                (Method.SNOWPIPE_STREAMING, 3, 3),  # of the orderly end, which raises the epoch before
            )
        ),
    ],
    indirect=["ingestion_method"],
)
def test_a_lost_answer_to_commit_is_resolved_by_claiming_again(
    own_ledger: Settings,
    new_run: NewRun,
    snowflake: ToxicProxy,
    ingestion_method: Method,
    effect: Effect,
    commit: int,
    epoch: int,
) -> None:
    """The first two are those of the claim."""
    topic = Topic(own_ledger, "doubt")
    topic.send([b"1"] * 10)
    lost = snowflake.add(effect, COMMIT, skip=commit, times=1, for_good=True)
    report = through(new_run(topic, **of_schema(own_ledger), **JSON), snowflake).run()
    raised = not (commit == 0 and effect is Effect.CUT)
    assert (lost.fired, report.epoch) == (1, epoch if raised else 1)
    exactly_once(own_ledger, topic, {0: 10})


@pytest.mark.both_methods
def test_a_registry_that_is_away_for_a_while_makes_no_bad_record(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "registry")
    topic.send(framed(topic.register(SCHEMA), SCHEMA, ({"id": n} for n in range(10))))
    run = new_run(topic, errors__tolerance="all")
    with toxic_proxy(run._context.value_registry.urls[0]) as proxy:
        registry = dataclasses.replace(run._context.value_registry, urls=(proxy.address,))
        run._context = dataclasses.replace(run._context, value_registry=registry)
        fails = proxy.add(Effect.UNAVAILABLE, "/schemas/ids/", times=2)
        with refused_for(proxy, 2.0):
            run.run()
    assert fails.fired == 2
    exactly_once(settings, topic, {0: 10})
