"""dbt against a local Snowflake: what a user of firn.dbt.transform and of the models sees."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from firn.dbt import transform
from firn.dbt.results import (
    NodeResult,
    TransformError,
    TransformInterruptedError,
    TransformResult,
    failure,
    read_result,
)
from firn.dbt.transform import run_dbt
from firn.errors import AuthenticationError, ConfigError, FirnError, TransientError
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="dbt 1.11 does not run on this Python")
CREATED_AT = 1_772_713_815_123  # 2026-03-05 12:30:15.123 UTC


@dataclass
class Warehouse:
    """A local Snowflake with an empty ORDER_EVENTS, and a home for dbt."""

    login: SnowflakeLogin
    settings: Settings

    def build(self, **options: Any) -> TransformResult:
        return run_dbt(self.settings, self.login, **options)

    def query(self, sql: str) -> list[dict[str, Any]]:
        with connect(self.login) as session:
            return query(session, sql)

    def land(self, partition: int, offset: int, *, content: dict[str, Any] | None = None, **order: Any) -> None:
        """One record as the sink writes it; `content={}` is a tombstone."""
        metadata = {
            "topic": "order-events",
            "partition": partition,
            "offset": offset,
            "CreateTime": CREATED_AT + offset,
            "SnowflakeConnectorPushTime": CREATED_AT + 1000,
            "key": str(1000 + offset),
            "schema_id": 0 if content == {} else 1,
            "headers": {"trace": "t-1"},
        }
        value = {
            "order_id": 1000 + offset,
            "customer_id": "cust_abc123",
            "order_status": "CREATED",
            "order_total": 99.99,
            "created_at": CREATED_AT,
        }
        with connect(self.login) as session:
            execute(
                session,
                "INSERT INTO ORDER_EVENTS SELECT PARSE_JSON(?), PARSE_JSON(?)",
                (json.dumps(metadata), json.dumps(value | order if content is None else content)),
            )

    def events(self) -> list[tuple[int, int]]:
        """(partition, offset) of every row of the mart, sorted."""
        rows = self.query("SELECT e.PARTITION AS P, e.OFFSET AS O FROM FCT_ORDER_EVENTS AS e ORDER BY P, O")
        return [(row["P"], row["O"]) for row in rows]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SnowflakeLogin]:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = tmp_path_factory.mktemp("snowflake")
    process = subprocess.Popen(
        [sys.executable, "-m", "firn_local.snowflake", "--port", str(port), "--data-dir", str(data)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_open(process, port)
        yield SnowflakeLogin(
            account="local",
            user="SVC_KAFKA_CONNECTOR",
            role="SVC_KAFKA_CONNECTOR",
            warehouse="INGEST_WH",
            database="STREAMING",
            schema="PUBLIC",
            host="127.0.0.1",
            port=port,
            protocol="http",
            private_key=SecretStr(key.decode()),
        )
    finally:
        process.terminate()
        process.wait(20)


def _wait_until_open(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the local Snowflake ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the local Snowflake did not open its port within 60 s")


def emptied(server: SnowflakeLogin, home: Path) -> Warehouse:
    """The server's tables as they are before any build."""
    with connect(server) as session:
        for statement in (
            "CREATE DATABASE IF NOT EXISTS STREAMING",
            "CREATE SCHEMA IF NOT EXISTS STREAMING.PUBLIC",
            "DROP TABLE IF EXISTS STREAMING.PUBLIC.FCT_ORDER_EVENTS",
            "CREATE OR REPLACE TABLE STREAMING.PUBLIC.ORDER_EVENTS (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)",
        ):
            execute(session, statement)
    return Warehouse(server, Settings(home=home, retry_deadline_seconds=1))


@pytest.fixture
def warehouse(server: SnowflakeLogin, tmp_path: Path) -> Warehouse:
    return emptied(server, tmp_path)


@dataclass
class Builds:
    """Two builds of one warehouse: what they said, what the mart held after each, and which commands ran."""

    warehouse: Warehouse
    results: list[TransformResult]
    events: list[list[tuple[int, int]]]
    commands: list[list[str]]


