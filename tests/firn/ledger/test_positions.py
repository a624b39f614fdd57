"""The ledger's rules, without Snowflake: what moves, what is refused, where a partition starts."""

from __future__ import annotations

import pytest

from firn.errors import ClaimAgainError, FirnError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.positions import Ledger, LostPositionError, Move, Position, check_positions, missing_positions

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def ledger(**committed: int) -> Ledger:
    return Ledger("s", 1, {TopicPartition("orders", int(k[1:])): v for k, v in committed.items()})


def test_a_batch_moves_each_partition_to_the_end_of_its_range() -> None:
    state = ledger(p0=10, p1=5)
    moves = state.add_in_flight([Move(P0, 10, 20), Move(P1, 5, 5)], {})
    assert moves == (Move(P0, 10, 20),)
    state.advance(moves)
    assert state.committed == {P0: 20, P1: 5}


def test_a_range_without_rows_moves_too() -> None:
    assert ledger(p0=10).add_in_flight([Move(P0, 10, 12)], {}) == (Move(P0, 10, 12),)


def test_a_bad_record_cuts_the_move_in_front_of_it() -> None:
    read = [Move(P0, 10, 20), Move(P1, 0, 9)]
    assert ledger(p0=10, p1=0).add_in_flight(read, {P0: 14}) == (Move(P0, 10, 14), Move(P1, 0, 9))
    assert ledger(p0=10).add_in_flight(read[:1], {P0: 10}) == ()


def test_a_stop_outside_the_range_changes_nothing() -> None:
    assert ledger(p0=10).add_in_flight([Move(P0, 10, 20)], {P0: 25, P1: 3}) == (Move(P0, 10, 20),)


def test_a_batch_is_in_flight_until_its_commit_is_known() -> None:
    state = ledger(p0=10)
    moves = state.add_in_flight([Move(P0, 10, 20)], {})
    assert (state.in_flight, state.committed, state.positions()) == ((moves,), {P0: 10}, {P0: 20})
    state.advance(moves)
    assert (state.in_flight, state.committed, state.positions()) == ((), {P0: 20}, {P0: 20})


def test_the_next_batch_begins_behind_the_one_that_commits() -> None:
    state = ledger(p0=10, p1=0)
    first = state.add_in_flight([Move(P0, 10, 20)], {})
    second = state.add_in_flight([Move(P0, 20, 25), Move(P1, 0, 3)], {})
    state.advance(first)
    assert (state.committed, state.positions()) == ({P0: 20, P1: 0}, {P0: 25, P1: 3})
    state.advance(second)
    assert state.committed == {P0: 25, P1: 3}


def test_commits_are_taken_over_in_order() -> None:
    state = ledger(p0=10)
    state.add_in_flight([Move(P0, 10, 20)], {})
    second = state.add_in_flight([Move(P0, 20, 25)], {})
    with pytest.raises(FirnError, match="not in flight"):
        state.advance(second)
    assert state.committed == {P0: 10}


def test_moves_that_are_not_in_flight_are_not_taken_over() -> None:
    state = ledger(p0=10)
    with pytest.raises(FirnError, match="not in flight"):
        state.advance(())
    state.add_in_flight([Move(P0, 10, 20)], {})
    with pytest.raises(FirnError, match="not in flight"):
        state.advance((Move(P0, 10, 21),))
    assert state.committed == {P0: 10}


def test_behind_a_stop_the_partition_continues_at_the_stop() -> None:
    state = ledger(p0=10)
    state.advance(state.add_in_flight([Move(P0, 10, 20)], {P0: 14}))
    with pytest.raises(LostPositionError, match="begins at 20, and its position is 14"):
        state.add_in_flight([Move(P0, 20, 30)], {})


def test_positions_are_never_lowered() -> None:
    assert ledger(p0=10).add_in_flight([Move(P0, 10, 4)], {}) == ()


@pytest.mark.parametrize("start", [9, 11])
def test_a_range_that_begins_elsewhere_is_refused(start: int) -> None:
    with pytest.raises(LostPositionError, match=f"begins at {start}, and its position is 10"):
        ledger(p0=10).add_in_flight([Move(P0, start, 30)], {})


def test_a_partition_that_appears_in_a_run_is_claimed_first() -> None:
    with pytest.raises(ClaimAgainError, match="orders-1"):
        ledger(p0=10).add_in_flight([Move(P0, 10, 11), Move(P1, 0, 3)], {})


@pytest.mark.parametrize(
    ("first_claim", "first_offset", "start"),
    [(True, "earliest", 3), (True, "latest", 9), (False, "earliest", 3), (False, "latest", 3)],
)
def test_auto_offset_reset_decides_at_the_first_claim_only(first_claim, first_offset, start) -> None:
    seen = {P0: KafkaPartition("id", 3, 9)}
    rows = missing_positions({}, seen, first_claim=first_claim, first_offset=first_offset)
    assert rows == {P0: Position(start, "id")}


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (KafkaPartition("other", 0, 100), "deleted and made again"),
        (KafkaPartition("id", 0, 7), "its end is 7, below the committed position 10"),
        (KafkaPartition("id", 13, 100), "offsets 10 to 12 expired"),
    ],
)
def test_a_topic_that_cannot_continue_stops_the_claim(seen: KafkaPartition, said: str) -> None:
    with pytest.raises(LostPositionError, match=said) as raised:
        check_positions("s", {P0: Position(10, "id")}, {P0: seen})
    assert "orders-0" in str(raised.value)
    assert "firn sink offsets <config> --reset" in raised.value.next_step


def test_a_topic_that_can_continue_passes() -> None:
    check_positions("s", {P0: Position(10, "id")}, {P0: KafkaPartition("id", 10, 10)})
