"""Real drivers that are killed, stopped and asked to end between any two steps of the commit protocol."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from firn.connector.config import Method
from tests.support.faults import Fault, Kind, Step, passages_of
from tests.support.faults_checks import agrees, exactly_once, landed_once
from tests.support.faults_jobs import END_SECONDS, job, run
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, connector_file, login_of, wait_until
from tests.support.toxics import Effect, toxic_proxy

pytestmark = pytest.mark.stack

FENCED, TRANSIENT = 5, 4
STREAMING = Method.SNOWPIPE_STREAMING
IN_BATCHES = [step for step, _ in passages_of(Method.SNOWPIPE) if step not in (Step.TAKEN, Step.CLAIMED)]


def test_a_driver_killed_inside_its_transaction_loses_and_doubles_nothing(stack, tmp_path: Path) -> None:
    topic = Topic(stack.settings, "killed")
    file = connector_file(tmp_path, topic, firn__batch__records="20", **JSON)
    topic.send([b"1"] * 30)
    topic.send([b"2"] * 30, partition=1)
    fault = Fault(Step.COPIED, Kind.KILL, str(tmp_path / "fault"), nth=2)
    assert run(stack, file, fault) == -signal.SIGKILL
    assert fault.fired
    wait_until(lambda: agrees(stack.settings, topic), what="what was open is rolled back")
    assert sum(committed(stack.settings, topic).values()) == 20
    assert run(stack, file) == 0
    exactly_once(stack.settings, topic, {0: 30, 1: 30})


@pytest.mark.full
@pytest.mark.parametrize(
    ("ingestion_method", "step", "nth"),
    [
        *((Method.SNOWPIPE, step, 2 if step in IN_BATCHES else 1) for step, _ in passages_of(Method.SNOWPIPE)),
        *((STREAMING, step, nth) for step, nth in passages_of(STREAMING)),
    ],
    indirect=["ingestion_method"],
)
def test_a_driver_killed_between_two_steps_loses_and_doubles_nothing(
    stack, tmp_path: Path, ingestion_method: Method, step: Step, nth: int
) -> None:
    topic = Topic(stack.settings, "kill")
    file = connector_file(tmp_path, topic, firn__batch__records="20", **JSON)
    topic.send([b"1"] * 30)
    topic.send([b"2"] * 30, partition=1)
    fault = Fault(step, Kind.KILL, str(tmp_path / "fault"), nth)
    assert run(stack, file, fault) == -signal.SIGKILL
    assert fault.fired
    wait_until(lambda: agrees(stack.settings, topic), what="what was open is rolled back")
    assert run(stack, file) == 0
    exactly_once(stack.settings, topic, {0: 30, 1: 30})


@pytest.mark.full
@pytest.mark.parametrize(
    ("ingestion_method", "step"),
    [
        *((Method.SNOWPIPE, step) for step in (Step.PUT, Step.DISPATCHED, Step.COPIED, Step.COMMITTED)),
        *((STREAMING, step) for step in (Step.TAKEN, Step.OPENED, Step.APPENDED, Step.DISPATCHED, Step.SEALED)),
    ],
    indirect=["ingestion_method"],
)
def test_a_stopped_driver_wakes_up_fenced_and_writes_nothing(
    stack, tmp_path: Path, ingestion_method: Method, step: Step
) -> None:
    """With streaming its tasks are no less zombies, and go on before it does."""
    topic = Topic(stack.settings, "zombie")
    file = connector_file(tmp_path, topic, **JSON)
    topic.send([b"1"] * 10)
    fault = Fault(step, Kind.STOP, str(tmp_path / "fault"))
    with job(stack, file, fault) as zombie:
        wait_until(lambda: fault.fired, seconds=120, what="the driver is stopped")
        topic.send([b"2"] * 10)
        assert run(stack, file) == 0
        exactly_once(stack.settings, topic, {0: 20})
        topic.send([b"3"] * 10)  # something that the zombie could take
        zombie.send_signal(signal.SIGCONT)
        code = zombie.wait(END_SECONDS)
    assert code == FENCED
    assert committed(stack.settings, topic) == {0: 20, 1: 0}
    assert agrees(stack.settings, topic)
    assert run(stack, file) == 0
    exactly_once(stack.settings, topic, {0: 30})


@pytest.mark.full
@pytest.mark.parametrize("ingestion_method", [STREAMING], indirect=True)
def test_a_driver_that_is_asked_to_end_while_rows_are_on_their_way_knows_them(
    stack, tmp_path: Path, ingestion_method: Method
) -> None:
    """Its ledger is at the last row that became one, without another claim."""
    topic = Topic(stack.settings, "asked", partitions=1)
    file = connector_file(tmp_path, topic, **JSON)
    topic.send([b"1"] * 60)
    assert run(stack, file, Fault(Step.APPENDED, Kind.TERM, str(tmp_path / "fault"))) == 0
    taken = committed(stack.settings, topic)[0]
    exactly_once(stack.settings, topic, {0: taken} if taken else {})
    assert run(stack, file) == 0
    exactly_once(stack.settings, topic, {0: 60})


@pytest.mark.full
def test_a_driver_that_is_asked_to_end_in_mid_batch_ends_it_and_then_itself(stack, tmp_path: Path) -> None:
    topic = Topic(stack.settings, "asked", partitions=1)
    file = connector_file(tmp_path, topic, firn__batch__records="20", **JSON)
    topic.send([b"1"] * 60)
    assert run(stack, file, Fault(Step.COPIED, Kind.TERM, str(tmp_path / "fault"))) == 0
    taken = committed(stack.settings, topic)[0]
    assert taken in (20, 40)  # whole batches, and not all of them
    exactly_once(stack.settings, topic, {0: taken})
    assert run(stack, file) == 0
    exactly_once(stack.settings, topic, {0: 60})


@pytest.mark.both_methods
@pytest.mark.full
def test_two_first_starts_at_once_land_every_record_once(stack, tmp_path: Path) -> None:
    topic = Topic(stack.settings, "twins")
    file = connector_file(tmp_path, topic, firn__batch__records="20", **JSON)
    topic.send([b"1"] * 60)
    topic.send([b"2"] * 60, partition=1)
    with job(stack, file) as one, job(stack, file) as other:
        codes = {one.wait(END_SECONDS), other.wait(END_SECONDS)}
    assert codes <= {0, FENCED}
    assert 0 in codes
    landed_once(stack.settings, topic, {0: 60, 1: 60})
    assert run(stack, file) == 0  # and what the loser staged meanwhile goes at the next start
    exactly_once(stack.settings, topic, {0: 60, 1: 60})


@pytest.mark.full
def test_a_batch_that_hangs_on_snowflake_is_abandoned_when_the_sink_is_asked_to_end(stack, tmp_path: Path) -> None:
    topic = Topic(stack.settings, "hang")
    topic.send([b"1"] * 10)
    login = login_of(stack.settings)
    with toxic_proxy(f"{login.protocol}://{login.host}:{login.port}") as proxy:
        hanging = proxy.add(Effect.HANG, "COPY INTO")
        through = {"snowflake__url__name": proxy.address}
        with job(stack, connector_file(tmp_path, topic, **through, **JSON)) as process:
            wait_until(lambda: hanging.fired, seconds=120, what="the batch hangs")
            process.send_signal(signal.SIGTERM)
            code = process.wait(100)
    assert code in (0, TRANSIENT)
    assert agrees(stack.settings, topic)
    assert run(stack, connector_file(tmp_path, topic, **JSON)) == 0
    exactly_once(stack.settings, topic, {0: 10})
