"""The driver of a continuous run: when groups start, what follows from their ends, and when the ledger moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from firn.channels.recorded import RecordedChannel
from firn.connector.config import ErrorsConfig, SinkConfig, StreamingConfig
from firn.dead_letters.published import PartitionLetters
from firn.errors import BadRecordError, ClaimAgainError, FencedError, FirnError, TerminalError, TransientError
from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Owner, Totals
from firn.ledger.positions import Ledger, Move
from firn.retry import Deadline
from firn.sinks.signs import TaskReport, report_document
from firn.snowflake.columns import METADATA_COLUMN, Column, Columns, ColumnType, Kind
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.batch import BatchFailedError, PlanAgainError, StopRequestedError
from spark_jobs.sink.continuous import accounting, bookkeeping, group_tasks, run
from spark_jobs.sink.continuous.run import ContinuousParts, ContinuousRun
from spark_jobs.sink.methods.base import Claim, EpochSession
from spark_jobs.sink.tables.evolution import SchemaChange
from spark_jobs.sink.task.account_task import AccountWork
from spark_jobs.sink.task.group_task import GroupWork
from spark_jobs.sink.values.batches import CommittedBatch
from spark_jobs.sink.values.reports import (
    Accounted,
    Cut,
    Failed,
    Followed,
    Report,
    RowErrors,
    SchemaChangeRequest,
    Stopped,
    SuspectedStaleSchema,
    Tolerated,
    dump,
)
from spark_jobs.sink.values.table_loaders import ColumnsLoader, VariantLoader
from spark_jobs.spark.engine import EngineFailedError, EpochEngine
from tests.support.sinks import wait_until

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CHANNEL = RecordedChannel("T-STREAMING", 5, None, 0)
SECONDS = 10.0
Task = Callable[[Any], Sequence[Report]]


def followed(where: TopicPartition, next_offset: int, rows: int, attempt: int, counter: int = 100) -> Followed:
    return Followed(*where, attempt, counter, next_offset, f"1:{next_offset - 1}", rows, 0, 0)


class Engine:
    """Runs tasks as a test says, in the threads that ask for them; a cancelled one raises."""

    slots = 2

    def __init__(self, tasks: Task) -> None:
        self.tasks, self.cancelled = tasks, threading.Event()
        self.works: list[Any] = []
        self.running = self.most = 0
        self._lock = threading.Lock()

    def run(self, _task: object, groups: Sequence[Any]) -> list[str]:
        (work,) = groups
        with self._lock:
            self.works.append(work)
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            return [dump(report) for report in self.tasks(work)]
        finally:
            with self._lock:
                self.running -= 1

    def cancel(self) -> None:
        self.cancelled.set()

    def until_cancelled(self) -> None:
        assert self.cancelled.wait(SECONDS)
        raise EngineFailedError("cancelled")


class Loaders:
    """Tables that evolve when they are asked to."""

    def __init__(self, *_: object) -> None:
        self.loader: Any = Loaders.first
        self.evolved: list[Any] = []
        self.refreshed: list[str] = []
        Loaders.made = self

    made: Loaders
    first: Any = VariantLoader()

    def of_topics(self, topics: set[str]) -> dict[str, Any]:
        return dict.fromkeys(topics, self.loader)

    def refresh(self, tables: set[str]) -> None:
        self.refreshed += tables

    def evolve(self, requests: Sequence[Any]) -> tuple[SchemaChange, ...]:
        self.evolved += requests
        self.loader = ColumnsLoader((), True, True)
        return (SchemaChange("T", "t", 1, "ALTER TABLE T ADD COLUMN B"),)


@dataclass
class Table:
    """A ledger that notes its moves."""

    moves: list[tuple[tuple[Move, ...], Totals, Mapping[TopicPartition, RecordedChannel]]] = field(default_factory=list)
    fault: FirnError | None = None
    newer: bool = False

    def move(
        self, _connection: object, _epoch: int, _name: str, moves: tuple[Move, ...], totals: Totals, channels: Any
    ) -> None:
        if self.fault:
            raise self.fault
        self.moves.append((tuple(moves), totals, channels))

    def check_epoch(self, _connection: object, _epoch: int) -> None:
        if self.newer:
            raise FencedError("a newer run")


class Documents:
    """What tasks have said in Kafka."""

    said: dict[TopicPartition, TaskReport]
    group = "firn-tasks-x-s"

    def __init__(self, *_: object) -> None:
        pass

    def read(self) -> dict[TopicPartition, Any]:
        return {where: report_document(report) for where, report in Documents.said.items()}


class Side:
    """The task side of a continuous method."""

    def writer(self, *_: object) -> Any: ...
    def writers(self, *_: object) -> Any: ...
    def close(self, *, flush: bool) -> None: ...


class Rig:
    """A continuous run of two partitions, with all that it talks to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends = {P0: 10, P1: 10}
        self.targets: dict[TopicPartition, int] | None = {}
        self.engine = Engine(self.finish)
        self.stop, self.table = threading.Event(), Table()
        self.deadline = Deadline(60.0)
        self.commits: list[CommittedBatch] = []
        self.changes: list[SchemaChange] = []
        self.moved = 0
        self.config = SinkConfig("s", streaming=StreamingConfig(ledger_seconds=600.0))
        self.ledger = Ledger("s", 3, {P0: 0, P1: 0}, "x", 1, {P0: CHANNEL, P1: CHANNEL})
        self.letters: list[Mapping[TopicPartition, int]] = []
        Documents.said = {}
        monkeypatch.setattr(run, "TableLoaders", Loaders)
        monkeypatch.setattr(bookkeeping, "GroupDocuments", Documents)
        monkeypatch.setattr(run, "REPORT_SECONDS", 0.0)  # at each step
        monkeypatch.setattr(run, "_TICK_SECONDS", 0.01)
        monkeypatch.setattr(group_tasks, "CANCEL_SECONDS", 2.0)
        monkeypatch.setattr(run, "HANGING_SECONDS", 0.1)
        for module in (bookkeeping, accounting):
            monkeypatch.setattr(module, "transaction", transaction)
        for module in (group_tasks, accounting):
            monkeypatch.setattr(module, "uncommitted_letters", self._uncommitted)
        self.columns: Columns = (METADATA_COLUMN,)
        monkeypatch.setattr(accounting, "columns_of", lambda _connection, _name: self.columns)

    def _uncommitted(self, _context: object, _claim: object, positions: Mapping[TopicPartition, int]) -> Any:
        self.letters.append(dict(positions))
        return {where: PartitionLetters(7, frozenset({5})) for where in positions}

    def finish(self, work: Any) -> list[Report]:
        """A task that takes all there is."""
        return [
            followed(each.where, self.ends[each.where], self.ends[each.where], work.attempt) for each in work.partitions
        ]

    def run(self, reason: Callable[[], FirnError | None] = lambda: None) -> ContinuousRun:
        namespace = Namespace("D", "S")
        context: Any = SimpleNamespace(config=self.config, kafka=None, settings=None, namespace=namespace)
        session = EpochSession(context, None, self.table, 3)  # type: ignore[arg-type]
        claim = Claim(self.ledger, Owner(3, "r", 0.0, letters=True), {"t": "id"})
        method: Any = SimpleNamespace(task_side=Side(), prepare_table=None)
        parts = ContinuousParts(
            EpochEngine(self.engine),
            lambda partitions: {where: self.ends[where] for where in partitions},
            self.targets,
            self.deadline,
            self.stop,
            self.commits.append,
            self._count_move,
            self.changes.extend,
            0.0,
        )
        made = ContinuousRun(session, claim, method, {}, parts)
        made.run(reason)
        return made

    def _count_move(self) -> None:
        self.moved += 1


