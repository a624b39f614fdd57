"""The flow behind the deployment sink/sink-control: it makes a request of a sink, and returns and logs what follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.ledger.control import ControlTable, requester
from firn.ledger.control_record import DesiredState, State
from firn.settings import load_settings
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import Namespace
from flows.sink_control import sink_control
from tests.support.sinks import login_of
from tests.support.snowflake import schema_of_its_own

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def schema(stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with schema_of_its_own(stack.settings, "CONTROL") as name:
        monkeypatch.setenv("FIRN_HOME", str(stack.home))
        monkeypatch.setenv("FIRN_SNOWFLAKE_SCHEMA", name)
        load_settings.cache_clear()
        yield name


def test_each_action_returns_what_it_requested_and_what_follows(stack, schema: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.json"
    file.write_text(json.dumps({"name": "orders", "config": {"topics": "orders"}}))
    for action, desired in (("pause", "paused"), ("stop", "stopped"), ("resume", "running")):
        done = sink_control(config=file, action=action)  # type: ignore[arg-type]
        assert (done.name, done.action, done.desired_state, done.requested_by) == (
            "orders",
            action,
            DesiredState(desired),
            requester(),
        )
        assert done.state_before in (State.STOPPED, State.PAUSED)
        assert f"firn sink {'run' if action == 'resume' else 'resume'} {file}" in str(done)
        with connect(login_of(stack.settings)) as connection:
            record = ControlTable(Namespace("STREAMING", schema), "orders").read(connection)
        assert record
        assert (record.desired, record.desired_by) == (done.desired_state, requester())
