"""Real drivers of an export that are killed, stopped and asked to end between any two steps of its protocol."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from tests.support.export_orders import TABLE, Expected, committed_records
from tests.support.faults import ExportStep, Fault, Kind
from tests.support.faults_checks import own_schema
from tests.support.faults_jobs import END_SECONDS, EXPORT, job, run
from tests.support.sinks import sql, wait_until
from tests.support.stack import kafka_configuration

pytestmark = [pytest.mark.stack, pytest.mark.full]
FENCED = 5
LOCKED = ("NUMBERED", "MOVED", "ADVANCED", "BEFORE_MOVE_COMMIT", "HELD", "HISTORY", "DELETED", "BEFORE_SETTLE_COMMIT")
"""Where a run holds a lock, for which others wait in vain while it is stopped."""


class Orders:
    """ORDERS in a schema of its own, and the export of its changes by processes of the main program."""

    def __init__(self, stack: Any, folder: Path) -> None:
        self.stack, self.settings = stack, own_schema(stack.settings)
        self.name = f"faults-{uuid.uuid4().hex[:8]}"
        config = {
            "connector.class": "firn.SnowflakeExport",
            "snowflake.schema.name": self.settings.snowflake_schema,
            "snowflake.table.name": "ORDERS",
            "message.key.columns": "ID",
            "kafka.topic": self.name,
            "output.data.format": "JSON",
            "output.key.format": "STRING",
            "firn.export.marker.topic": f"{self.name}-markers",
            "batch.max.rows": "2",
            "poll.interval.ms": "1000",
        }
        self.file = folder / f"{self.name}.json"
        self.file.write_text(json.dumps({"name": self.name, "config": config}))
        self.sql(TABLE)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Rows of a statement in the schema."""
        return sql(self.settings, statement)

    def run(self, *faults: Fault) -> int:
        """Run the export until all is published; its exit code, negative for a signal."""
        return run(self.stack, self.file, *faults, program=EXPORT)

    def messages(self) -> Sequence[Message]:
        """All committed records of its topic."""
        return list(committed_records(kafka_configuration(self.settings), self.name))

    def waiting(self) -> int:
        """Rows that wait in its outbox."""
        return int(self.sql(f'SELECT COUNT(*) AS N FROM "FIRN_OUTBOX_{self.name}/{self.name}"')[0]["N"])

    def history(self) -> Sequence[dict[str, Any]]:
        """Its FIRN_EXPORT_HISTORY."""
        return self.sql("SELECT * FROM FIRN_EXPORT_HISTORY")


@pytest.fixture
def orders(stack: Any, tmp_path: Path) -> Orders:
    return Orders(stack, tmp_path)


@pytest.mark.parametrize("step", ExportStep, ids=lambda step: step.name)
def test_a_driver_killed_between_two_steps_loses_and_doubles_nothing(
    orders: Orders, tmp_path: Path, step: ExportStep
) -> None:
    expected = Expected(orders, 3)
    expected.change()
    fault = Fault(step, Kind.KILL, str(tmp_path / "fault"))
    assert orders.run(fault) == -signal.SIGKILL
    assert fault.fired
    assert orders.run() == 0
    expected.hold()


@pytest.mark.parametrize("step", [each for each in ExportStep if each.name not in LOCKED], ids=lambda step: step.name)
def test_a_stopped_driver_wakes_up_fenced_and_publishes_nothing(
    orders: Orders, tmp_path: Path, step: ExportStep
) -> None:
    """Its tasks are no less zombies, and go on before it does."""
    expected = Expected(orders, 6)
    expected.change()
    fault = Fault(step, Kind.STOP, str(tmp_path / "fault"))
    with job(orders.stack, orders.file, fault, program=EXPORT) as zombie:
        wait_until(lambda: fault.fired, seconds=120, what="the driver is stopped")
        assert orders.run() == 0
        expected.hold()
        expected.change()  # something that the zombie could take
        zombie.send_signal(signal.SIGCONT)
        assert zombie.wait(END_SECONDS) == FENCED
    assert orders.run() == 0
    expected.hold()


@pytest.mark.parametrize(
    "step", [ExportStep.MOVED, ExportStep.PRODUCED, ExportStep.DELETED], ids=lambda step: step.name
)
def test_a_driver_that_is_asked_to_end_ends_with_whole_batches(
    orders: Orders, tmp_path: Path, step: ExportStep
) -> None:
    expected = Expected(orders, 6)
    expected.change()
    fault = Fault(step, Kind.TERM, str(tmp_path / "fault"))
    with job(orders.stack, orders.file, fault, once=False, program=EXPORT) as process:
        assert process.wait(END_SECONDS) == 0
    assert fault.fired
    assert expected.has_begun()
    assert orders.run() == 0
    expected.hold()


def test_two_first_starts_at_once_publish_every_row_once(orders: Orders) -> None:
    """One wins; the other one ends fenced, or after it because nothing is left to do."""
    orders.sql("INSERT INTO ORDERS SELECT SEQ4(), 'new', 1 FROM TABLE(GENERATOR(ROWCOUNT => 100))")
    with (
        job(orders.stack, orders.file, program=EXPORT) as one,
        job(orders.stack, orders.file, program=EXPORT) as other,
    ):
        codes = {one.wait(END_SECONDS), other.wait(END_SECONDS)}
    assert codes <= {0, FENCED}
    assert 0 in codes
    keys = [message.key() for message in orders.messages()]
    assert sorted(keys) == sorted(str(number).encode() for number in range(100))
    assert orders.waiting() == 0