@contextmanager
def transaction(_connection: object) -> Iterator[None]:
    yield


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_a_run_that_takes_what_is_available_ends_with_the_ledger_there(rig: Rig) -> None:
    made = rig.run()
    assert sum(batch.rows for batch in rig.commits) == 20
    assert rig.ledger.committed == {P0: 10, P1: 10}
    ((moves, totals, channels),) = rig.table.moves
    assert moves == (Move(P0, 0, 10), Move(P1, 0, 10))
    assert totals.records == 20
    assert channels == {P0: replace(CHANNEL, token="1:9"), P1: replace(CHANNEL, token="1:9")}
    assert rig.moved == 1
    assert made.idle
    assert all(each.until == 10 for work in rig.engine.works for each in work.partitions)


def test_partitions_that_wait_for_nothing_start_no_task(rig: Rig) -> None:
    rig.ends = {P0: 0, P1: 0}
    rig.run()
    assert rig.engine.works == []
    assert rig.table.moves == []


def test_there_are_no_more_tasks_than_slots(rig: Rig) -> None:
    wheres = [TopicPartition("t", number) for number in range(300)]
    rig.ends = dict.fromkeys(wheres, 5)
    rig.ledger = Ledger("s", 3, dict.fromkeys(wheres, 0), "x", 1, dict.fromkeys(wheres, CHANNEL))
    barrier = threading.Barrier(2)

    def meet(work: Any) -> list[Report]:
        barrier.wait(SECONDS)
        return rig.finish(work)

    rig.engine.tasks = meet
    rig.run()
    assert rig.engine.most == 2
    assert sorted(each.where for work in rig.engine.works for each in work.partitions) == sorted(wheres)


