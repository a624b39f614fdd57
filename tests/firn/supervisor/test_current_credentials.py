"""A supervisor's looks: what Snowflake said in a look is known though Kafka did not answer it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from firn.errors import FirnError, TerminalError, TransientError
from firn.ledger.control_record import ControlRecord, DesiredState
from firn.operations.observation import Depth, Observation
from firn.supervisor.current_credentials import CurrentObserver

SAID = Observation(datetime.now(UTC), (), None, DesiredState.STOPPED, ControlRecord("s", DesiredState.STOPPED, "ann"))


class Blind:
    """An observer whose Kafka, or Snowflake too, meets a fault."""

    kafka: FirnError = TransientError("Kafka does not answer.")
    snowflake: FirnError | None = None
    closed = 0
    asked: Depth | None = None
    asks: ClassVar[list[Depth]] = []

    def ask_snowflake(self, depth: Depth) -> Observation:
        self.asked, self.asks = None, [*self.asks, depth]
        if self.snowflake:
            raise self.snowflake
        self.asked = depth
        return SAID

    def remembered(self) -> Observation:
        return SAID

    def look(self, depth: Depth) -> Observation:
        self.asked = depth
        if depth:
            self.ask_snowflake(depth)
        raise self.kafka

    def close(self) -> None:
        Blind.closed += 1


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> CurrentObserver:
    monkeypatch.setattr(Blind, "closed", 0)
    return CurrentObserver(Blind)


def test_what_is_wanted_is_known_though_kafka_does_not_answer(looks: CurrentObserver) -> None:
    seen = looks.look()
    assert (seen.desired, seen.partitions, seen.unseen) == (DesiredState.STOPPED, (), Blind.kafka)


def test_while_kafka_fails_every_look_asks_what_is_wanted(looks: CurrentObserver) -> None:
    assert [looks.look(Depth.KAFKA).desired for _ in range(3)] == [DesiredState.STOPPED] * 3
    assert isinstance(looks._observer, Blind)
    assert looks._observer.asks == [Depth.REQUESTS] * 3


def test_a_look_that_snowflake_does_not_answer_raises(looks: CurrentObserver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blind, "snowflake", TransientError("Snowflake does not answer."))
    with pytest.raises(TransientError, match="Snowflake"):
        looks.look()


@pytest.mark.parametrize("refuses", ["kafka", "snowflake"])
def test_a_refused_login_is_read_anew_for_the_next_look(
    refuses: str, looks: CurrentObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Blind, refuses, TerminalError("Login refused."))
    seen: Any = None
    try:
        seen = looks.look()
    except TerminalError:
        assert refuses == "snowflake"
    assert (seen is None) == (refuses == "snowflake")
    assert Blind.closed == 1
