"""Snowflake, the registry and the brokers behind a way that fails: nothing is lost, doubled, or made a dead letter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from firn.connector.export.config import BatchConfig, ExportErrorsConfig, MessageConfig, MessageFormat
from firn.registry.login import login_from_secret
from firn.secrets import RegistrySecret, read_secret
from spark_jobs.export import worker
from tests.spark_jobs.export.conftest import World
from tests.support.export_orders import Expected
from tests.support.toxics import Effect, ToxicProxy, refused_for, toxic_proxy

pytestmark = pytest.mark.stack
COMMIT = '"sqlText": "COMMIT"'
COMMITS = {0: "of the claim", 1: "of the move", 2: "of the settle"}
MOVE, SETTLE = "INSERT INTO", "DELETE FROM"


@pytest.fixture
def expected(world: World) -> Expected:
    """Orders that are published, and what is to become of them, in batches of two rows."""
    expected = Expected(world, 6)
    world.more = {"batch": BatchConfig(rows=2)}
    worker.close()
    return expected


@pytest.fixture
def snowflake(world: World, expected: Expected, monkeypatch: pytest.MonkeyPatch) -> Iterator[ToxicProxy]:
    """A proxy in front of Snowflake, through which the export goes; the driver's own retries give up after a moment."""
    monkeypatch.setattr("firn.snowflake.connection.NETWORK_TIMEOUT_SECONDS", 5)
    monkeypatch.setattr("snowflake.connector.network.DEFAULT_SOCKET_CONNECT_TIMEOUT", 2)
    login = world.local.login
    with toxic_proxy(f"{login.protocol}://{login.host}:{login.port}") as proxy:
        world.local = replace(world.local, login=replace(login, port=proxy.port))
        yield proxy
    worker.close()


@pytest.mark.parametrize(
    "effect", [Effect.UNAVAILABLE, pytest.param(Effect.TOO_MANY, marks=pytest.mark.full)], ids=["503", "429"]
)
def test_answers_that_refuse_for_now_are_waited_out(
    world: World, expected: Expected, snowflake: ToxicProxy, effect: Effect
) -> None:
    expected.change()
    toxics = [snowflake.add(effect, text, times=1) for text in ("login-request", MOVE, SETTLE)]
    world.run()
    assert [toxic.fired for toxic in toxics] == [1, 1, 1]
    expected.hold()


@pytest.mark.full
@pytest.mark.parametrize("text", [MOVE, SETTLE], ids=["move", "settle"])
def test_a_statement_that_is_never_answered_is_given_up_and_done_again(
    world: World, expected: Expected, snowflake: ToxicProxy, text: str
) -> None:
    expected.change()
    toxic = snowflake.add(Effect.HANG, text, times=1, for_good=True)
    world.run()
    assert toxic.fired == 1
    expected.hold()


@pytest.mark.parametrize("effect", [Effect.LOST_ANSWER, Effect.CUT], ids=["committed", "not-committed"])
@pytest.mark.parametrize(
    "commit", [pytest.param(n, marks=[] if n == 1 else pytest.mark.full, id=COMMITS[n]) for n in COMMITS]
)
def test_a_lost_answer_to_commit_is_resolved_by_claiming_again(
    world: World, expected: Expected, snowflake: ToxicProxy, effect: Effect, commit: int
) -> None:
    expected.change()
    lost = snowflake.add(effect, COMMIT, skip=commit, times=1, for_good=True)
    report = world.run()
    assert lost.fired == 1
    # Of two claims the first one took its epoch only where it was committed.
    assert report.epoch == (2 if commit == 0 and effect is Effect.CUT else 3)
    expected.hold()


def test_a_registry_that_is_away_for_a_while_makes_no_dead_letter(world: World) -> None:
    login = login_from_secret(read_secret(world.settings, world.settings.registry_secret_id, RegistrySecret))
    letters = ExportErrorsConfig("all", dead_letter_topic=f"{world.name}-letters", dead_letter_replication=1)
    with toxic_proxy(login.urls[0]) as proxy:
        world.registry = replace(login, urls=(proxy.address,))
        world.more = {"value": MessageConfig(MessageFormat.AVRO), "errors": letters}
        world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1), (2, 'new', 2)")
        fails = proxy.add(Effect.UNAVAILABLE, "/subjects/", times=2)
        with refused_for(proxy, 2.0):
            report = world.run()
    assert fails.fired == 2
    assert (report.rows, report.letters, len(world.messages())) == (2, 0, 2)
    assert world.waiting() == 0
