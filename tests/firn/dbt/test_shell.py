"""dbt itself as `firn dbt` starts it: its commands, the line about a contract, and what the catalog says of columns."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from firn.dbt.process import DbtProcess
from firn.dbt.shell import main
from tests.support.dbt import CREATED_AT, Warehouse, copied_project

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="dbt 1.11 does not run on this Python")


@pytest.fixture
def dbt(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command of dbt in this process, which imports it once; gives its exit code."""
    process = DbtProcess(copied_project(tmp_path), tmp_path / "home", warehouse.login, ("STREAMING", "PUBLIC"))
    for name, value in process.shell_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(*arguments: str) -> object:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        return ended.value.code

    run.process = process  # type: ignore[attr-defined]
    return run


def test_a_mart_without_a_contract_is_told_what_to_add(dbt: Any, capfd: pytest.CaptureFixture[str]) -> None:
    model = dbt.process.project / "models/marts/fct_mine.sql"
    model.write_text("select 1 as one")
    assert dbt("run", "--select", "fct_mine") == 1
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line]
    assert line.startswith("Next: fct_mine has no contract: in a .yml file of its folder, add `models:")
    model.with_suffix(".yml").write_text(
        "models: [{name: fct_mine, columns: [{name: one, data_type: 'number(1, 0)'}]}]\n"
    )
    assert dbt("run", "--select", "fct_mine") == 0


def test_dbts_own_exit_codes_and_help(dbt: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert dbt("build", "--help") == 0
    assert "firn dbt build" in capfd.readouterr().out
    assert dbt("build", "--no-such-option") == 2
    assert dbt("ls", "--select", "tag:order_events,config.materialized:view", "--resource-type", "model", "-q") == 0
    assert capfd.readouterr().out.split() == ["firn.firn.order_events.stg_order_events"]


@pytest.mark.full
def test_the_documentation_describes_every_column_with_its_type(dbt: Any) -> None:
    assert dbt("build", "--exclude-resource-type", "test", "--exclude-resource-type", "unit_test") == 0
    assert dbt("docs", "generate") == 0
    target = dbt.process.home / "shell/target"
    manifest = json.loads((target / "manifest.json").read_text())
    catalog = json.loads((target / "catalog.json").read_text())
    tables = catalog["nodes"] | catalog["sources"]
    described = manifest["nodes"] | manifest["sources"]
    missing = {
        f"{name}.{column}"
        for name, table in tables.items()
        for column in table["columns"]
        if not {key.upper(): each for key, each in described[name]["columns"].items()}.get(column, {}).get(
            "description"
        )
    }
    assert not missing
    assert {name.split(".")[-1] for name in tables} >= {"fct_orders", "order_statuses", "order_events"}


@pytest.mark.full
def test_an_analyst_takes_snapshots_and_clones(dbt: Any, warehouse: Warehouse) -> None:
    """What the role of dbt may do beside models: it owns what it makes, in schemas that it makes."""
    (dbt.process.project / "snapshots").mkdir()
    (dbt.process.project / "snapshots/orders.yml").write_text(
        "snapshots: [{name: orders_history, relation: \"ref('fct_orders')\", config: "
        "{schema: history, unique_key: order_id, strategy: check, check_cols: [order_status]}}]\n"
    )
    without_tests = ["--exclude-resource-type", "test", "--exclude-resource-type", "unit_test"]
    for number, status in enumerate(("CREATED", "SHIPPED")):
        warehouse.land(0, number, order_id=1, order_status=status, created_at=CREATED_AT + number)
        assert dbt("build", *without_tests) == 0
    found = warehouse.query("SELECT ORDER_STATUS AS S FROM PUBLIC_HISTORY.ORDERS_HISTORY ORDER BY DBT_VALID_FROM")
    assert [row["S"] for row in found] == ["CREATED", "SHIPPED"]
    state = dbt.process.home / "state"
    state.mkdir()
    shutil.copy(dbt.process.home / "shell/target/manifest.json", state)
    os.environ["FIRN_DBT_SCHEMA"] = "DEV_ANNA"
    assert dbt("clone", "--state", str(state)) == 0
    assert warehouse.query("SELECT ORDER_STATUS AS S FROM DEV_ANNA.FCT_ORDERS") == [{"S": "SHIPPED"}]
