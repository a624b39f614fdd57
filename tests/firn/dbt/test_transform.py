"""`run_dbt` against a local Snowflake: what a user of firn.dbt.transform sees. What the models give: test_models."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firn.dbt import process, transform
from firn.dbt.results import (
    NodeResult,
    TransformError,
    TransformInterruptedError,
    TransformResult,
    failure,
    read_result,
)
from firn.errors import AuthenticationError, ConfigError, FirnError, TransientError
from tests.support.dbt import Warehouse, copied_project

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="dbt 1.11 does not run on this Python")


def test_failing_tests_are_named_with_the_rows_to_look_at_the_key_is_nowhere_and_the_checkout_stays_clean(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    run = process.run_child

    def recorded(command: list[str], *rest: Any) -> tuple[int, list[str]]:
        commands.append(command)
        return run(command, *rest)

    monkeypatch.setattr(process, "run_child", recorded)
    warehouse.land(0, 8, order_status="LOST")
    warehouse.land(0, 9, customer_id=None)

    with pytest.raises(TransformError) as raised:
        warehouse.build(select="+fct_order_events")

    assert "test accepted_values_stg_order_events_order_status" in raised.value.what
    assert "test not_null_stg_order_events_customer_id: Got 1 result" in raised.value.what
    assert raised.value.result
    failed = {node.name.split("_stg")[0]: node for node in raised.value.result.failed}
    statement = failed["accepted_values"].query
    assert statement
    assert f'firn sql "$(cat {statement})"' in raised.value.next_step
    assert warehouse.query(statement.read_text())[0]["VALUE_FIELD"] == "LOST"
    # What breaks its schema does not reach the mart.
    (mart,) = [node for node in raised.value.result.nodes if node.name == "fct_order_events"]
    assert mart.status == "skipped"
    _assert_key_is_nowhere(warehouse, commands)
    assert not [name for name in ("target", "logs", ".user.yml") if (process.PROJECT / name).exists()]  # the checkout


def _assert_key_is_nowhere(warehouse: Warehouse, commands: list[list[str]]) -> None:
    """In no file that dbt left, and in no argument of its process."""
    body = "".join(warehouse.login.private_key.get_secret_value().splitlines()[1:-1])
    pieces = [body[start : start + 40].encode() for start in range(0, len(body) - 40, 40)]
    written = {path: path.read_bytes() for path in warehouse.settings.home.rglob("*") if path.is_file()}
    assert {"run_results.json", "manifest.json", "dbt.log"} <= {path.name for path in written}
    assert not [path for path, text in written.items() if any(piece in text for piece in pieces)]
    assert not any(piece in argument.encode() for command in commands for argument in command for piece in pieces)


def test_a_model_that_leaves_its_contract_is_refused(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = copied_project(tmp_path)
    contract = project / "models/firn/order_events/_order_events__marts.yml"
    contract.write_text(contract.read_text().replace("data_type: float", "data_type: varchar"))
    monkeypatch.setattr(process, "PROJECT", project)

    with pytest.raises(TransformError, match="enforced contract that failed") as raised:
        warehouse.build(select="stg_order_events,resource_type:model fct_order_events,resource_type:model")

    assert "order_total" in raised.value.what.lower()


def test_a_refused_login_ends_before_dbt_starts(nowhere: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AuthenticationError("Snowflake refused the login")

    monkeypatch.setattr(transform, "connect", refuse)
    with pytest.raises(AuthenticationError):
        nowhere.build()
    assert not (nowhere.settings.home / "dbt/logs").exists()


def test_a_python_without_dbt_is_a_configuration_error(nowhere: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.importlib.metadata.Distribution, "discover", lambda **_query: iter(()))
    with pytest.raises(ConfigError, match="dbt is not installed"):
        nowhere.build()


def test_two_transforms_of_one_home_do_not_mix(nowhere: Warehouse) -> None:
    with (
        process.only_run(nowhere.settings.home / "dbt"),
        pytest.raises(TransientError, match="Another transform is running"),
    ):
        nowhere.build()


@pytest.mark.parametrize("end", [lambda dbt: dbt.terminate(), lambda dbt: dbt.stdin.close()], ids=["TERM", "orphan"])
def test_dbt_is_interrupted_when_told_to_stop_or_left_alone(end: Callable[[Any], None], tmp_path: Path) -> None:
    """An interrupt, unlike a plain TERM, makes dbt cancel its queries in Snowflake."""
    package = tmp_path / "dbt" / "cli"
    package.mkdir(parents=True)
    for directory in (package, package.parent):
        (directory / "__init__.py").touch()
    (package / "main.py").write_text(
        "import time\n"
        "class dbtRunner:\n"
        "    def __init__(self, manifest, callbacks):\n"
        "        pass\n"
        "    def invoke(self, command):\n"
        "        try:\n"
        "            print('busy', flush=True)\n"
        "            time.sleep(60)\n"
        "        except KeyboardInterrupt:\n"
        "            print('queries cancelled', flush=True)\n"
        "            raise SystemExit(0) from None\n"
    )
    dbt = subprocess.Popen(
        [sys.executable, "-m", "firn.dbt.child", '[["build"]]'],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert dbt.stdout
    assert dbt.stdout.readline() == b"busy\n"

    end(dbt)

    assert dbt.wait(20) == 0
    assert dbt.stdout.read() == b"queries cancelled\n"


@pytest.mark.full
def test_a_project_that_does_not_compile_is_a_configuration_error(
    nowhere: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = copied_project(tmp_path)
    (project / "models/broken.sql").write_text("select * from {{ ref('no_such_model') }}")
    monkeypatch.setattr(process, "PROJECT", project)
    monkeypatch.setattr(transform, "_check_login", lambda _: None)

    with pytest.raises(ConfigError, match="no_such_model"):
        nowhere.build()


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Database Error\n  250003 (n/a): Failed to execute request", TransformInterruptedError),
        ("Runtime Error\n  290503: HTTP 503: Service Unavailable", TransformInterruptedError),
        ("Database Error\n  100132 (P0000): order 250003: is not valid", TransformError),
    ],
)
def test_a_lost_connection_is_worth_another_try(message: str, kind: type[FirnError]) -> None:
    node = NodeResult("fct_order_events", "model", "error", None, 0.1, message)
    assert type(failure(TransformResult((node,)), "STREAMING.PUBLIC")) is kind


def test_rows_are_those_that_the_statement_wrote(tmp_path: Path) -> None:
    def result(name: str, answer: dict[str, int]) -> dict[str, Any]:
        return {
            "unique_id": name,
            "status": "success",
            "message": "SUCCESS 1",
            "execution_time": 0.123,
            "adapter_response": answer,
        }

    nodes = {name: {"name": name, "resource_type": "model"} for name in ("merged", "viewed")}
    (tmp_path / "manifest.json").write_text(json.dumps({"nodes": nodes}))
    answers = [
        result("merged", {"rows_affected": 7, "rows_inserted": 5, "rows_updated": 2}),
        result("viewed", {"rows_affected": 1}),
    ]
    (tmp_path / "run_results.json").write_text(json.dumps({"results": answers}))

    assert [node.rows for node in read_result(tmp_path).nodes] == [7, None]


def test_a_mart_without_a_contract_says_what_to_add() -> None:
    said = "Compilation Error\n  This model has an enforced contract, and its 'columns' specification is missing"
    error = failure(TransformResult((NodeResult("fct_mine", "model", "error", None, 0.1, said),)), "STREAMING.PUBLIC")
    assert error.next_step.startswith("fct_mine has no contract: in a .yml file of its folder, add `models:")
    assert "\n" not in error.next_step
