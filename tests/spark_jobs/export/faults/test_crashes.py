"""A run that ends between any two steps loses nothing and doubles nothing: the next one continues from the ledger, the
outbox and the marker.

Crashes here are in this process: nothing that the crashed run would have said reaches Snowflake or Kafka. Processes
that are killed for good: tests/e2e/test_export_faults.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from firn.connector.export.config import BatchConfig
from firn.errors import FencedError, FirnError, TerminalError
from firn.exports.ledger import ExportLedger
from firn.exports.markers import MarkerKey, remove_markers
from spark_jobs.export import worker
from spark_jobs.spark.engine import Engine
from tests.spark_jobs.export.conftest import World
from tests.support.export_hooks import armed_export
from tests.support.export_orders import Expected
from tests.support.faults import CrashError, ExportStep, Fault, Interruption, Kind

pytestmark = pytest.mark.stack
SMALL = {"batch": BatchConfig(rows=2)}
OF_KAFKA = (ExportStep.OPENED, ExportStep.BEGUN, ExportStep.BEFORE_COMMIT, ExportStep.COMMITTED)
LOCKED = (
    *(ExportStep.NUMBERED, ExportStep.MOVED, ExportStep.ADVANCED, ExportStep.BEFORE_MOVE_COMMIT),
    *(ExportStep.HELD, ExportStep.HISTORY, ExportStep.DELETED, ExportStep.BEFORE_SETTLE_COMMIT),
)
"""Where a run holds a lock. A newer one waits for its end: tests/firn/exports/test_stream_moves.py."""
OF_SNOWFLAKE = (
    *(ExportStep.MOVE_BEGUN, ExportStep.MOVE_COMMITTED, ExportStep.SETTLE_BEGUN, ExportStep.SETTLED),
    *LOCKED,
)
NOTHING_LEFT = (ExportStep.MOVE_COMMITTED, ExportStep.SETTLED)
"""Where a run has nothing left to do once a newer one has done the rest."""
QUICK = (ExportStep.COMMITTED, ExportStep.MOVED)


def each(steps: Iterable[ExportStep]) -> pytest.MarkDecorator:
    """A test for each of these steps, of which `make test` runs few."""
    chosen = [pytest.param(step, marks=[] if step in QUICK else pytest.mark.full, id=step.name) for step in steps]
    return pytest.mark.parametrize("step", chosen)


@pytest.fixture
def expected(world: World) -> Expected:
    """Orders that are published, and what is to become of them, in batches of two rows."""
    expected = Expected(world, 3)
    world.more = SMALL
    return expected


def test_a_crash_between_any_two_steps_loses_and_doubles_nothing(world: World, tmp_path: Path) -> None:
    """One run after the other: each finds what the one before left behind, and crashes at the next step."""
    expected = Expected(world, 3 * len(ExportStep))
    world.more = SMALL
    for step in ExportStep:
        expected.change()
        fault = Fault(step, Kind.CRASH, str(tmp_path / step.name))
        with armed_export(fault), pytest.raises((FirnError, CrashError)):
            world.run()
        worker.close()
        assert fault.fired == 1, step
    world.run()
    expected.hold()


@pytest.mark.full
@each(ExportStep)
def test_a_crash_at_a_step_shows_no_reader_half_a_batch(
    world: World, expected: Expected, tmp_path: Path, step: ExportStep
) -> None:
    expected.change()
    fault = Fault(step, Kind.CRASH, str(tmp_path), nth=2 if step.name in ("PRODUCED", "MARKED", "COMMITTED") else 1)
    with armed_export(fault), pytest.raises((FirnError, CrashError)):
        world.run()
    worker.close()
    assert fault.fired == 1
    assert expected.has_begun()
    world.run()
    expected.hold()


@each([*OF_SNOWFLAKE, *OF_KAFKA])
def test_a_step_that_is_not_answered_is_done_again_by_the_same_run(
    world: World, expected: Expected, tmp_path: Path, step: ExportStep
) -> None:
    expected.change()
    fault = Fault(step, Kind.SILENT if step in OF_KAFKA else Kind.UNREACHABLE, str(tmp_path))
    with armed_export(fault):
        world.run()
    assert fault.fired == 1
    expected.hold()


@each(step for step in ExportStep if step not in LOCKED)
def test_of_two_exporters_at_once_the_newer_one_goes_on_and_the_older_one_says_why_it_ends(
    world: World, expected: Expected, step: ExportStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one is at any step that holds no lock."""
    expected.change()

    def newer() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(worker, "_sessions", {})
            world.run()

    interruption = Interruption(step, newer)
    with armed_export(interruption):
        if step in NOTHING_LEFT:
            world.run()
        else:
            with pytest.raises(FencedError, match="belongs to a newer run") as raised:
                world.run()
            assert raised.value.exit_code == 5
    assert interruption.fired
    expected.hold()


@pytest.mark.full
@each([ExportStep.PRODUCED, ExportStep.COMMITTED, ExportStep.DELETED])
def test_a_killed_python_worker_is_replaced_within_the_run(
    world: World, expected: Expected, spark: Engine, tmp_path: Path, step: ExportStep
) -> None:
    world.engine = spark
    expected.change()
    fault = Fault(step, Kind.KILL_WORKER, str(tmp_path))
    with armed_export(fault):
        world.run()
    assert fault.fired == 1
    expected.hold()


def test_a_marker_that_is_gone_stops_the_export(world: World) -> None:
    world.run()
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1)")
    world.run()
    standing = ExportLedger(world.schema, world.name).standing(world.connection)
    assert standing is not None
    remove_markers(world.context.kafka, world.config.marker_topic, [MarkerKey(standing.id, "orders", 0)])
    world.sql("INSERT INTO ORDERS VALUES (2, 'new', 1)")
    with pytest.raises(TerminalError, match="The marker of source orders is gone"):
        world.run()


def test_a_run_that_is_asked_to_stop_ends_its_batches_and_says_what_it_did(world: World, expected: Expected) -> None:
    stop = threading.Event()
    expected.change()
    with armed_export(Interruption(ExportStep.MOVED, stop.set)):
        report = world.run(once=False, stop=stop)
    assert (report.epoch, report.moves) == (2, 1)
    world.run()
    expected.hold()
