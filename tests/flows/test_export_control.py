"""The flows behind the deployments of exports: a run once or supervised, and requests of an export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from prefect.exceptions import CancelledRun

from firn.errors import TerminalError
from firn.exports import names
from firn.ledger.control import ControlTable, requester
from firn.ledger.control_record import DesiredState
from firn.operations.exports.run_report import ExportReport
from firn.settings import load_settings
from firn.snowflake.connection import connect, execute
from firn.snowflake.identifiers import Namespace
from firn.supervisor.job import Result
from flows import export as module
from flows.export_control import export_control
from tests.support.sinks import login_of
from tests.support.snowflake import schema_of_its_own

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def schema(stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with schema_of_its_own(stack.settings, "CONTROL") as name:
        monkeypatch.setenv("FIRN_HOME", str(stack.home))
        monkeypatch.setenv("FIRN_SNOWFLAKE_SCHEMA", name)
        load_settings.cache_clear()
        with connect(replace(login_of(stack.settings), schema=name)) as connection:
            execute(connection, "CREATE TABLE T (ID NUMBER(5, 0))")
        yield name


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders-out.json"
    config = {
        "mode": "incrementing",
        "snowflake.table.name": "T",
        "incrementing.column.name": "ID",
        "kafka.topic": "t",
    }
    path.write_text(json.dumps({"name": "orders-out", "config": config}))
    return path


def test_each_action_returns_what_it_requested_and_what_follows(stack, schema: str, file: Path) -> None:
    for action, desired in (("pause", "paused"), ("stop", "stopped"), ("resume", "running")):
        done = export_control(config=file, action=action)  # type: ignore[arg-type]
        assert (done.kind, done.name, done.action, done.desired_state, done.requested_by) == (
            "export",
            "orders-out",
            action,
            DesiredState(desired),
            requester(),
        )
        assert f"firn export {'run' if action == 'resume' else 'resume'} {file}" in str(done)
        with connect(login_of(stack.settings)) as connection:
            table = ControlTable(Namespace("STREAMING", schema), names.control_name("orders-out"))
            record = table.read(connection)
        assert record
        assert (record.desired, record.desired_by) == (done.desired_state, requester())


def test_once_runs_the_job_to_its_end_and_returns_its_report(
    schema: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Mock(return_value=Result("ended", report={"export": "orders-out", "epoch": 2, "rows": 5}))
    monkeypatch.setattr(module, "run_once", once)
    report = module.export(config=file, once=True)
    assert (report.export, report.epoch, report.rows) == ("orders-out", 2, 5)
    (place,) = once.call_args.args
    assert (place.name, place.config, place.deployed) == ("orders-out", file, False)


def test_without_once_it_is_supervised_by_the_policy_of_its_parameters(
    schema: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervise = Mock(return_value=Result("ended", report=ExportReport("orders-out").as_dict()))
    monkeypatch.setattr(module, "supervise", supervise)
    module.export(config=file, once=False, keep_alive=True, restarts=3, lag_seconds=60.0, stall_seconds=11.0)
    policy = supervise.call_args.args[1]
    assert (policy.restarts, policy.lag_seconds, policy.patience.stall) == (3, 60.0, 11.0)


def test_a_run_that_was_cancelled_or_failed_is_so_in_prefect(
    schema: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_once", Mock(return_value=Result("cancelled", sentence="Cancelled by a person.")))
    with pytest.raises(CancelledRun):
        module.export(config=file, once=True)
    failed = Result("failed", error=TerminalError("The stream is stale."))
    monkeypatch.setattr(module, "run_once", Mock(return_value=failed))
    with pytest.raises(TerminalError, match="stale"):
        module.export(config=file, once=True)
