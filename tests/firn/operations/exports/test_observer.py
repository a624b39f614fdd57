"""Looks at an export from outside: what waits and since when, who holds it, what is desired; and what a look costs."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from firn.errors import TransientError
from firn.exports import names
from firn.exports.outbox import waiting
from firn.ledger.control import ControlTable
from firn.ledger.control_record import DesiredState, State
from firn.operations.exports import observer as observing
from firn.operations.exports.observer import ASK_SECONDS, UNMOVED, pace_of_export
from firn.operations.health import diagnose_job
from firn.operations.observation import Depth
from firn.snowflake.connection import execute


def test_before_its_first_run_an_export_has_no_owner_and_its_source_is_unmoved(
    connection, export, new_observer
) -> None:
    execute(connection, "INSERT INTO ORDERS VALUES (1, 'new')")
    found = new_observer().look()
    (source,) = found.partitions
    assert (found.owner, found.record, found.desired) == (None, None, DesiredState.RUNNING)
    assert (source.table, source.topic, source.state, source.lag) == ("orders", "order-status", UNMOVED, 1)


def test_lag_is_the_age_of_the_oldest_change_that_waits_in_the_outbox(connection, export, new_observer) -> None:
    export.start()
    execute(connection, "INSERT INTO ORDERS VALUES (1, 'new'), (2, 'new')")
    moved = export.move()
    execute(connection, f"UPDATE {export.source.outbox} SET MOVED_AT = DATEADD(HOUR, -2, MOVED_AT)")
    oldest = waiting(connection, export.source).oldest
    observer = new_observer()
    found = observer.look()
    (source,) = found.partitions
    assert (source.lag, source.next_offset, source.end_offset) == (2, moved.first_batch, moved.last_batch + 1)
    assert source.lag_seconds == pytest.approx((found.at - oldest).total_seconds(), abs=0.01)

    export.settle()
    assert observer.look(Depth.KAFKA).partitions[0].lag == 2, "without a sign of the run nobody asks Snowflake again"
    assert observer.look(Depth.LEDGER).partitions[0].lag == 0


def test_a_sign_of_a_move_makes_the_next_look_ask_snowflake(connection, export, new_observer, kafka) -> None:
    export.start()
    observer = new_observer()
    kafka.sign(export.claimed.epoch, 1)
    observer.look()
    execute(connection, "INSERT INTO ORDERS VALUES (1, 'new')")
    export.move()
    kafka.sign(export.claimed.epoch, 2, moves=1)
    assert observer.look(Depth.KAFKA).partitions[0].lag == 1


def test_the_owner_lives_by_its_signs_and_is_gone_once_it_ended(connection, export, new_observer, kafka) -> None:
    now = [1000.0]
    export.start()
    observer = new_observer(clock=lambda: now[0])
    kafka.sign(export.claimed.epoch, 1)
    observer.look()
    now[0] += 80
    assert observer.look().owner.runs(90)
    now[0] += 80
    assert not observer.look().owner.runs(90)
    kafka.sign(export.claimed.epoch, 2)
    assert observer.look().owner.runs(90)
    kafka.sign(export.claimed.epoch, 3, ended=True)
    assert observer.look().owner.run_id == ""


def test_what_people_want_is_read_with_the_ledger(connection, export, new_observer) -> None:
    export.start()
    table = ControlTable(export.namespace, names.control_name(export.config.name))
    table.ensure(connection)
    table.request(connection, DesiredState.PAUSED, "ann@laptop")
    found = new_observer().look()
    assert (found.desired, found.record.desired_by) == (DesiredState.PAUSED, "ann@laptop")
    diagnosis = diagnose_job(pace_of_export(export.config), found)
    assert diagnosis.state is State.RUNNING, "the run that claimed lives"
    assert "Pause requested by ann@laptop" in diagnosis.reason


def test_looking_at_an_export_that_does_nothing_wakes_no_warehouse(
    connection, export, new_observer, kafka, local
) -> None:
    """By the meter: looks that are hours apart, after one that filled the results that persist."""
    now = [0.0]
    export.start()
    observer = new_observer(clock=lambda: now[0])
    kafka.sign(export.claimed.epoch, 1)
    observer.look()
    local.snowflake.account.clock.advance(3600)
    before = local.snowflake.meter.usage()
    for number in range(2, 6):
        now[0] += 2 * ASK_SECONDS
        kafka.sign(export.claimed.epoch, number)
        assert observer.look().partitions[0].state == "ok"
        observer.ask_snowflake()
    used = local.used(before)
    assert (used.resumes, used.seconds) == (0, 0)


def test_a_look_after_one_that_failed_begins_with_a_new_session(connection, export, new_observer) -> None:
    export.start()
    observer = new_observer()
    observer.look()
    with (
        patch.object(observing, "discover", side_effect=TransientError("The line is cut.")),
        pytest.raises(TransientError),
    ):
        observer.look()
    assert observer.remembered() is not None
    assert observer.look().partitions