def test_an_idle_group_starts_again_when_kafka_has_more(rig: Rig) -> None:
    rig.targets = None

    def work(work: Any) -> list[Report]:
        reports = rig.finish(work)
        if len(rig.engine.works) >= 4:
            rig.stop.set()
        elif len(rig.engine.works) == 2:
            rig.ends = {P0: 20, P1: 20}
        return reports

    rig.engine.tasks = work
    with pytest.raises(StopRequestedError):
        rig.run()
    attempts = [work.attempt for work in rig.engine.works]
    assert len(set(attempts)) == len(attempts) >= 3
    assert rig.ledger.committed == {P0: 20, P1: 20}


def test_a_stop_cancels_tasks_and_writes_down_what_they_said(rig: Rig) -> None:
    rig.targets = None

    def work(work: Any) -> list[Report]:
        (where,) = (each.where for each in work.partitions)
        Documents.said[where] = TaskReport(3, 1, 6, "1:5", 6, 60, attempt=work.attempt)
        if len(Documents.said) == 2:
            rig.stop.set()
        rig.engine.until_cancelled()
        return []

    rig.engine.tasks = work
    begun = time.monotonic()
    with pytest.raises(StopRequestedError):
        rig.run()
    assert time.monotonic() - begun < 5
    assert rig.engine.cancelled.is_set()
    assert rig.ledger.committed == {P0: 6, P1: 6}
    assert rig.table.moves[-1][1].records == 12


def test_what_tasks_say_in_kafka_is_progress_while_they_live_and_the_ledger_waits(rig: Rig) -> None:
    rig.targets = None
    durable: list[int] = []

    def work(work: Any) -> list[Report]:
        (where,) = (each.where for each in work.partitions)
        for at in range(1, 6):
            Documents.said[where] = TaskReport(3, at, at, f"1:{at - 1}", at, at, attempt=work.attempt)
            deadline = time.monotonic() + SECONDS
            while not any(move.where == where and move.end >= at for batch in rig.commits for move in batch.moves):
                assert time.monotonic() < deadline
                time.sleep(0.005)
        durable.append(len(rig.table.moves))
        if len(durable) == 2:
            rig.stop.set()
        rig.engine.until_cancelled()
        return []

    rig.engine.tasks = work
    with pytest.raises(StopRequestedError):
        rig.run()
    assert durable == [0, 0]
    assert rig.ledger.committed == {P0: 5, P1: 5}


def test_the_ledger_moves_when_it_is_due(rig: Rig) -> None:
    rig.targets = None
    rig.config = SinkConfig("s", streaming=StreamingConfig(ledger_seconds=0.05))

    def work(work: Any) -> list[Report]:
        (where,) = (each.where for each in work.partitions)
        Documents.said[where] = TaskReport(3, 1, 4, "1:3", 4, 4, attempt=work.attempt)
        deadline = time.monotonic() + SECONDS
        while rig.ledger.committed[where] < 4:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        rig.stop.set()
        rig.engine.until_cancelled()
        return []

    rig.engine.tasks = work
    with pytest.raises(StopRequestedError):
        rig.run()
    assert rig.moved >= 1


def test_reports_of_another_epoch_say_nothing_or_that_the_sink_is_lost(rig: Rig) -> None:
    Documents.said = {P0: TaskReport(2, 9, 99, "1:98", 99, 99, attempt=9)}
    rig.run()
    assert rig.ledger.committed == {P0: 10, P1: 10}
    again = TaskReport(4, 1, 99, "1:98", 99, 99, attempt=1)
    Documents.said, rig.table.newer, rig.targets = {P0: again}, True, None
    moves = len(rig.table.moves)
    with pytest.raises(FencedError):
        rig.run()
    assert len(rig.table.moves) == moves


