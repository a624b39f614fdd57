"""Before positions are set or a name is retired: a run that lives is seen by its signs, and doubt is no proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from firn.connector.config import SinkConfig
from firn.errors import FirnError, PrivilegeError, TransientError
from firn.kafka import cluster
from firn.ledger.owner import Owner, SinkRunsError
from firn.operations import stillness
from firn.operations.offsets import running_within
from firn.operations.stillness import UnknownLifeError, await_stillness
from firn.sinks.signs import Sign, Signs

CONFIG = SinkConfig("orders", heartbeat_seconds=30)
WITHIN = running_within(CONFIG)
HELD = Owner(4, "run", 3600.0)
FIRST = Sign(4, 7, datetime(2026, 1, 1, tzinfo=UTC))
CLIENT: Any = object()


class Group:
    """The group of signs over time; each second of the clock passes by a look."""

    def __init__(self, sign_at: Callable[[float], Sign | FirnError | None]) -> None:
        self.now, self._sign_at, self.said = 0.0, sign_at, list[str]()

    def read(self) -> Signs:
        found = self._sign_at(self.now)
        if isinstance(found, FirnError):
            raise found
        return Signs(found, {})

    def sleep(self, seconds: float) -> None:
        self.now += seconds


Waits = Callable[..., tuple[float, Group]]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    def wait(
        sign_at: Callable[[float], Sign | FirnError | None],
        owner: Owner | None = HELD,
        config: SinkConfig = CONFIG,
        client: Any = CLIENT,
        *,
        force: bool = False,
    ) -> tuple[float, Group]:
        group = Group(sign_at)
        monkeypatch.setattr(cluster, "admin_client", lambda _client: None)
        monkeypatch.setattr(stillness, "reader", lambda *_: group)
        watched = {"say": group.said.append, "clock": lambda: group.now, "sleep": group.sleep}
        return await_stillness(config, owner, "id", client, force=force, **watched), group

    return wait


def test_two_intervals_without_a_sign_are_enough_whatever_the_stamps_say(waits: Waits) -> None:
    within, group = waits(lambda _now: FIRST)
    assert 60 < group.now <= 70
    assert within == group.now  # who claimed since then is seen by the ledger's own check
    assert group.said == ["A run holds the sink and may live: waiting 65 s for a sign of life."]


@pytest.mark.parametrize("at", [1.0, 29.0, 58.0])
def test_a_sign_that_changes_refuses_at_once(waits: Waits, at: float) -> None:
    with pytest.raises(SinkRunsError, match="sign of life just now"):
        waits(lambda now: FIRST if now < at else replace(FIRST, counter=8), force=True)


def test_a_run_that_takes_over_meanwhile_refuses(waits: Waits) -> None:
    with pytest.raises(SinkRunsError):
        waits(lambda now: FIRST if now < 10 else replace(FIRST, epoch=5, counter=1))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "Kafka has no sign of it"),
        (replace(FIRST, epoch=3), "Kafka has no sign of it"),
        (PrivilegeError("Kafka does not allow this."), "does not allow this"),
        (TransientError("Kafka does not answer."), "does not answer"),
    ],
)
def test_absent_means_unknown_and_unknown_refuses_unless_it_is_forced(
    waits: Waits, found: Sign | FirnError | None, why: str
) -> None:
    with pytest.raises(UnknownLifeError, match=why) as refused:
        waits(lambda _now: found)
    assert "--force" in refused.value.next_step
    within, group = waits(lambda _now: found, force=True)
    assert (within, group.now) == (0.0, 0.0)


def test_a_kafka_that_fails_meanwhile_is_no_silence(waits: Waits) -> None:
    with pytest.raises(UnknownLifeError):
        waits(lambda now: FIRST if now < 40 else TransientError("away"))


def test_without_a_look_at_kafka_nobody_can_say(waits: Waits) -> None:
    with pytest.raises(UnknownLifeError, match="Kafka was not asked"):
        waits(lambda _now: FIRST, client=None)


@pytest.mark.parametrize(
    ("owner", "config"),
    [
        (None, CONFIG),
        (replace(HELD, run_id=""), CONFIG),  # it ended in order
        (replace(HELD, silent_seconds=5), CONFIG),  # the ledger's own check refuses
        (HELD, replace(CONFIG, heartbeat_seconds=0)),  # there are no signs
    ],
)
def test_where_the_ledger_itself_tells_nobody_waits(waits: Waits, owner: Owner | None, config: SinkConfig) -> None:
    within, group = waits(lambda _now: None, owner, config)
    assert (within, group.now, group.said) == (running_within(config), 0.0, [])
