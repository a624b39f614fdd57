"""The ledger's SQL against the local Snowflake: one writer at a time, all or nothing, and doubt resolved."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from snowflake.connector import SnowflakeConnection

from firn.errors import FencedError, TerminalError, TransientError
from firn.settings import Settings
from firn.snowflake import connect, execute, query
from spark_jobs.sink import transaction as transactions
from spark_jobs.sink.identifiers import Namespace
from spark_jobs.sink.ledger import ClaimAgainError, KafkaPartition, Move, TopicPartition
from spark_jobs.sink.ledger_table import LedgerTable
from spark_jobs.sink.transaction import transaction
from tests.support.sinks import login_of

pytestmark = pytest.mark.stack

NAMESPACE = Namespace("STREAMING", "PUBLIC")
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
KAFKA = {P0: KafkaPartition("id", 0, 100), P1: KafkaPartition("id", 5, 100)}


@pytest.fixture
def connection(settings: Settings) -> Iterator[SnowflakeConnection]:
    with connect(login_of(settings)) as opened:
        yield opened


@pytest.fixture
def table(connection: SnowflakeConnection) -> Callable[[], LedgerTable]:
    """Makes the ledger as different runs of one new sink see it."""
    sink = f"sink_{uuid.uuid4().hex[:8]}"

    def make() -> LedgerTable:
        run = LedgerTable(NAMESPACE, sink, uuid.uuid4().hex)
        run.ensure(connection)
        return run

    return make


def test_the_ledger_is_made_once_with_one_lock_row(connection: SnowflakeConnection, table) -> None:
    table()
    table()
    assert query(connection, "SELECT COUNT(*) AS N FROM FIRN_OFFSETS WHERE SINK = ''") == [{"N": 1}]


def test_a_claim_raises_the_epoch_and_keeps_positions(connection: SnowflakeConnection, table) -> None:
    first = table().claim(connection, lambda: KAFKA, "earliest")
    assert (first.epoch, first.committed) == (1, {P0: 0, P1: 5})
    run = table()
    second = run.claim(connection, lambda: KAFKA, "latest")
    assert (second.epoch, second.committed) == (2, {P0: 0, P1: 5})
    with transaction(connection):
        run.move(connection, 2, "2-0", [Move(P0, 0, 7)])
    grown = KAFKA | {TopicPartition("t", 2): KafkaPartition("id", 3, 9)}
    third = table().claim(connection, lambda: grown, "latest")
    assert third.committed == {P0: 7, P1: 5, TopicPartition("t", 2): 3}


def test_claims_at_once_get_epochs_one_after_the_other(settings: Settings, table) -> None:
    def claim(run: LedgerTable) -> int:
        with connect(login_of(settings)) as own:
            return run.claim(own, lambda: KAFKA, "earliest").epoch

    runs = [table() for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(claim, runs)) == [1, 2, 3, 4]


def test_an_older_run_cannot_move_and_cannot_claim_back(connection: SnowflakeConnection, table) -> None:
    older, newer = table(), table()
    epoch = older.claim(connection, lambda: KAFKA, "earliest").epoch
    newer.claim(connection, lambda: KAFKA, "earliest")
    with pytest.raises(FencedError), transaction(connection):
        older.move(connection, epoch, "1-0", [Move(P0, 0, 7)])
    with pytest.raises(FencedError):
        older.claim(connection, lambda: KAFKA, "earliest")
    assert newer.positions(connection)[P0].next_offset == 0


def test_a_position_that_is_not_where_the_batch_began_moves_nothing(connection: SnowflakeConnection, table) -> None:
    run = table()
    epoch = run.claim(connection, lambda: KAFKA, "earliest").epoch
    with pytest.raises(ClaimAgainError, match="1 of 2"), transaction(connection):
        run.move(connection, epoch, "1-0", [Move(P0, 0, 7), Move(P1, 4, 9)])
    assert {w: p.next_offset for w, p in run.positions(connection).items()} == {P0: 0, P1: 5}


def test_rows_and_ledger_move_together_or_not_at_all(connection: SnowflakeConnection, table) -> None:
    run = table()
    epoch = run.claim(connection, lambda: KAFKA, "earliest").epoch
    name = f"T_{uuid.uuid4().hex[:8]}"
    execute(connection, f"CREATE TABLE {name} (N INT)")

    def commit() -> None:
        with transaction(connection):
            execute(connection, f"INSERT INTO {name} VALUES (1)")
            run.move(connection, epoch, "1-0", [Move(P0, 99, 100)])

    with pytest.raises(ClaimAgainError):
        commit()
    assert query(connection, f"SELECT COUNT(*) AS N FROM {name}") == [{"N": 0}]


def test_ddl_inside_the_transaction_is_noticed(connection: SnowflakeConnection, table) -> None:
    run = table()
    epoch = run.claim(connection, lambda: KAFKA, "earliest").epoch

    def commit() -> None:
        with transaction(connection):
            execute(connection, f"CREATE TABLE D_{uuid.uuid4().hex[:8]} (N INT)")
            run.move(connection, epoch, "1-0", [Move(P0, 0, 7)])

    with pytest.raises(TerminalError, match="committed by something else"):
        commit()


@pytest.mark.parametrize("happened", [True, False], ids=["committed", "not-committed"])
def test_a_lost_answer_to_commit_is_resolved_by_claiming_again(
    settings: Settings, connection: SnowflakeConnection, table, monkeypatch: pytest.MonkeyPatch, happened: bool
) -> None:
    run = table()
    epoch = run.claim(connection, lambda: KAFKA, "earliest").epoch

    def execute_and_lose(to: SnowflakeConnection, sql: str, params: tuple[object, ...] = ()) -> int:
        if sql != "COMMIT":
            return execute(to, sql, params)
        if happened:
            execute(to, sql)
        raise TransientError("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "execute", execute_and_lose)
        with pytest.raises(ClaimAgainError, match="COMMIT was lost"), transaction(connection):
            run.move(connection, epoch, "1-0", [Move(P0, 0, 7)])
    connection.close()
    with connect(login_of(settings)) as fresh:
        again = run.claim(fresh, lambda: KAFKA, "earliest")
    assert (again.epoch, again.committed[P0]) == (epoch + 1, 7 if happened else 0)
