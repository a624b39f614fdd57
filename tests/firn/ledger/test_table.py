"""The ledger's SQL against the local Snowflake: one writer at a time, all or nothing, and doubt resolved."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from snowflake.connector import SnowflakeConnection

from firn.errors import ClaimAgainError, FencedError, TerminalError, TransientError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import SharedTargetError, SinkRunsError
from firn.ledger.positions import Ledger, Move, Position
from firn.ledger.table import LedgerTable
from firn.snowflake import transactions
from firn.snowflake.connection import connect, execute, query
from firn.snowflake.transactions import transaction
from tests.support.sinks import wait_until

pytestmark = pytest.mark.stack

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
KAFKA = {P0: KafkaPartition("id", 0, 100), P1: KafkaPartition("id", 5, 100)}
Seen = Mapping[TopicPartition, KafkaPartition]


def claim(
    run: LedgerTable,
    connection: SnowflakeConnection,
    seen: Seen = KAFKA,
    first: Literal["earliest", "latest"] = "earliest",
    **given: object,
) -> Ledger:
    """A claim for tables that nobody else writes, unless the test names them."""
    given = {"table_of": own_table, "topics": {where.topic for where in seen}, **given}
    return run.claim(connection, lambda: seen, first, **given)


def own_table(topic: str) -> str:
    return f"{topic}_{uuid.uuid4().hex}"


def offsets(run: LedgerTable, connection: SnowflakeConnection) -> dict[TopicPartition, int]:
    return {where: position.next_offset for where, position in run.positions(connection).items()}


def test_many_first_starts_at_once_make_one_ledger_with_one_lock_row(login, new_schema) -> None:
    namespace = new_schema()
    together = threading.Barrier(6)

    def start(number: int) -> int | None:
        run = LedgerTable(namespace, f"sink_{number % 2}", uuid.uuid4().hex)
        with connect(login) as own:
            together.wait()
            run.ensure(own)
            return claimed_epoch(run, own)

    with ThreadPoolExecutor(6) as pool:
        epochs = list(pool.map(start, range(6)))
    assert max(filter(None, epochs[0::2])) == max(filter(None, epochs[1::2])) == 3, "the last of each sink has it"
    with connect(login) as own:
        rows = query(own, f"SELECT SINK, COUNT(*) AS N FROM {namespace.qualified('FIRN_OFFSETS')} GROUP BY SINK")
    assert {row["SINK"]: row["N"] for row in rows} == {"": 1, "sink_0": 3, "sink_1": 3}


def claimed_epoch(run: LedgerTable, connection: SnowflakeConnection) -> int | None:
    """The epoch of a claim; None for one that another claim overtook."""
    try:
        return claim(run, connection).epoch
    except FencedError:
        return None


def test_a_claim_raises_the_epoch_and_keeps_positions(connection, new_run) -> None:
    first = claim(new_run(), connection)
    assert (first.epoch, first.committed) == (1, {P0: 0, P1: 5})
    run = new_run()
    second = claim(run, connection, first="latest")
    assert (second.epoch, second.committed) == (2, {P0: 0, P1: 5})
    with transaction(connection):
        run.move(connection, 2, "2-0", [Move(P0, 0, 7)])
    third = claim(new_run(), connection, KAFKA | {P2: KafkaPartition("id", 3, 9)}, first="latest")
    assert third.committed == {P0: 7, P1: 5, P2: 3}


def test_of_claims_at_once_the_last_one_has_the_sink(login, connection, new_run) -> None:
    def claim_alone(run: LedgerTable) -> int | None:
        with connect(login) as own:
            return claimed_epoch(run, own)

    runs = [new_run() for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        epochs = list(pool.map(claim_alone, runs))
    won = [epoch for epoch in epochs if epoch]
    assert len(won) == len(set(won))
    assert max(won) == 4
    runs[epochs.index(4)].beat(connection, 4)
    assert offsets(runs[0], connection) == {P0: 0, P1: 5}


def test_an_older_run_cannot_move_beat_remember_or_claim_back(connection, new_run) -> None:
    older, newer = new_run(), new_run()
    epoch = claim(older, connection).epoch
    claim(newer, connection)
    before = newer.owner(connection)
    with pytest.raises(FencedError), transaction(connection):
        older.move(connection, epoch, "1-0", [Move(P0, 0, 7)])
    with pytest.raises(FencedError):
        older.beat(connection, epoch)
    with pytest.raises(FencedError):
        older.update_method_state(connection, epoch, lambda _: {"a": 1})
    with pytest.raises(FencedError):
        claim(older, connection)
    older.release(connection, epoch)
    after = newer.owner(connection)
    assert (after.epoch, after.run_id, after.method_state) == (before.epoch, before.run_id, {})
    assert offsets(newer, connection)[P0] == 0


def test_what_a_run_shipped_before_it_claimed_again_cannot_move(connection, new_run) -> None:
    run = new_run()
    epoch = claim(run, connection).epoch
    claim(run, connection)
    with pytest.raises(FencedError), transaction(connection):
        run.move(connection, epoch, "1-0", [Move(P0, 0, 7)])


def test_a_claim_looks_at_kafka_when_no_older_run_can_commit_any_more(login, connection, new_run) -> None:
    older, newer = new_run(), new_run()
    epoch = claim(older, connection).epoch

    def observe() -> Seen:
        with connect(login) as own:
            execute(own, "ALTER SESSION SET LOCK_TIMEOUT = 0")  # whoever still held a lock would be noticed
            with pytest.raises(FencedError), transaction(own):
                older.move(own, epoch, "1-0", [Move(P0, 0, 7)])
        return KAFKA

    assert newer.claim(connection, observe, "earliest", own_table).committed[P0] == 0


def test_whoever_claims_between_the_two_transactions_of_a_claim_is_the_newer_run(login, connection, new_run) -> None:
    slow, quick, third = new_run(), new_run(), new_run()

    def observe() -> Seen:
        with connect(login) as own:
            execute(own, "ALTER SESSION SET LOCK_TIMEOUT = 0")
            assert claim(quick, own, first="latest").epoch == 2
        return KAFKA

    with pytest.raises(FencedError):
        slow.claim(connection, observe, "earliest", own_table)
    assert offsets(quick, connection) == {P0: 100, P1: 100}, "the slow one wrote nothing"
    with pytest.raises(FencedError):
        claim(slow, connection)
    quick.beat(connection, 2)
    assert claim(third, connection).epoch == 3


def test_a_position_that_is_not_where_the_batch_began_moves_nothing(connection, new_run) -> None:
    run = new_run()
    epoch = claim(run, connection).epoch
    with pytest.raises(ClaimAgainError, match="1 of 2"), transaction(connection):
        run.move(connection, epoch, "1-0", [Move(P0, 0, 7), Move(P1, 4, 9)])
    assert offsets(run, connection) == {P0: 0, P1: 5}


def test_rows_and_ledger_move_together_or_not_at_all(connection, namespace, new_run) -> None:
    run = new_run()
    epoch = claim(run, connection).epoch
    name = namespace.qualified(f"T_{uuid.uuid4().hex[:8]}")
    execute(connection, f"CREATE TABLE {name} (N INT)")

    def commit() -> None:
        with transaction(connection):
            execute(connection, f"INSERT INTO {name} VALUES (1)")
            run.move(connection, epoch, "1-0", [Move(P0, 99, 100)])

    with pytest.raises(ClaimAgainError):
        commit()
    assert query(connection, f"SELECT COUNT(*) AS N FROM {name}") == [{"N": 0}]


def test_ddl_inside_the_transaction_is_noticed(connection, namespace, new_run) -> None:
    run = new_run()
    epoch = claim(run, connection).epoch

    def commit() -> None:
        with transaction(connection):
            execute(connection, f"CREATE TABLE {namespace.qualified(f'D_{uuid.uuid4().hex[:8]}')} (N INT)")
            run.move(connection, epoch, "1-0", [Move(P0, 0, 7)])

    with pytest.raises(TerminalError, match="committed by something else"):
        commit()


@pytest.fixture(params=[True, False], ids=["committed", "not-committed"])
def lost_answer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """The answer to COMMIT is lost, and whether it happened; `monkeypatch.undo()` ends it."""
    happened: bool = request.param

    def execute_and_lose(to: SnowflakeConnection, sql: str, params: tuple[object, ...] = ()) -> int:
        if sql != "COMMIT":
            return execute(to, sql, params)
        if happened:
            execute(to, sql)
        raise TransientError("the answer was lost")

    monkeypatch.setattr(transactions, "execute", execute_and_lose)
    return happened


def test_a_lost_answer_to_a_batchs_commit_is_resolved_by_claiming_again(
    login, connection, new_run, lost_answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    with monkeypatch.context() as answered:
        answered.setattr(transactions, "execute", execute)
        epoch = claim(run, connection).epoch
    with pytest.raises(ClaimAgainError, match="COMMIT was lost"), transaction(connection):
        run.move(connection, epoch, "1-0", [Move(P0, 0, 7)])
    connection.close()
    monkeypatch.undo()
    with connect(login) as fresh:
        again = claim(run, fresh)
    assert (again.epoch, again.committed[P0]) == (epoch + 1, 7 if lost_answer else 0)


@pytest.mark.parametrize("before", [False, True], ids=["first-claim", "later-claim"])
def test_a_lost_answer_to_a_claims_commit_does_not_fence_the_run_itself(
    login, connection, new_run, lost_answer: bool, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    with monkeypatch.context() as answered:
        answered.setattr(transactions, "execute", execute)
        epoch = claim(new_run(), connection).epoch if before else 0
    run = new_run()
    with pytest.raises(ClaimAgainError, match="COMMIT was lost"):
        claim(run, connection)
    connection.close()
    monkeypatch.undo()
    with connect(login) as fresh:
        assert claim(run, fresh).epoch == epoch + (2 if lost_answer else 1)


def test_a_lock_that_is_held_for_too_long_means_claim_again(login, connection, namespace, new_run) -> None:
    run = new_run()
    with connect(login) as other, transaction(other):
        execute(other, f"UPDATE {namespace.qualified('FIRN_OFFSETS')} SET UPDATED_AT = SYSDATE() WHERE SINK = ''")
        execute(connection, "ALTER SESSION SET LOCK_TIMEOUT = 0")
        with pytest.raises(ClaimAgainError, match="lock was held"):
            claim(run, connection)
    assert claim(run, connection).epoch == 1


def test_the_owner_row_tells_who_writes_what_and_when_it_was_heard_of(connection, new_run) -> None:
    run = new_run()
    assert run.owner(connection) is None
    table = own_table("t")
    epoch = claim(run, connection, table_of=lambda _: table).epoch
    owner = run.owner(connection)
    assert (owner.epoch, owner.targets, owner.method_state) == (epoch, {"t": table}, {})
    assert 0 <= owner.silent_seconds < 60
    run.update_method_state(connection, epoch, lambda _: {"a": [1]})
    run.update_method_state(connection, epoch, lambda state: {**state, "b": "c"})
    with transaction(connection):
        run.move(connection, epoch, "1-0", [Move(P0, 0, 7)])
    assert claim(new_run(), connection).epoch == epoch + 1
    assert run.owner(connection).method_state == {"a": [1], "b": "c"}


def test_a_heartbeat_and_a_batch_are_signs_of_life(connection, namespace, new_run) -> None:
    run = new_run()
    epoch = claim(run, connection).epoch

    def silence() -> None:
        ago = "DATEADD(HOUR, -2, UPDATED_AT)"
        execute(connection, f"UPDATE {namespace.qualified('FIRN_OFFSETS')} SET UPDATED_AT = {ago} WHERE TOPIC = ''")

    for sign in (
        lambda: run.beat(connection, epoch),
        lambda: run.move(connection, epoch, "1-0", [Move(P0, 0, 7)]),
    ):
        silence()
        assert run.owner(connection).silent_seconds > 7000
        sign()
        assert run.owner(connection).silent_seconds < 60


def test_silence_is_measured_by_snowflakes_clock_in_any_time_zone(connection, new_run) -> None:
    run = new_run()
    execute(connection, "ALTER SESSION SET TIMEZONE = 'Pacific/Auckland'")
    epoch = claim(run, connection).epoch
    run.beat(connection, epoch)
    execute(connection, "ALTER SESSION SET TIMEZONE = 'America/Los_Angeles'")
    assert 0 <= run.owner(connection).silent_seconds < 60
    assert abs(run.positions(connection)[P0].updated_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_orderly_end_releases_the_sink_for_anybody(connection, new_run) -> None:
    run = new_run()
    epoch = claim(run, connection).epoch
    run.release(connection, epoch)
    assert run.owner(connection).run_id == ""
    with pytest.raises(FencedError):
        run.beat(connection, epoch)
    assert claim(run, connection).epoch == epoch + 1
    run.release(connection, epoch + 1)
    claim(new_run(), connection)
    with pytest.raises(FencedError):
        claim(run, connection)


def test_an_end_without_an_answer_is_an_end_all_the_same(connection, new_run, caplog) -> None:
    run = new_run()
    epoch = claim(run, connection).epoch
    connection.close()
    run.release(connection, epoch)
    assert "could not be released" in caplog.text


def test_a_second_sink_on_the_same_topic_and_table_is_refused_unless_forced(connection, new_run) -> None:
    topic = f"t{uuid.uuid4().hex[:8]}"
    seen = {TopicPartition(topic, 0): KafkaPartition("id", 0, 9)}
    first, second = new_run(f"first_{topic}"), new_run(f"second_{topic}")
    claim(first, connection, seen, table_of=lambda _: "Orders")
    with pytest.raises(SharedTargetError) as raised:
        claim(second, connection, seen, table_of=lambda _: "ORDERS")
    for said in (f"first_{topic}", f"topic {topic} into table ORDERS", "seconds ago", "firn.share.target=true"):
        assert said in str(raised.value)
    assert second.owner(connection) is None
    assert claim(second, connection, seen, table_of=lambda _: "orders", share_target=True).epoch == 1
    assert claim(first, connection, seen, table_of=lambda _: "Orders").epoch == 2, "the first one is not to blame"
    with pytest.raises(SharedTargetError):
        claim(second, connection, seen, table_of=lambda _: "orders")


def test_other_tables_and_other_topics_are_not_shared(connection, new_run) -> None:
    topic = f"t{uuid.uuid4().hex[:8]}"
    seen = {TopicPartition(topic, 0): KafkaPartition("id", 0, 9)}
    claim(new_run(f"first_{topic}"), connection, seen, table_of=lambda _: "my-orders")
    assert claim(new_run(f"case_{topic}"), connection, seen, table_of=lambda _: "My-Orders").epoch == 1
    other = {TopicPartition(f"{topic}x", 0): KafkaPartition("id", 0, 9)}
    assert claim(new_run(f"topic_{topic}"), connection, other, table_of=lambda _: "my-orders").epoch == 1


def test_a_sink_that_left_a_table_leaves_it_to_others(connection, new_run) -> None:
    topic = f"t{uuid.uuid4().hex[:8]}"
    seen = {TopicPartition(topic, 0): KafkaPartition("id", 0, 9)}
    mover = new_run(f"mover_{topic}")
    claim(mover, connection, seen, table_of=lambda _: "A")
    claim(mover, connection, seen, table_of=lambda _: "B")
    assert claim(new_run(f"heir_{topic}"), connection, seen, table_of=lambda _: "A").epoch == 1
    with pytest.raises(SharedTargetError):
        claim(mover, connection, seen, table_of=lambda _: "A")


def test_a_reset_sets_what_it_names_and_fences_whoever_runs(connection, new_run) -> None:
    run, person = new_run(), new_run()
    epoch = claim(run, connection).epoch
    run.update_method_state(connection, epoch, lambda _: {"a": 1})
    before = run.owner(connection)
    chosen = {P0: Position(42, "new id"), P2: Position(3, "id")}
    assert person.reset(connection, chosen, running_within=0) == epoch + 1
    assert person.positions(connection) == {P0: Position(42, "new id"), P1: Position(5, "id"), P2: Position(3, "id")}
    after = person.owner(connection)
    assert (after.epoch, after.run_id) == (epoch + 1, "")
    assert (after.targets, after.method_state) == (before.targets, before.method_state)
    with pytest.raises(FencedError):
        run.beat(connection, epoch)
    with pytest.raises(FencedError):
        claim(run, connection)
    seen = {P0: KafkaPartition("new id", 0, 100), P1: KafkaPartition("id", 0, 100), P2: KafkaPartition("id", 0, 100)}
    assert claim(new_run(), connection, seen).committed == {P0: 42, P1: 5, P2: 3}


def test_a_reset_is_refused_while_the_sink_gives_signs_of_life(connection, namespace, new_run) -> None:
    run, person = new_run(), new_run()
    epoch = claim(run, connection).epoch
    with pytest.raises(SinkRunsError, match=r"last sign of life \d seconds ago") as raised:
        person.reset(connection, {P0: Position(0, "id")}, running_within=90)
    assert "counts as dead after 90 seconds" in str(raised.value)
    assert run.owner(connection).epoch == epoch
    wait_until(lambda: run.owner(connection).silent_seconds > 0.2)
    assert person.reset(connection, {P0: Position(1, "id")}, running_within=0.2) == epoch + 1, "silent for too long"
    claim(run := new_run(), connection)
    run.release(connection, epoch + 2)
    assert person.reset(connection, {P0: Position(2, "id")}, running_within=90) == epoch + 3, "ended in order"


def test_a_reset_whose_plan_the_ledger_left_behind_changes_nothing(connection, new_run) -> None:
    """Positions, topic ids and absent rows are compared under the lock, so no commit fits between look and act."""
    run, person = new_run(), new_run()
    epoch = claim(run, connection).epoch
    planned = {**person.positions(connection), P2: None}
    with transaction(connection):
        run.move(connection, epoch, "1-0", [Move(P0, 0, 7)])
    before = person.positions(connection)
    chosen = {P0: Position(0, "id")}
    for stale in (planned, {P1: replace(before[P1], topic_id="another")}, {P1: None}, {P2: Position(1, "id")}):
        with pytest.raises(TerminalError, match="moved since the plan"):
            person.reset(connection, chosen, running_within=0, expected=stale)
    assert (person.positions(connection), person.owner(connection).epoch) == (before, epoch)
    assert person.reset(connection, chosen, running_within=0, expected={**before, P2: None}) == epoch + 1


def test_a_reset_before_the_first_claim_decides_for_what_it_names_only(connection, new_run) -> None:
    run = new_run()
    assert new_run().reset(connection, {P0: Position(42, "id")}, running_within=90) == 1
    grown = KAFKA | {P2: KafkaPartition("id", 3, 9)}
    first = claim(run, connection, first="latest")
    assert (first.epoch, first.committed) == (2, {P0: 42, P1: 100})
    assert claim(run, connection, grown, first="latest").committed[P2] == 3, "this is no first claim any more"


@pytest.mark.parametrize("twice", ["TOPIC = ''", "PARTITION = 1"])
def test_rows_that_somebody_doubled_by_hand_are_refused(connection, namespace, new_run, twice: str) -> None:
    run = new_run()
    claim(run, connection)
    sink, ledger = run._sink, namespace.qualified("FIRN_OFFSETS")
    execute(connection, f"INSERT INTO {ledger} SELECT * FROM {ledger} WHERE SINK = '{sink}' AND {twice}")
    with pytest.raises(TerminalError, match=r"more than once: (the owner row|t-1)"):
        claim(new_run(), connection)


def test_a_ledger_without_its_lock_row_is_refused(login, connection, new_schema) -> None:
    namespace = new_schema()
    run = LedgerTable(namespace, "s", "run")
    run.ensure(connection)
    execute(connection, f"DELETE FROM {namespace.qualified('FIRN_OFFSETS')}")
    with pytest.raises(TerminalError, match="no lock row"):
        claim(run, connection)


def test_a_run_does_not_start_over_on_a_ledger_that_was_dropped_under_it(connection, new_schema) -> None:
    namespace = new_schema()
    run = LedgerTable(namespace, "s", "run")
    run.ensure(connection)
    claim(run, connection)
    execute(connection, f"DROP TABLE {namespace.qualified('FIRN_OFFSETS')}")
    run.ensure(connection)
    with pytest.raises(TerminalError, match="set back while the sink ran"):
        claim(run, connection)
