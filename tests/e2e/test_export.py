"""The round trip: orders in by the sink, the dbt table of their current state, its changes out to `order-status`.

A plain confluent-kafka consumer (read_committed) sees every insert, update and delete once, and in order per key,
though the export's driver is killed twenty times, at moments that a seed chooses.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from firn.registry.login import login_from_secret, registry_client
from firn.secrets import RegistrySecret, read_secret
from firn.settings import PROJECT_ROOT
from firn_local.home import ANALYSTS_LOGIN
from tests.support.export_orders import committed_records
from tests.support.sinks import sql, wait_until
from tests.support.stack import kafka_configuration

pytestmark = [pytest.mark.stack, pytest.mark.full, pytest.mark.timeout(3000)]

KILLS, SEED = 20, 20_261_122
LATEST = "SELECT ORDER_ID, ORDER_STATUS FROM FCT_ORDERS"
ADD = """
INSERT INTO FCT_ORDERS (ORDER_ID, CUSTOMER_ID, ORDER_STATUS, IS_FINAL, ORDER_TOTAL, FIRST_EVENT_AT, LAST_EVENT_AT,
                        EVENT_COUNT, LOADED_AT)
SELECT {new}, CUSTOMER_ID, 'CREATED', IS_FINAL, ORDER_TOTAL, FIRST_EVENT_AT, LAST_EVENT_AT, EVENT_COUNT, LOADED_AT
FROM FCT_ORDERS LIMIT 1
"""
_SPREAD_SECONDS = 4.0
"""From the driver's claim a kill comes within so many seconds: in a move, a Kafka transaction, a settle, or idle."""


class Exporter:
    """One export of FCT_ORDERS, to a topic of the test's own."""

    def __init__(self, stack: Any, folder: Path) -> None:
        self.stack, self.name = stack, f"order-status-{uuid.uuid4().hex[:8]}"
        document = json.loads((PROJECT_ROOT / "connectors/order-status.json").read_text())
        document["name"] = self.name
        document["config"] |= {
            "kafka.topic": self.name,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "batch.max.rows": "20",
        }
        del document["config"]["output.data.format"]
        self.file = folder / f"{self.name}.json"
        self.file.write_text(json.dumps(document))

    def finish(self) -> None:
        """Run until all is published."""
        self.stack.run("export", "run", self.file, "--once", timeout=240)

    def killed(self, chance: random.Random) -> None:
        """Start the driver, and kill it and its tasks some time after its claim."""
        job = subprocess.Popen(
            [sys.executable, "-m", "spark_jobs.export.job", str(self.file)],
            cwd=PROJECT_ROOT,
            env=self.stack.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        claimed = threading.Event()
        threading.Thread(target=_watch, args=(job, claimed), daemon=True).start()
        try:
            assert claimed.wait(180), "the driver claims its export"
            threading.Event().wait(chance.uniform(0, _SPREAD_SECONDS))
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()

    def messages(self) -> dict[str, list[str | None]]:
        """By key, in order: the status, None for a tombstone."""
        found: dict[str, list[str | None]] = defaultdict(list)
        for message in committed_records(kafka_configuration(self.stack.settings), self.name):
            key, value = message.key(), message.value()
            assert key is not None
            found[key.decode()].append(None if value is None else json.loads(value)["ORDER_STATUS"])
        return dict(found)


def _watch(job: subprocess.Popen[str], claimed: threading.Event) -> None:
    """Read the driver's log to its end, and say when it has claimed."""
    assert job.stderr is not None
    for line in job.stderr:
        if '"firn_event":"started"' in line.replace(" ", ""):
            claimed.set()


@pytest.fixture
def exporter(stack, tmp_path: Path) -> Exporter:
    stack.run("pipeline", "--count", "200", "--seed", "7", timeout=400)
    return Exporter(stack, tmp_path)


def test_every_change_arrives_once_and_in_order_through_twenty_kills(stack, exporter: Exporter) -> None:
    # Models belong to the analyst.
    settings = stack.settings.model_copy(update={"snowflake_secret_id": ANALYSTS_LOGIN})
    chance = random.Random(SEED)
    exporter.finish()
    expected: dict[str, list[str | None]] = {str(row["ORDER_ID"]): [row["ORDER_STATUS"]] for row in _rows(stack)}
    assert exporter.messages() == expected
    # No key changes twice: between two moves a stream gives net changes, and a killed run may not have moved.
    untouched = sorted(expected, key=int)
    chance.shuffle(untouched)
    for number in range(KILLS):
        updated, deleted = untouched.pop(), untouched.pop()
        new = str(1_000_000_000 + number)
        status = "SHIPPED" if expected[updated] == ["CANCELLED"] else "CANCELLED"
        sql(settings, f"UPDATE FCT_ORDERS SET ORDER_STATUS = '{status}' WHERE ORDER_ID = {updated}")
        sql(settings, f"DELETE FROM FCT_ORDERS WHERE ORDER_ID = {deleted}")
        sql(settings, ADD.format(new=new))
        expected[updated].append(status)
        expected[deleted].append(None)
        expected[new] = ["CREATED"]
        exporter.killed(chance)
    exporter.finish()
    wait_until(lambda: exporter.messages() == expected, seconds=60, what="each change, once and in its order")
    history = f"SELECT SUM(ROW_COUNT) AS N FROM FIRN_EXPORT_HISTORY WHERE EXPORT = '{exporter.name}'"
    assert int(sql(settings, history)[0]["N"]) == sum(map(len, expected.values()))


def test_what_dbt_changes_in_the_table_of_orders_goes_out(stack, exporter: Exporter) -> None:
    exporter.finish()
    before = exporter.messages()
    stack.run("produce", "--count", "100", "--seed", "8", timeout=120)
    stack.run("sink", "run", "connectors/order-events.json", "--once", timeout=240)
    stack.run("transform", timeout=300)
    exporter.finish()
    after = exporter.messages()
    latest = {str(row["ORDER_ID"]): row["ORDER_STATUS"] for row in _rows(stack)}
    assert {key: states[-1] for key, states in after.items()} == latest
    assert sum(map(len, after.values())) > sum(map(len, before.values()))


def test_the_example_runs_as_it_is(stack) -> None:
    """From the rows of a fresh stack to Avro messages, and its stream is of its own making."""
    stack.run("pipeline", "--count", "200", "--seed", "7", timeout=400)
    stack.run("export", "validate", "connectors/order-status.json", "--live", timeout=120)
    stack.run("export", "run", "connectors/order-status.json", "--once", timeout=240)
    settings = stack.settings
    registry = registry_client(login_from_secret(read_secret(settings, settings.registry_secret_id, RegistrySecret)))
    read = AvroDeserializer(registry)
    context = SerializationContext("order-status", MessageField.VALUE)
    found = {
        message.key(): read(message.value(), context)
        for message in committed_records(kafka_configuration(settings), "order-status")
    }
    assert {key.decode(): value["ORDER_STATUS"] for key, value in found.items() if key and value} == {
        str(row["ORDER_ID"]): row["ORDER_STATUS"] for row in _rows(stack)
    }
    assert all("EVENT_COUNT" not in value for value in found.values())
    assert sql(settings, "SHOW STREAMS LIKE 'FIRN_STREAM_order-status%'")


def _rows(stack: Any) -> list[dict[str, Any]]:
    return sql(stack.settings, LATEST)
