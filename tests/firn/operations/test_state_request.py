"""A request of a desired state is written down, also where nobody can look at the sink."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from firn.connector.config import SinkConfig
from firn.errors import FirnError, TransientError
from firn.ledger.control_record import DesiredState, State
from firn.operations import state_request
from firn.operations.state_request import controlled_sink, request_state
from firn.sinks.context import SinkContext

SLOW = TransientError("Snowflake did not answer within 30 s.", where="FIRN_OFFSETS", next_step="Try again.")
CONTEXT = cast(SinkContext, SimpleNamespace(config=SinkConfig("orders"), login=None, namespace=None))


class FakeControlTable:
    """FIRN_SINKS as a list of requests."""

    requests: list[DesiredState]

    def __init__(self, _namespace: object, _sink: str) -> None:
        pass

    def ensure(self, _connection: object) -> None:
        pass

    def request(self, _connection: object, desired: DesiredState, _by: str) -> None:
        self.requests.append(desired)


class BlindObserver:
    """One whose looks at the ledger meet an error."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def ask_snowflake(self) -> Any:
        raise self._fault

    def announce_request(self) -> None:
        """There is no ledger to say in whose groups."""


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[DesiredState]:
    FakeControlTable.requests = []
    monkeypatch.setattr(state_request, "ControlTable", FakeControlTable)
    monkeypatch.setattr(state_request, "connect", lambda *_, **__: nullcontext())
    return FakeControlTable.requests


@pytest.mark.parametrize(
    ("action", "desired", "said"),
    [
        ("pause", DesiredState.PAUSED, "If it runs, its supervisor reads the request within 30 s;"),
        ("stop", DesiredState.STOPPED, "Nothing starts it again before `firn sink resume o.json`."),
        ("resume", DesiredState.RUNNING, "If no supervisor runs, start the sink with `firn sink run o.json`,"),
    ],
)
def test_a_sink_that_cannot_be_seen_is_requested_all_the_same(
    requests: list[DesiredState], action: str, desired: DesiredState, said: str
) -> None:
    done = request_state(controlled_sink(CONTEXT, BlindObserver(SLOW)), action, "o.json")
    assert requests == [desired]
    assert (done.desired_state, done.state_before) == (desired, State.UNKNOWN)
    assert "cannot be seen: Snowflake did not answer within 30 s. (FIRN_OFFSETS)" in str(done)
    assert said in str(done)


def test_an_error_of_the_request_itself_is_raised(
    requests: list[DesiredState], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SLOW

    monkeypatch.setattr(FakeControlTable, "request", refuse)
    with pytest.raises(FirnError):
        request_state(controlled_sink(CONTEXT, BlindObserver(SLOW)), "stop", "o.json")
    assert requests == []
