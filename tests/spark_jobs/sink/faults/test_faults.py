"""Crashes between any two steps of the commit protocol, lost workers, a full disk and a moved clock.

Crashes here are of threads, in the shared Spark session: nothing that the crashed run would have said reaches
Snowflake. Processes that are killed for good: tests/e2e/test_faults.py.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firn.connector.config import Method
from firn.errors import FirnError, TransientError
from firn.settings import Settings
from firn.snowflake.connection import connect, execute, open_connection
from tests.support.faults import OF_TASKS, CrashError, Fault, Interruption, Kind, Step, passages_of
from tests.support.faults_checks import NewRun, agrees, exactly_once, impatient, of_schema
from tests.support.faults_hooks import armed
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, landed, login_of, sql, wait_until

pytestmark = pytest.mark.stack

DAY = 86_400.0
BEFORE_COMMIT = [step for step in Step if list(Step).index(step) < list(Step).index(Step.COMMITTED)]


@pytest.mark.both_methods
def test_a_crash_between_any_two_steps_loses_and_doubles_nothing(
    settings: Settings, new_run: NewRun, tmp_path: Path, ingestion_method: Method
) -> None:
    """One run after the other: each finds what the one before left behind, and crashes at the next step."""
    topic = Topic(settings, "crash")
    crashes = [each for each in passages_of(ingestion_method) if each[0] is not Step.WRITING]
    for number, (step, nth) in enumerate(crashes, start=1):
        topic.send([b"1"] * 10)
        topic.send([b"2"] * 5, partition=1)
        fault = Fault(step, Kind.CRASH, str(tmp_path / f"{step.name}-{nth}"), nth)
        with armed(fault), pytest.raises((FirnError, CrashError)):
            new_run(topic, **JSON).run()
        assert fault.fired == 1, step
        assert agrees(settings, topic), step
        before = sum(committed(settings, topic).values())
        if ingestion_method is Method.SNOWPIPE:
            assert before == (0 if step in BEFORE_COMMIT else 15 * number), step
        elif step in (Step.SEALED, Step.SETTLED):
            assert before == 15 * number, step
    topic.send([b"3"])
    new_run(topic, **JSON).run()
    exactly_once(settings, topic, {0: 10 * len(crashes) + 1, 1: 5 * len(crashes)})


@pytest.mark.both_methods
@pytest.mark.parametrize(
    "step", [Step.LETTERS, *(pytest.param(s, marks=pytest.mark.full) for s in (Step.BEFORE_LETTERS, Step.COMMITTED))]
)
def test_a_crash_around_dead_letters_publishes_each_once(
    settings: Settings, new_run: NewRun, tmp_path: Path, step: Step
) -> None:
    topic = Topic(settings, "letter", partitions=1)
    letters = Topic(settings, "dlq", partitions=1)
    topic.send([b"1", b"{", b"2", b"}"])
    tolerant = {"errors__tolerance": "all", "errors__deadletterqueue__topic__name": letters.name, **JSON}
    fault = Fault(step, Kind.CRASH, str(tmp_path))
    with armed(fault), pytest.raises((FirnError, CrashError)):
        new_run(topic, **tolerant).run()
    assert fault.fired == 1
    new_run(topic, **tolerant).run()
    assert landed(settings, topic) == [(0, 0), (0, 2)]
    assert committed(settings, topic) == {0: 4}
    assert [letter.value() for letter in letters.read()] == [b"{", b"}"]


@pytest.mark.parametrize(
    ("ingestion_method", "step"),
    [
        (Method.SNOWPIPE, Step.PUT),
        (Method.SNOWPIPE_STREAMING, Step.APPENDED),
        *(
            pytest.param(Method.SNOWPIPE_STREAMING, step, marks=pytest.mark.full)
            for step in OF_TASKS
            if step is not Step.APPENDED
        ),
    ],
    indirect=["ingestion_method"],
)
def test_a_killed_python_worker_is_replaced_within_the_run(
    settings: Settings, new_run: NewRun, tmp_path: Path, ingestion_method: Method, step: Step
) -> None:
    topic, letters = Topic(settings, "worker"), Topic(settings, "worker-dlq", partitions=1)
    topic.send([b"1"] * 10)
    topic.send([*[b"2"] * 5, b"{"], partition=1)
    tolerant = {"errors__tolerance": "all", "errors__deadletterqueue__topic__name": letters.name, **JSON}
    fault = Fault(step, Kind.KILL_WORKER, str(tmp_path), dict(passages_of(ingestion_method)).get(step, 1))
    with armed(fault):
        new_run(topic, **tolerant).run()
    assert fault.fired == 1
    assert landed(settings, topic) == [*((0, n) for n in range(10)), *((1, n) for n in range(5))]
    assert committed(settings, topic) == {0: 10, 1: 6}
    assert [letter.value() for letter in letters.read()] == [b"{"]


@pytest.mark.full
@pytest.mark.parametrize("step", [Step.PUT, Step.COPIED], ids=["put", "copy"])
def test_a_statement_that_gets_no_answer_is_tried_again(
    settings: Settings, new_run: NewRun, tmp_path: Path, step: Step
) -> None:
    topic = Topic(settings, "silent")
    topic.send([b"1"] * 10)
    fault = Fault(step, Kind.UNREACHABLE, str(tmp_path))
    with armed(fault):
        new_run(topic, **JSON).run()
    assert fault.fired == 1
    exactly_once(settings, topic, {0: 10})


def test_a_full_disk_that_is_emptied_costs_nothing(settings: Settings, new_run: NewRun, tmp_path: Path) -> None:
    topic = Topic(settings, "space")
    topic.send([b"1"] * 10)
    fault = Fault(Step.WRITING, Kind.NO_SPACE, str(tmp_path), times=2)
    with armed(fault):
        new_run(topic, **JSON).run()
    assert fault.fired == 2
    exactly_once(settings, topic, {0: 10})


def test_a_full_disk_that_stays_full_ends_the_sink_and_says_so(
    settings: Settings, new_run: NewRun, tmp_path: Path
) -> None:
    topic = Topic(settings, "full")
    topic.send([b"1"] * 10)
    run = impatient(new_run(topic, **JSON))
    always = Fault(Step.WRITING, Kind.NO_SPACE, str(tmp_path), times=1_000)
    with armed(always), pytest.raises(TransientError, match="No space left on device") as raised:
        run.run()
    assert raised.value.exit_code == 4
    assert "TMPDIR" in raised.value.next_step
    new_run(topic, **JSON).run()
    exactly_once(settings, topic, {0: 10})


@pytest.mark.both_methods
def test_a_moved_clock_changes_nothing_but_the_push_time(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "clock")
    for shift in (DAY, 0.0, -DAY):
        topic.send([b"1"] * 5)
        with armed(clock=shift):
            new_run(topic, **JSON).run()
    exactly_once(settings, topic, {0: 15})
    rows = sql(settings, f"SELECT RECORD_METADATA AS M FROM {topic.table} ORDER BY RECORD_METADATA:offset::INT")
    late = [(row["M"]["SnowflakeConnectorPushTime"] - row["M"]["CreateTime"]) / 1000 for row in rows]
    assert [round(seconds / DAY) for seconds in late] == [1] * 5 + [0] * 5 + [-1] * 5


@pytest.mark.both_methods
def test_a_lock_that_is_held_for_too_long_is_waited_for_again(
    own_ledger: Settings, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(own_ledger, "lock")
    topic.send([b"1"] * 10)
    monkeypatch.setitem(open_connection.__kwdefaults__, "lock_seconds", 1)
    run = new_run(topic, **of_schema(own_ledger), **JSON)
    with connect(login_of(own_ledger)) as other, ThreadPoolExecutor() as pool:

        def let_go() -> None:
            wait_until(lambda: run._deadline.failing_for() > 0, what="the batch waited in vain and rolled back")
            execute(other, "ROLLBACK")

        def hold() -> None:
            execute(other, "BEGIN")
            execute(other, f"UPDATE FIRN_OFFSETS SET ROW_ERRORS = 0 WHERE SINK = 's_{topic.table}'")
            pool.submit(let_go)

        held = Interruption(Step.BEGUN, hold)
        with armed(held):
            report = run.run()
    assert (held.fired, report.epoch) == (1, 2)
    exactly_once(own_ledger, topic, {0: 10})


def test_a_batch_that_runs_when_the_sink_is_asked_to_end_is_brought_to_its_end(
    settings: Settings, new_run: NewRun
) -> None:
    topic = Topic(settings, "asked", partitions=1)
    topic.send([b"1"] * 30)  # many batches: the stop is seen within a second
    stop = threading.Event()
    with armed(Interruption(Step.COPIED, stop.set)):
        records = new_run(topic, stop=stop, firn__batch__records="3", **JSON).run().records
    assert 3 <= records < 30
    exactly_once(settings, topic, {0: records})
    new_run(topic, **JSON).run()
    exactly_once(settings, topic, {0: 30})
