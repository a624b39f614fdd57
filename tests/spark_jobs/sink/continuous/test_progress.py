"""How far a continuous run is: sums of reports that may be missed or come late, and the ledger's steps."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from firn.channels.recorded import RecordedChannel
from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Totals
from firn.ledger.positions import Move
from spark_jobs.sink.continuous.progress import RunProgress
from spark_jobs.sink.values.reports import Followed, Tolerated

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CHANNEL = RecordedChannel("T-STREAMING", 5, None, 2)


def followed(
    counter: int,
    next_offset: int,
    rows: int = 0,
    *,
    attempt: int = 1,
    where: TopicPartition = P0,
    reasons: dict[str, int] | None = None,
    samples: list[tuple[int, str, str]] | None = None,
    letters: int = 0,
) -> Followed:
    token = f"1:{next_offset - 1}" if next_offset else None
    return Followed(
        *where, attempt, counter, next_offset, token, rows, 10 * rows, letters, reasons or {}, samples or []
    )


def progress() -> RunProgress:
    return RunProgress(4, {P0: 0, P1: 100}, {P0: CHANNEL, P1: CHANNEL})


def test_a_batch_is_what_became_durable_since_the_last_one() -> None:
    state = progress()
    assert state.batch(1.0) is None
    state.take(followed(1, 10, 10))
    state.take(followed(2, 15, 14))
    first = state.batch(1.5)
    assert first is not None
    assert (first.name, first.rows, first.text_bytes, first.moves) == ("4-1", 14, 140, (Move(P0, 0, 15),))
    assert first.dispatch_seconds == 1.5
    assert state.batch(1.0) is None
    state.take(followed(3, 20, 19))
    second = state.batch(1.0)
    assert second is not None
    assert (second.name, second.rows, second.moves) == ("4-2", 5, (Move(P0, 15, 20),))


def test_the_sums_of_the_next_task_begin_at_nothing() -> None:
    state = progress()
    state.take(followed(9, 10, 10))
    state.take(followed(1, 12, 2, attempt=2))
    batch = state.batch(1.0)
    assert batch is not None
    assert batch.rows == 12


def test_a_report_that_is_old_says_nothing() -> None:
    state = progress()
    assert state.take(followed(1, 12, 2, attempt=2))
    assert not state.take(followed(9, 10, 10, attempt=1))
    assert not state.take(followed(1, 12, 2, attempt=2))
    assert not state.take(followed(1, 1, where=TopicPartition("other", 0)))
    assert state.durable == {P0: 12, P1: 100}


def test_a_position_is_never_lowered() -> None:
    """A channel that is opened again may be behind what its partition passed without rows."""
    state = progress()
    state.take(followed(1, 50, 10))
    state.take(followed(1, 40, 1, attempt=2))
    assert state.durable[P0] == 50


def test_bad_records_are_told_with_the_reasons_and_samples_that_are_new() -> None:
    state = progress()
    state.take(followed(1, 5, reasons={"a": 2}, samples=[(1, "a", "x")], letters=2))
    state.take(followed(2, 9, reasons={"a": 3, "b": 1}, samples=[(1, "a", "x"), (7, "b", "y")], letters=4))
    batch = state.batch(1.0)
    assert batch is not None
    assert batch.tolerated == (Tolerated("t", 0, 4, 4, -1, {"a": 3, "b": 1}, [(1, "a", "x"), (7, "b", "y")]),)
    assert (batch.bad_records, batch.dead_letters) == (4, 4)
    state.take(followed(3, 12, reasons={"a": 3, "b": 1}, samples=[(7, "b", "y")], letters=4))
    again = state.batch(1.0)
    assert again is not None
    assert again.tolerated == ()


def test_the_ledger_steps_by_all_that_it_does_not_say_yet() -> None:
    state = progress()
    assert state.step() is None
    state.take(followed(1, 10, 10))
    state.batch(1.0)
    state.take(followed(2, 20, 20))
    state.take(followed(1, 103, 3, where=P1))
    state.batch(1.0)
    step = state.step()
    assert step is not None
    assert step.moves == (Move(P0, 0, 20), Move(P1, 100, 103))
    assert step.totals == Totals(23, 230, 2)
    assert step.channels == {P0: replace(CHANNEL, token="1:19"), P1: replace(CHANNEL, token="1:102")}
    state.took(step)
    assert state.step() is None


def test_a_step_that_failed_is_owed_still() -> None:
    state = progress()
    state.take(followed(1, 10, 10))
    state.batch(1.0)
    first = state.step()
    state.take(followed(2, 12, 12))
    state.batch(1.0)
    second = state.step()
    assert first is not None
    assert second is not None
    assert second.moves == (Move(P0, 0, 12),)
    assert second.totals.records == 12


def test_refused_rows_move_position_and_baseline_and_nothing_of_it_is_owed() -> None:
    state = progress()
    after = replace(CHANNEL, token="1:29", row_errors=5)
    state.left_out(Tolerated("t", 0, 3, 3, 30, {"rejected_by_snowflake": 3}, []))
    state.accounted(P0, 30, 27, after, 0.0)
    batch = state.batch(1.0)
    assert batch is not None
    assert (batch.rows, batch.moves, batch.bad_records) == (27, (Move(P0, 0, 30),), 3)
    step = state.step()
    assert step is not None
    assert (step.moves, step.channels) == ((), {})
    assert step.totals == Totals(27, 0, 1, 3, 3)
    assert state.recorded(P0) == after


def test_a_partition_that_stands_still_while_kafka_holds_more_is_stalled() -> None:
    state = progress()
    ends = {P0: 10, P1: 100}
    assert state.stalled(ends, 50.0, 60.0) == []
    assert state.stalled(ends, 61.0, 60.0) == [P0]
    state.take(followed(1, 5), 70.0)
    assert state.stalled(ends, 120.0, 60.0) == []
    assert state.stalled({P0: 5, P1: 100}, 200.0, 60.0) == []
    assert state.stalled(ends, 250.0, 60.0) == []  # waits since the last look alone
    assert state.stalled(ends, 270.0, 60.0) == [P0]
    state.started([P0], 265.0)
    assert state.stalled(ends, 300.0, 60.0) == []


STEPS = st.lists(
    st.tuples(st.sampled_from(["work", "report", "restart", "batch", "ledger", "ledger fails"]), st.integers(1, 9)),
    max_size=50,
)


@given(STEPS)
def test_each_row_is_counted_once_however_reports_are_missed_and_tasks_end(steps: list[tuple[str, int]]) -> None:
    """A task counts; what it reported last counts, and its last report comes with its end."""
    state = RunProgress(1, {P0: 0}, {P0: CHANNEL})
    position = rows = counter = total = told = 0
    attempt, owed = 1, Totals()
    for kind, number in steps:
        if kind == "work":
            position, rows, total = position + number, rows + number, total + number
        elif kind in ("report", "restart"):
            counter += 1
            state.take(followed(counter, position, rows, attempt=attempt))
            if kind == "restart":
                attempt, rows, counter = attempt + 1, 0, 0
        elif kind == "batch" and (batch := state.batch(1.0)):
            told += batch.rows
        elif kind.startswith("ledger"):
            if batch := state.batch(1.0):
                told += batch.rows
            step = state.step()
            if step and kind == "ledger":
                owed += step.totals
                state.took(step)
    state.take(followed(counter + 1, position, rows, attempt=attempt))
    if batch := state.batch(1.0):
        told += batch.rows
    if step := state.step():
        owed += step.totals
    assert told == owed.records == total
    assert state.durable == {P0: position}