def test_tables_change_and_the_group_starts_again(rig: Rig) -> None:
    def work(work: Any) -> list[Report]:
        where = work.partitions[0].where
        if where == P0 and not Loaders.made.evolved:
            return [followed(P0, 4, 4, work.attempt), SchemaChangeRequest("t", 0, "T", 1, {"B": "NUMBER"})]
        return rig.finish(work)

    rig.engine.tasks = work
    rig.run()
    assert len(Loaders.made.evolved) == len(rig.changes) == 1
    assert rig.ledger.committed == {P0: 10, P1: 10}
    assert len(rig.engine.works) == 3
    assert rig.letters == [{P0: 0}]  # what the first task published is asked for


def test_a_change_that_another_group_asked_for_already_is_not_made_again(rig: Rig) -> None:
    first = threading.Barrier(2)
    asked: list[TopicPartition] = []

    def work(work: Any) -> list[Report]:
        where = work.partitions[0].where
        if where not in asked:
            asked.append(where)
            first.wait(SECONDS)
            return [followed(where, 0, 0, work.attempt), SchemaChangeRequest(*where, "T", 1, {"B": "NUMBER"})]
        return rig.finish(work)

    rig.engine.tasks = work
    rig.run()
    assert len(Loaders.made.evolved) == 1
    assert rig.ledger.committed == {P0: 10, P1: 10}


def test_a_table_that_was_made_is_claimed_once_the_other_tasks_have_ended(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loaders, "first", ColumnsLoader((), exists=False, grow=True))

    def work(work: Any) -> list[Report]:
        where = work.partitions[0].where
        if where == P0:
            return [followed(P0, 0, 0, work.attempt), SchemaChangeRequest("t", 0, "T", 1, {"B": "NUMBER"})]
        wait_until(lambda: bool(rig.changes))
        return rig.finish(work)

    rig.engine.tasks = work
    with pytest.raises(PlanAgainError, match="No channel leads to T yet"):
        rig.run()
    assert rig.ledger.committed == {P0: 0, P1: 10}
    assert sum(batch.rows for batch in rig.commits) == 10
    assert not rig.engine.cancelled.is_set()


def test_a_table_that_was_made_is_claimed_at_once_where_tasks_do_not_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loaders, "first", ColumnsLoader((), exists=False, grow=True))
    rig.targets = None

    def work(work: Any) -> list[Report]:
        if work.partitions[0].where == P0:
            return [followed(P0, 0, 0, work.attempt), SchemaChangeRequest("t", 0, "T", 1, {"B": "NUMBER"})]
        return rig.engine.until_cancelled() or []

    rig.engine.tasks = work
    with pytest.raises(PlanAgainError):
        rig.run()
    assert rig.engine.cancelled.is_set()


def test_a_stale_table_is_described_again(rig: Rig) -> None:
    def work(work: Any) -> list[Report]:
        where = work.partitions[0].where
        if where == P0 and not Loaders.made.refreshed:
            return [followed(P0, 0, 0, work.attempt), SuspectedStaleSchema("t", 0, "T")]
        return rig.finish(work)

    rig.engine.tasks = work
    rig.run()
    assert Loaders.made.refreshed == ["T"]


def test_a_lost_sink_changes_no_table(rig: Rig) -> None:
    def work(work: Any) -> list[Report]:
        rig.table.newer = True
        return [followed(work.partitions[0].where, 0, 0, work.attempt), SchemaChangeRequest("t", 0, "T", 1, {"B": "X"})]

    rig.engine.tasks = work
    with pytest.raises(FencedError):
        rig.run()
    assert Loaders.made.evolved == []


def test_of_what_is_available_all_is_taken_but_what_is_behind_a_bad_record(rig: Rig) -> None:
    stopped = threading.Event()

    def work(work: Any) -> list[Report]:
        where = work.partitions[0].where
        if where == P1:
            assert stopped.wait(SECONDS)
            return rig.finish(work)
        stopped.set()
        return [followed(P0, 4, 4, work.attempt), Stopped("t", 0, 4, "malformed_avro", "d")]

    rig.engine.tasks = work
    with pytest.raises(BadRecordError, match="t-0 offset 4"):
        rig.run()
    assert rig.ledger.committed == {P0: 4, P1: 10}
    assert len(rig.engine.works) == 2