@pytest.fixture(scope="module")
def builds(server: SnowflakeLogin, tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """A dbt build takes seconds: these two are looked at by several tests."""
    warehouse = emptied(server, tmp_path_factory.mktemp("home"))
    done = Builds(warehouse, [], [], [])
    run = transform.run_child

    def recorded(command: list[str], *rest: Any) -> tuple[int, list[str]]:
        done.commands.append(command)
        return run(command, *rest)

    def build() -> None:
        with patch.object(transform, "run_child", recorded):
            done.results.append(warehouse.build())
        done.events.append(warehouse.events())

    warehouse.land(0, 0, order_total=0.1 + 0.2)
    warehouse.land(0, 1, order_id=1000, order_status="SHIPPED", created_at=CREATED_AT + 60_000)
    warehouse.land(2, 5)
    warehouse.land(0, 2, content={})  # a tombstone carries no event
    warehouse.land(0, 1)  # an at-least-once connector repeats a record
    build()
    warehouse.land(0, 3)
    warehouse.land(1, 0)  # a partition that was silent so far, between two that were not
    warehouse.land(3, 0)  # a partition that is new
    warehouse.land(2, 5)  # repeats what the mart holds
    build()
    return done


@pytest.fixture
def nowhere(tmp_path: Path) -> Warehouse:
    """A login that no test may use: these tests end before dbt starts."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    login = SnowflakeLogin("a", "u", "r", "w", "d", "s", "127.0.0.1", 1, "http", SecretStr(key.decode()))
    return Warehouse(login, Settings(home=tmp_path, retry_deadline_seconds=1))


def test_each_build_adds_what_landed_and_nothing_twice(builds: Builds) -> None:
    assert builds.results[0].counts == {"success": 3, "pass": 10}
    assert builds.events == [[(0, 0), (0, 1), (2, 5)], [(0, 0), (0, 1), (0, 3), (1, 0), (2, 5), (3, 0)]]


def test_the_mart_is_typed(builds: Builds) -> None:
    query = builds.warehouse.query
    columns = {row["name"]: row["type"].split("(")[0] for row in query("DESCRIBE TABLE FCT_ORDER_EVENTS")}
    assert columns["OFFSET"] == "NUMBER"
    assert columns["ORDER_STATUS"] == "VARCHAR"
    assert columns["ORDER_TOTAL"] == "FLOAT"
    assert columns["CREATED_AT"] == "TIMESTAMP_NTZ"
    assert columns["RECORD_KEY"] == "VARCHAR"
    (event,) = query("SELECT * FROM FCT_ORDER_EVENTS AS e WHERE e.PARTITION = 0 AND e.OFFSET = 0")
    assert event["ORDER_TOTAL"] == 0.1 + 0.2
    assert event["KAFKA_TIMESTAMP"].isoformat() == "2026-03-05T12:30:15.123000"
    assert query("SELECT ORDER_STATUS, EVENT_COUNT FROM FCT_ORDERS WHERE ORDER_ID = 1000") == [
        {"ORDER_STATUS": "SHIPPED", "EVENT_COUNT": 4}
    ]


def test_the_key_is_in_no_file_and_no_argument(builds: Builds) -> None:
    warehouse = builds.warehouse
    body = "".join(warehouse.login.private_key.get_secret_value().splitlines()[1:-1])
    pieces = [body[start : start + 40].encode() for start in range(0, len(body) - 40, 40)]
    written = {path: path.read_bytes() for path in warehouse.settings.home.rglob("*") if path.is_file()}
    assert {"run_results.json", "manifest.json", "dbt.log"} <= {path.name for path in written}
    assert not [path for path, text in written.items() if any(piece in text for piece in pieces)]
    assert not any(
        piece in argument.encode() for command in builds.commands for argument in command for piece in pieces
    )


def test_failing_tests_are_named_with_the_rows_to_look_at(builds: Builds) -> None:
    """Of a row without its customer, too: Snowflake refuses it (NOT NULL of the contract), the local one takes it."""
    warehouse = builds.warehouse
    warehouse.land(2, 3)  # below the high water: something removed it from the mart, or wrote out of order
    warehouse.land(0, 8, order_status="LOST")
    warehouse.land(0, 9, customer_id=None)

    with pytest.raises(TransformError) as raised:
        warehouse.build()

    assert "3 of 13 nodes" in raised.value.what
    assert "test accepted_values_fct_order_events_order_status" in raised.value.what
    assert "test fct_order_events_has_no_gap: Got 1 result" in raised.value.what
    assert "customer_id" in raised.value.what.lower()
    assert raised.value.result
    failed = {node.name.split("_fct")[0]: node for node in raised.value.result.failed}
    statement = failed["accepted_values"].query
    assert statement
    assert f'firn sql "$(cat {statement})"' in raised.value.next_step
    assert warehouse.query(statement.read_text())[0]["VALUE_FIELD"] == "LOST"


def test_a_model_that_leaves_its_contract_is_refused(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    shutil.copytree(transform.PROJECT, project, ignore=shutil.ignore_patterns("target", "logs"))
    contract = project / "models/marts/fct_order_events.yml"
    contract.write_text(contract.read_text().replace("data_type: float", "data_type: varchar"))
    monkeypatch.setattr(transform, "PROJECT", project)

    with pytest.raises(TransformError, match="enforced contract that failed") as raised:
        warehouse.build(select="+fct_order_events")

    assert "order_total" in raised.value.what.lower()


def test_nothing_is_written_into_the_checkout(warehouse: Warehouse) -> None:
    with pytest.raises(ConfigError, match="No model or test matches the selection 'no_such_model'"):
        warehouse.build(select="no_such_model")

    assert not [name for name in ("target", "logs", ".user.yml") if (transform.PROJECT / name).exists()]


def test_a_refused_login_ends_before_dbt_starts(nowhere: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AuthenticationError("Snowflake refused the login")

    monkeypatch.setattr(transform, "connect", refuse)
    with pytest.raises(AuthenticationError):
        nowhere.build()
    assert not (nowhere.settings.home / "dbt/logs").exists()


def test_a_python_without_dbt_is_a_configuration_error(nowhere: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform.importlib.metadata.Distribution, "discover", lambda **_query: iter(()))
    with pytest.raises(ConfigError, match="dbt is not installed"):
        nowhere.build()


def test_two_transforms_of_one_home_do_not_mix(nowhere: Warehouse) -> None:
    with (
        transform._only_run(nowhere.settings.home / "dbt"),
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
        "def cli():\n"
        "    try:\n"
        "        print('busy', flush=True)\n"
        "        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print('queries cancelled', flush=True)\n"
    )
    dbt = subprocess.Popen(
        [sys.executable, "-m", "firn.dbt.interruptible"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert dbt.stdout
    assert dbt.stdout.readline() == b"busy\n"

    end(dbt)

    assert dbt.wait(20) == 0
    assert dbt.stdout.read() == b"queries cancelled\n"


def test_a_project_that_does_not_compile_is_a_configuration_error(
    nowhere: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    shutil.copytree(transform.PROJECT, project, ignore=shutil.ignore_patterns("target", "logs"))
    (project / "models/broken.sql").write_text("select * from {{ ref('no_such_model') }}")
    monkeypatch.setattr(transform, "PROJECT", project)
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
