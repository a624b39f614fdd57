"""How far a partition is durable: rows that the token covers, and ends without rows behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.sink.task.durable_rows import DurableRows


def test_an_end_without_rows_is_durable_once_the_last_row_before_it_is() -> None:
    rows = DurableRows(10)
    rows.wrote(14, 5, 50)
    rows.passed(20)  # 15 to 19 hold no row
    assert (rows.durable, rows.settled, rows.waiting) == (10, False, 50)
    rows.covered(13)
    assert (rows.durable, rows.rows) == (13, 0)
    rows.covered(15)
    assert (rows.durable, rows.settled, rows.rows, rows.bytes, rows.waiting) == (20, True, 5, 50, 0)


def test_a_range_without_any_row_is_durable_at_once() -> None:
    rows = DurableRows(0)
    rows.passed(100)
    assert (rows.durable, rows.settled) == (100, True)


def test_a_step_back_is_a_fault() -> None:
    rows = DurableRows(5)
    with pytest.raises(ValueError, match="4 lies before 5"):
        rows.passed(4)


def test_what_a_channel_lost_is_taken_again_and_counted_once() -> None:
    rows = DurableRows(0)
    rows.wrote(4, 5, 5)
    rows.passed(5)
    rows.wrote(9, 5, 5)
    rows.passed(12)
    rows.restart(5)  # the first five are covered, the others lost
    assert (rows.position, rows.durable, rows.rows, rows.waiting) == (5, 5, 5, 0)
    rows.wrote(9, 5, 5)
    rows.passed(12)
    rows.covered(10)
    assert (rows.durable, rows.rows, rows.bytes) == (12, 10, 10)


def test_what_was_durable_without_a_row_stays_so_when_a_channel_begins_again() -> None:
    rows = DurableRows(0)
    rows.wrote(4, 5, 5)
    rows.passed(9)
    rows.covered(5)
    rows.restart(5)  # the token knows nothing of 5 to 8
    assert (rows.durable, rows.settled) == (9, True)
    rows.passed(7)
    assert rows.durable == 9


STEPS = st.lists(
    st.tuples(st.sampled_from(["rows", "none", "cover", "lose"]), st.integers(1, 20), st.integers(0, 20)), max_size=60
)


@given(STEPS)
def test_nothing_counts_as_durable_that_is_not(steps: list[tuple[str, int, int]]) -> None:
    """Against a log that remembers each offset: a row counts when it is covered, an offset without row when passed."""
    state = DurableRows(0)
    written: set[int] = set()
    covered: set[int] = set()
    passed: set[int] = set()
    token = 0
    for kind, length, part in steps:
        start = state.position
        end = start + length
        if kind == "rows":
            fresh = set(range(start, end))
            written |= fresh
            state.wrote(end - 1, length, length)
            state.passed(end)
        elif kind == "none":
            passed |= set(range(start, end)) - written
            state.passed(end)
        elif kind == "cover":
            token = max(token, min(state.position, token + part))
            covered |= {at for at in written if at < token}
            state.covered(token)
        else:
            written = set(covered)
            state.restart(token)
        assert set(range(state.durable)) <= covered | passed
        assert state.rows <= len(covered)
        assert state.waiting >= 0
    state.covered(state.position)
    assert state.settled
