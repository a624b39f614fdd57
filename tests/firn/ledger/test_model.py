"""The ledger against a model: claims, batches, crashes, zombies, lost answers and resets in any order, with real SQL.

Two runs of one sink share a local Snowflake. A run does what a batch does: it opens a transaction, writes one row for
each record it read, moves the ledger, and commits; anything may happen between two of these steps. After every step
the table must hold each record exactly once below the committed position (more often only where a reset re-reads it)
and the ledger must stand where the model stands. Sessions do not wait for locks: who would wait is refused instead,
so that one thread can hold several transactions open at once.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Literal
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from snowflake.connector import SnowflakeConnection

from firn.errors import ClaimAgainError, FencedError, TransientError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Owner, SinkRunsError
from firn.ledger.positions import Ledger, LostPositionError, Move, Position
from firn.ledger.rows import TABLE, LedgerRows
from firn.ledger.table import LedgerTable
from firn.settings import Settings
from firn.snowflake import transactions
from firn.snowflake.connection import connect, execute, open_connection, query
from firn.snowflake.faults import LockConflictError
from firn.snowflake.identifiers import Namespace
from firn.snowflake.transactions import transaction
from tests.support.sinks import login_of
from tests.support.snowflake import drop_schema, make_schema

pytestmark = pytest.mark.stack

Answer = Literal["comes", "lost after commit", "lost before commit"]
SLOTS, ANSWERS = st.integers(0, 1), st.sampled_from(["comes"] * 3 + ["lost after commit", "lost before commit"])
CUTS = st.sampled_from([None, None, None, 0, 1])
HOUR = 3600.0


class Sessions:
    """Snowflake sessions in a schema of their own; opening one takes longer than a step, so they are used again."""

    def __init__(self, settings: Settings, schema: str) -> None:
        self._login = login_of(settings)
        self._idle: list[SnowflakeConnection] = []
        self.namespace = Namespace(self._login.database, schema)

    def take(self) -> SnowflakeConnection:
        if self._idle:
            return self._idle.pop()
        connection = open_connection(self._login)
        execute(connection, "ALTER SESSION SET LOCK_TIMEOUT = 0")
        return connection

    def give_back(self, connection: SnowflakeConnection) -> None:
        execute(connection, "ROLLBACK")
        self._idle.append(connection)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()


@pytest.fixture(scope="module")
def sessions(settings: Settings) -> Iterator[Sessions]:
    schema = f"LEDGER_MODEL_{uuid.uuid4().hex[:8].upper()}"
    make_schema(settings, schema)
    with connect(login_of(settings)) as admin:
        execute(admin, f"CREATE TABLE STREAMING.{schema}.RECORDS (SINK VARCHAR, PARTITION INT, OFFSET_ INT)")
        opened = Sessions(settings, schema)
        LedgerTable(opened.namespace, "").ensure(admin)
        yield opened
        opened.close()
    drop_schema(settings, schema)


@dataclass
class Partition:
    """A partition of the topic: offsets that hold a record, below `latest`; those below `earliest` have expired."""

    records: set[int] = field(default_factory=set)
    earliest: int = 0
    latest: int = 0


@dataclass
class Batch:
    """A batch between its first row and COMMIT."""

    ends: Mapping[TopicPartition, int]
    moves: tuple[Move, ...]
    cut: bool
    open: AbstractContextManager[None]
    moved: bool = False


@dataclass
class Run:
    """One process: what it believes (`ledger`), and which epochs it may have written."""

    run_id: str
    table: LedgerTable
    connection: SnowflakeConnection
    ledger: Ledger | None = None
    batch: Batch | None = None
    highest: int = 0
    fenced: bool = False
    lost: bool = False


@dataclass
class Model:
    """What must be true in Snowflake. `holder` is the run id in the owner row, empty when nobody runs the sink."""

    epoch: int = 0
    holder: str = ""
    claimed: bool = False
    remembered: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    rows: Counter[tuple[int, int]] = field(default_factory=Counter)


@contextmanager
def answer_to_commit(answer: Answer, number: int = 1) -> Iterator[None]:
    """The COMMIT of this number happens or not, and its answer comes or not; those before it are answered."""
    commits = count(1)

    def losing(to: SnowflakeConnection, sql: str, params: tuple[object, ...] = ()) -> int:
        lost = sql == "COMMIT" and next(commits) == number
        if lost and answer == "lost before commit":
            raise TransientError("the answer was lost")
        changed = execute(to, sql, params)
        if lost and answer == "lost after commit":
            raise TransientError("the answer was lost")
        return changed

    with patch.object(transactions, "execute", losing):
        yield


class LedgerMachine(RuleBasedStateMachine):
    """Two slots for runs (the older of two is the zombie), one topic that grows, and a person who resets."""

    def __init__(self, sessions: Sessions) -> None:
        super().__init__()
        self._sessions = sessions
        self._sink = f"m_{uuid.uuid4().hex[:12]}"
        self._person = LedgerTable(sessions.namespace, self._sink)
        self._observer = sessions.take()
        self._runs: list[Run | None] = [None, None]
        self._topic: dict[TopicPartition, Partition] = {}
        self._model = Model()
        self._locked_by: Run | None = None
        self._first_offset: Literal["earliest", "latest"] = "earliest"

    @initialize(first_offset=st.sampled_from(["earliest", "latest"]), partitions=st.integers(1, 3))
    def begin(self, first_offset: Literal["earliest", "latest"], partitions: int) -> None:
        self._first_offset = first_offset
        for number in range(partitions):
            self._topic[TopicPartition(self._sink, number)] = Partition(set(range(2, 20, 3)) | {4, 9}, 0, 22)
        self._runs[0] = self._new_run()
        self._claim(0, "comes", intruder=True)  # two first starts at once

    # What happens to the topic.

    @rule(number=st.integers(0, 3), count=st.integers(1, 4), gap=st.integers(0, 2))
    def produce(self, number: int, count: int, gap: int) -> None:
        """Records behind a gap, as compaction or a transaction marker leaves it; a gap may be the last thing."""
        if at := self._topic.get(TopicPartition(self._sink, number)):
            at.records |= set(range(at.latest + gap, at.latest + gap + count))
            at.latest += gap + count + gap

    @rule(number=st.integers(0, 3), beyond=st.sampled_from([0] * 6 + [1, 3]))
    def expire_or_add(self, number: int, beyond: int) -> None:
        """Retention takes what is committed, and sometimes more; a partition that is not there is added."""
        where = TopicPartition(self._sink, number)
        if at := self._topic.get(where):
            at.earliest = max(at.earliest, min(at.latest, self._model.positions.get(where, at.earliest) + beyond))
        else:
            self._topic[TopicPartition(self._sink, len(self._topic))] = Partition({0, 1}, 0, 2)

    # What runs do, one step at a time.

    @rule(slot=SLOTS, steps=st.sampled_from([2, 3, 4, 8]), size=st.integers(1, 5), cut=CUTS, answer=ANSWERS)
    def run(self, slot: int, steps: int, size: int, cut: int | None, answer: Answer) -> None:
        """The next steps of the run in this slot: start, claim, rows, ledger, COMMIT."""
        for _ in range(steps):
            self._step(slot, size, cut, answer)

    @rule(
        slot=SLOTS,
        what=st.sampled_from(["claim", "claim in doubt", "claim under attack", "die", "beat", "keep", "release"]),
        commit=st.integers(1, 2),
    )
    def disturb(self, slot: int, what: str, commit: int) -> None:
        """At any time: a run claims though it holds the sink or is fenced; a process ends; a heartbeat comes."""
        run = self._runs[slot] = self._runs[slot] or self._new_run()
        if what == "die":
            self._end(slot)
        elif run.batch is None and what.startswith("claim"):
            answer: Answer = "lost after commit" if what.endswith("doubt") else "comes"
            self._claim(slot, answer, intruder=what.endswith("attack"), commit=commit)
            if what.endswith("doubt") and run.ledger:
                self.run(slot, 2, 3, None, "comes")  # carelessly, with the ledger of its claim before
        elif run.batch is None and run.ledger:
            self._sign_of_life(run, run.ledger, what)

    @rule(to=st.sampled_from(["earliest", "latest", "one back"]), some=st.booleans(), patient=st.booleans())
    def reset(self, to: str, some: bool, patient: bool) -> None:
        """A person says where partitions go on; with `patient`, only when nobody runs the sink."""
        chosen = list(self._topic)[: 1 if some else None]
        offsets = {where: self._offset(where, to) for where in chosen}
        runs = patient and bool(self._model.holder)
        error = ClaimAgainError if self._locked_by else SinkRunsError if runs else None
        positions = {where: Position(offset, "id") for where, offset in offsets.items()}
        with expected(error):
            epoch = self._person.reset(self._observer, positions, running_within=HOUR if patient else 0.0)
            assert epoch == self._model.epoch + 1
        if error is None:
            self._model.epoch, self._model.holder = self._model.epoch + 1, ""
            self._model.positions |= offsets

    # The truth, after each step.

    @invariant()
    def table_and_ledger_are_what_the_model_says(self) -> None:
        statement = f"SELECT PARTITION, OFFSET_ FROM {self._table('RECORDS')} WHERE SINK = ?"
        rows = query(self._observer, statement, (self._sink,))
        assert Counter((int(row["PARTITION"]), int(row["OFFSET_"])) for row in rows) == self._model.rows
        seen = LedgerRows(self._table(TABLE), self._sink).read(self._observer)
        owner = seen.owner or Owner(0, "", 0.0)
        assert (owner.epoch, owner.run_id) == (self._model.epoch, self._model.holder)
        assert owner.method_state.get("times", 0) == self._model.remembered
        assert {where: at.next_offset for where, at in seen.positions.items()} == self._model.positions

    def teardown(self) -> None:
        for slot in range(len(self._runs)):
            self._end(slot)
        self._sessions.give_back(self._observer)

    # How each step is done, and what it must lead to.

    def _step(self, slot: int, size: int, cut: int | None, answer: Answer) -> None:
        run = self._runs[slot]
        if run and run.lost:
            run.lost = False
            self.reset("earliest", some=False, patient=False)  # what the error tells a person to do
        elif run is None or run.fenced:
            self._end(slot)
            self._runs[slot] = self._new_run()
            self._claim(slot, "comes", intruder=False)
        elif run.ledger is None:
            self._claim(slot, answer, intruder=False)
        elif run.batch is None:
            self._write_rows(run, run.ledger, size, cut)
        elif not run.batch.moved:
            self._move(run, run.ledger, run.batch)
        else:
            self._commit(run, run.ledger, run.batch, answer)

    def _end(self, slot: int) -> None:
        """The process ends where it stands: its session goes, and what it had not committed goes with it."""
        if run := self._runs[slot]:
            if run.batch:
                self._lose_session(run)
            self._sessions.give_back(run.connection)
            self._runs[slot] = None

    def _sign_of_life(self, run: Run, ledger: Ledger, what: str) -> None:
        model = self._model
        own = (model.epoch, model.holder) == (ledger.epoch, run.run_id)
        error = LockConflictError if self._locked_by else None if own else FencedError
        if what == "release":
            run.table.release(run.connection, ledger.epoch)  # says nothing, whatever happened
            model.holder = model.holder if error else ""
            return
        with expected(error):
            if what == "beat":
                run.table.beat(run.connection, ledger.epoch)
            else:
                run.table.update_method_state(
                    run.connection, ledger.epoch, lambda state: {"times": state.get("times", 0) + 1}
                )
                model.remembered += 1

    def _claim(self, slot: int, answer: Answer, *, intruder: bool, commit: int = 1) -> None:
        """Both transactions of a claim; the answer to the first or the second COMMIT may be lost."""
        run, model = self._runs[slot], self._model
        assert run is not None
        locked, epoch = self._locked_by is not None, model.epoch + 1
        fenced = not locked and bool(run.highest) and model.epoch > run.highest
        if taken := not (locked or fenced):
            run.highest = epoch  # as far as the run knows
            if commit == 2 or answer != "lost before commit":
                model.epoch, model.holder = epoch, run.run_id
        raised: type[Exception] | None = None
        try:
            with answer_to_commit(answer, commit):
                observe = self._disturbed(slot) if intruder else self._observe
                run.ledger = run.table.claim(run.connection, observe, self._first_offset, lambda topic: topic)
        except (ClaimAgainError, FencedError, LostPositionError) as error:
            raised = type(error)
        in_doubt = taken and answer != "comes" and commit == 1
        if taken and not in_doubt:
            fenced = model.epoch > epoch  # somebody else claimed in the middle
        assert raised is (
            ClaimAgainError if locked or in_doubt else self._after_observing(run, answer, fenced=fenced, taken=taken)
        )
        run.fenced, run.lost = raised is FencedError, raised is LostPositionError
        if raised is ClaimAgainError and taken:
            self._lose_session(run)  # a careless run would go on with the ledger that it had

    def _after_observing(self, run: Run, answer: Answer, *, fenced: bool, taken: bool) -> type[Exception] | None:
        """How a claim must end that got so far, and what its second transaction must leave."""
        model = self._model
        positions = self._first_positions() | model.positions
        if taken and any(at.earliest > positions[where] for where, at in self._topic.items()):
            return LostPositionError
        if fenced:
            return FencedError
        if answer != "lost before commit":
            model.claimed, model.positions = True, positions
        if answer != "comes":
            return ClaimAgainError
        assert run.ledger is not None
        assert (run.ledger.epoch, run.ledger.committed) == (model.epoch, positions)
        return None

    def _disturbed(self, slot: int) -> Callable[[], dict[TopicPartition, KafkaPartition]]:
        """Between the two transactions of a claim the other slot claims too: it is the newer run then."""
        self._runs[1 - slot] = other = self._runs[1 - slot] or self._new_run()

        def observe() -> dict[TopicPartition, KafkaPartition]:
            if other.batch is None:
                self._claim(1 - slot, "comes", intruder=False)
            return self._observe()

        return observe

    def _write_rows(self, run: Run, ledger: Ledger, size: int, cut: int | None) -> None:
        """Read a range of each partition and write its records, skipping what is committed."""
        if any(self._topic[where].earliest > at for where, at in ledger.committed.items()):
            run.ledger = None  # Spark fails: the offsets are gone
            return
        ends = {where: min(self._topic[where].latest, at + size) for where, at in ledger.committed.items()}
        stops = {} if cut is None else {where: ledger.committed[where] + cut for where in list(ends)[:1]}
        moves = ledger.add_in_flight([Move(where, ledger.committed[where], end) for where, end in ends.items()], stops)
        if not moves:
            ledger.advance(moves)
            run.ledger = None if stops else ledger  # behind a cut it plans anew
            self.produce(0, 2, 1)
            return
        opened = transaction(run.connection)
        opened.__enter__()
        run.batch = Batch(ends, moves, bool(stops), opened)
        rows = [(m.where.partition, offset) for m in moves for offset in self._read(m)]
        if rows:
            values = ", ".join(["(?, ?, ?)"] * len(rows))
            bound = [value for number, offset in rows for value in (self._sink, number, offset)]
            execute(run.connection, f"INSERT INTO {self._table('RECORDS')} SELECT * FROM VALUES {values}", bound)

    def _move(self, run: Run, ledger: Ledger, batch: Batch) -> None:
        model = self._model
        error: type[Exception] | None = None
        if self._locked_by:
            error = LockConflictError
        elif (model.epoch, model.holder) != (ledger.epoch, run.run_id):
            error = FencedError
        elif any(model.positions[move.where] != move.start for move in batch.moves):
            error = ClaimAgainError
        with expected(error):
            run.table.move(run.connection, ledger.epoch, f"{ledger.epoch}-0", batch.moves)
        if error is None:
            batch.moved, self._locked_by = True, run
        else:
            self._abandon(run)
            run.ledger, run.fenced = None, error is FencedError

    def _commit(self, run: Run, ledger: Ledger, batch: Batch, answer: Answer) -> None:
        self._locked_by = run.batch = None
        if answer != "lost before commit":
            for move in batch.moves:
                start = self._model.positions[move.where]
                self._model.rows.update(
                    (move.where.partition, o) for o in self._read(Move(move.where, start, move.end))
                )
                self._model.positions[move.where] = move.end
        with expected(None if answer == "comes" else ClaimAgainError), answer_to_commit(answer):
            batch.open.__exit__(None, None, None)
        if answer == "comes":
            ledger.advance(batch.moves)
            run.ledger = None if batch.cut else ledger
        else:
            self._lose_session(run)  # a careless run would go on with the ledger that it had

    def _abandon(self, run: Run) -> None:
        """What leaving the transaction by an error does."""
        assert run.batch is not None
        with suppress(KeyboardInterrupt):
            run.batch.open.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
        run.batch = None

    def _lose_session(self, run: Run) -> None:
        """What Snowflake does when a session is gone: it rolls back. The run, if it lives on, opens another one."""
        fresh = self._sessions.take()
        self._sessions.give_back(run.connection)
        if run.batch is not None:
            self._abandon(run)
        self._locked_by = None if self._locked_by is run else self._locked_by
        run.connection = fresh
        if run.ledger is not None:  # what it had staged is lost to it, too
            run.ledger = Ledger(run.ledger.sink, run.ledger.epoch, dict(run.ledger.committed))

    def _new_run(self) -> Run:
        run_id = uuid.uuid4().hex
        return Run(run_id, LedgerTable(self._sessions.namespace, self._sink, run_id), self._sessions.take())

    def _observe(self) -> dict[TopicPartition, KafkaPartition]:
        return {where: KafkaPartition("id", at.earliest, at.latest) for where, at in self._topic.items()}

    def _first_positions(self) -> dict[TopicPartition, int]:
        latest = self._first_offset == "latest" and not self._model.claimed
        return {where: at.latest if latest else at.earliest for where, at in self._topic.items()}

    def _offset(self, where: TopicPartition, to: str) -> int:
        at = self._topic[where]
        offsets = {"earliest": at.earliest, "latest": at.latest}
        return offsets.get(to, max(at.earliest, self._model.positions.get(where, at.latest) - 1))

    def _read(self, move: Move) -> list[int]:
        return sorted(o for o in self._topic[move.where].records if move.start <= o < move.end)

    def _table(self, name: str) -> str:
        return self._sessions.namespace.qualified(name)


@contextmanager
def expected(error: type[Exception] | None) -> Iterator[None]:
    """The block must raise exactly this kind of error, or none."""
    try:
        yield
    except Exception as raised:
        if error is None or type(raised) is not error:
            raise
    else:
        assert error is None, f"{error.__name__} was expected"


def _drive(sessions: Sessions, examples: int, steps: int) -> None:
    class Machine(LedgerMachine):
        def __init__(self) -> None:
            super().__init__(sessions)

    profile = hypothesis_settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Machine, settings=profile)


def test_nothing_is_lost_or_doubled_in_any_order(sessions: Sessions) -> None:
    _drive(sessions, examples=3, steps=25)


@pytest.mark.full
def test_nothing_is_lost_or_doubled_in_many_long_orders(sessions: Sessions) -> None:
    _drive(sessions, examples=40, steps=50)