def test_a_bad_record_ends_the_run_with_all_before_it_in_the_ledger(rig: Rig) -> None:
    rig.targets = None

    def work(work: Any) -> list[Report]:
        where = work.partitions[0].where
        if where == P1:
            rig.engine.until_cancelled()
        return [followed(P0, 4, 4, work.attempt), Stopped("t", 0, 4, "malformed_avro", "d")]

    rig.engine.tasks = work
    with pytest.raises(BadRecordError, match="t-0 offset 4: malformed_avro"):
        rig.run()
    assert rig.ledger.committed == {P0: 4, P1: 0}


def test_refused_rows_end_the_run_where_no_bad_record_is_tolerated(rig: Rig) -> None:
    rig.engine.tasks = lambda work: [
        followed(work.partitions[0].where, 0, 0, work.attempt),
        RowErrors("t", 0, "1:9", 2, 2, "too long", "1:7"),
    ]
    with pytest.raises(BadRecordError, match=r"ERROR_5030.*2 rows of t-0.*1:7.*too long"):
        rig.run()
    assert rig.ledger.committed[P0] == 0


def test_refused_rows_become_letters_and_then_ledger_and_baseline_move_together(rig: Rig) -> None:
    rig.config = SinkConfig("s", errors=ErrorsConfig("all", dead_letter_topic="dlq"))

    def work(work: Any) -> list[Report]:
        if isinstance(work, AccountWork):
            assert (work.offsets.start, work.offsets.end, work.unaccounted) == (3, 9, 2)
            assert work.letters.published == {5}
            reasons = {"rejected_by_snowflake": 2}
            return [Tolerated("t", 0, 2, 2, 9, reasons, [], [4, 6]), Accounted("t", 0, 3, 9, 4, 2)]
        assert isinstance(work, GroupWork)
        where = work.partitions[0].where
        if where == P0 and rig.ledger.channels[P0].row_errors == 0:
            return [followed(P0, 3, 3, work.attempt), RowErrors("t", 0, "1:8", 2, 2, "too long", None)]
        start = rig.ledger.committed[where]
        return [followed(where, 10, 10 - start, work.attempt)]

    rig.engine.tasks = work
    rig.run()
    accounted = next(each for each in rig.table.moves if each[0] == (Move(P0, 3, 9),))
    assert accounted[2] == {P0: replace(CHANNEL, token="1:8", row_errors=2)}
    assert rig.ledger.committed == {P0: 10, P1: 10}
    assert sum(batch.rows for batch in rig.commits) == 3 + 4 + 1 + 10
    assert sum(batch.bad_records for batch in rig.commits) == 2
    assert sum(totals.records for _, totals, _ in rig.table.moves) == 18
    assert sum(totals.dead_letters for _, totals, _ in rig.table.moves) == 2


@pytest.mark.parametrize("columns", [(), (Column("ID", ColumnType(Kind.NUMBER)),)])
def test_refused_rows_of_a_table_without_their_metadata_end_the_run_with_what_to_do(rig: Rig, columns: Columns) -> None:
    """As where a pipe of the user's own leaves RECORD_METADATA out."""
    rig.config, rig.columns = SinkConfig("s", errors=ErrorsConfig("all", dead_letter_topic="dlq")), columns
    rig.engine.tasks = lambda work: [
        followed(work.partitions[0].where, 0, 0, work.attempt),
        RowErrors("t", 0, "1:9", 2, 2, "too long", "1:7"),
    ]
    with pytest.raises(TerminalError, match="2 rows of t-0, and nobody can tell which: the table has no column") as end:
        rig.run()
    assert "--reset 10 --topic t --partition 0" in end.value.next_step
    assert rig.ledger.committed[P0] == 0


def test_accounts_that_one_transaction_does_not_hold_go_on(rig: Rig) -> None:
    rig.config = SinkConfig("s", errors=ErrorsConfig("all", dead_letter_topic="dlq"))
    rig.ends = {P0: 9, P1: 0}

    def work(work: Any) -> list[Report]:
        if isinstance(work, AccountWork):
            end = 5 if work.offsets.start == 0 else 9
            found = Tolerated("t", 0, 1, 1, end, {"rejected_by_snowflake": 1}, [], [end - 1])
            assert work.unaccounted == (2 if end == 5 else 1)
            return [found, Accounted("t", 0, work.offsets.start, end, 3, 1)]
        left = 2 - rig.ledger.channels[P0].row_errors
        first = followed(work.partitions[0].where, rig.ledger.committed[P0], 0, work.attempt)
        return [first, *([RowErrors("t", 0, "1:8", 2, left, "m", None)] if left else [])]

    rig.engine.tasks = work
    rig.run()
    assert rig.ledger.committed[P0] == 9
    assert rig.ledger.channels[P0].row_errors == 2


def test_a_cut_moves_the_ledger_and_the_same_cut_again_is_a_fault(rig: Rig) -> None:
    rig.ends = {P0: 10, P1: 0}
    progress = iter([(4, Cut("t", 0, 4, "full")), (8, Cut("t", 0, 8, "full")), (8, Cut("t", 0, 8, "full"))])

    def work(work: Any) -> list[Report]:
        at, cut = next(progress)
        return [followed(P0, at, at, work.attempt), cut]

    rig.engine.tasks = work
    with pytest.raises(ClaimAgainError, match="does not come past offset 8: full"):
        rig.run()
    assert [moves for moves, _, _ in rig.table.moves] == [(Move(P0, 0, 4),), (Move(P0, 4, 8),)]
    assert rig.letters == [{P0: 4}, {P0: 8}]


def test_an_error_of_a_task_ends_the_epoch_with_what_is_durable_in_the_ledger(rig: Rig) -> None:
    error = TransientError("Kafka does not answer")
    rig.engine.tasks = lambda work: [
        followed(work.partitions[0].where, 3, 3, work.attempt),
        Failed.of(error, 5.0),
    ]
    with pytest.raises(TransientError, match="Kafka does not answer"):
        rig.run()
    assert rig.deadline.failing_for() >= 5.0
    assert 3 in rig.ledger.committed.values()


@pytest.mark.parametrize("lost", [True, False], ids=["killed", "cut off"])
def test_a_task_that_dies_is_told_with_what_it_was_to_read(rig: Rig, lost: bool) -> None:
    def die(_work: Any) -> list[Report]:
        if lost:
            raise EngineFailedError("an executor is gone")
        return []

    rig.engine.tasks = die
    with pytest.raises(BatchFailedError) as raised:
        rig.run()
    assert [(each.start, each.end) for each in raised.value.ranges] == [(0, 10)]


def test_a_task_that_says_nothing_is_given_up(rig: Rig) -> None:
    rig.deadline = Deadline(0.2)
    rig.engine.tasks = lambda _work: rig.engine.until_cancelled() or []
    with pytest.raises(TransientError, match="has not reported anything"):
        rig.run()
    assert rig.engine.cancelled.is_set()


def test_a_task_that_says_much_and_does_nothing_is_given_up(rig: Rig) -> None:
    rig.deadline = Deadline(0.3)

    def work(work: Any) -> list[Report]:
        (where,) = (each.where for each in work.partitions)
        for counter in range(10_000):
            Documents.said[where] = TaskReport(3, counter, 1, "1:0", 1, 1, attempt=work.attempt)
            if rig.engine.cancelled.wait(0.01):
                raise EngineFailedError("cancelled")
        return []

    rig.engine.tasks = work
    with pytest.raises(TransientError, match=r"no progress .* Kafka holds more"):
        rig.run()


def test_a_reason_to_end_is_raised_once_the_tasks_are_cancelled(rig: Rig) -> None:
    rig.targets = None
    rig.engine.tasks = lambda _work: rig.engine.until_cancelled() or []
    with pytest.raises(PlanAgainError):
        rig.run(lambda: PlanAgainError("new partitions") if rig.engine.works else None)
    assert rig.engine.cancelled.is_set()


def test_a_ledger_that_does_not_answer_at_a_stop_ends_as_a_stop(rig: Rig) -> None:
    rig.targets, rig.table.fault = None, TransientError("Snowflake does not answer")

    def work(work: Any) -> list[Report]:
        rig.stop.set()
        return rig.finish(work)

    rig.engine.tasks = work
    with pytest.raises(StopRequestedError):
        rig.run()
