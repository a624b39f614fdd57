"""How a process under test comes to know its step, from outside: product code has no hooks for tests.

A step is told by what leaves the process: the statements that go to Snowflake, the plan that tasks get, the file that
is written, the rows that are appended. Not for what a fault is (`faults`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
from snowflake.connector.cursor import SnowflakeCursorBase

from firn.channels.client import ChannelClient, OpenChannel
from firn.kafka.group_documents import GroupDocuments
from firn.kafka.transactional_producer import TransactionalProducer
from firn.ledger.positions import Ledger
from firn.ledger.table import LedgerTable
from firn.sinks.channel_folding import ChannelFolder
from spark_jobs.sink import dispatch
from spark_jobs.sink.batch import BatchRunner
from spark_jobs.sink.continuous import accounting, group_tasks
from spark_jobs.sink.continuous.bookkeeping import Bookkeeper
from spark_jobs.sink.planner import Planner
from tests.support.faults import CrashError, Fault, Interruption, Step

_TASKS = ((dispatch, "run_task"), (group_tasks, "run_group"), (accounting, "run_account"))
"""Where drivers name what their tasks run."""


@contextmanager
def armed(*faults: Fault | Interruption, clock: float = 0.0) -> Iterator[None]:
    """This process, as the driver, and the Python workers of its tasks; their clocks moved by `clock` seconds."""
    hooks = _Hooks(faults)
    for_workers = tuple(fault for fault in faults if isinstance(fault, Fault))
    with ExitStack() as patches:
        for patched in (
            patch.object(SnowflakeCursorBase, "execute", hooks.statement(SnowflakeCursorBase.execute)),
            patch.object(LedgerTable, "_take", hooks.around(LedgerTable._take, after=Step.TAKEN)),
            patch.object(ChannelFolder, "__call__", hooks.around(ChannelFolder.__call__, after=Step.FOLDED)),
            patch.object(LedgerTable, "claim", hooks.around(LedgerTable.claim, after=Step.CLAIMED)),
            patch.object(Planner, "next", hooks.planned(Planner.next)),
            patch.object(BatchRunner, "_commit", hooks.moving(BatchRunner._commit)),
            patch.object(Bookkeeper, "move", hooks.moving(Bookkeeper.move)),
            patch.object(accounting.Accountant, "_move", hooks.moving(accounting.Accountant._move)),
            patch.object(Ledger, "advance", hooks.around(Ledger.advance, after=Step.ADVANCED)),
            patch.object(LedgerTable, "seal", hooks.around(LedgerTable.seal, after=Step.SEALED)),
            patch.object(LedgerTable, "settle", hooks.around(LedgerTable.settle, after=Step.SETTLED)),
            *(patch.object(at, name, partial(in_worker, getattr(at, name), for_workers, clock)) for at, name in _TASKS),
            moved_clock(clock),
        ):
            patches.enter_context(patched)
        yield


def in_worker(
    task: Callable[[Any, Iterator[Any]], Iterator[str]],
    faults: tuple[Fault, ...],
    clock: float,
    plan: Any,
    groups: Iterator[Any],
) -> Iterator[str]:
    """A task of an armed driver. A worker outlives its task, so the patches end with it."""
    hooks = _Hooks(faults)
    with (
        patch.object(SnowflakeCursorBase, "execute", hooks.statement(SnowflakeCursorBase.execute)),
        patch.object(pq.ParquetWriter, "write_table", hooks.around(pq.ParquetWriter.write_table, before=Step.WRITING)),
        patch.object(
            TransactionalProducer,
            "send",
            hooks.around(TransactionalProducer.send, before=Step.BEFORE_LETTERS, after=Step.LETTERS),
        ),
        patch.object(ChannelClient, "open", hooks.around(ChannelClient.open, after=Step.OPENED)),
        patch.object(
            OpenChannel, "append", hooks.around(OpenChannel.append, before=Step.BEFORE_APPEND, after=Step.APPENDED)
        ),
        patch.object(OpenChannel, "status", hooks.around(OpenChannel.status, after=Step.LOOKED)),
        patch.object(GroupDocuments, "offer", hooks.around(GroupDocuments.offer, after=Step.REPORTED)),
        moved_clock(clock),
    ):
        yield from task(plan, groups)


@contextmanager
def moved_clock(seconds: float) -> Iterator[None]:
    """The wall clock of this process, as Python code asks for it; the monotonic one cannot be moved."""
    now, now_ns = time.time, time.time_ns
    with (
        patch.object(time, "time", lambda: now() + seconds),
        patch.object(time, "time_ns", lambda: now_ns() + int(seconds * 1e9)),
    ):
        yield


class _Hooks:
    """Functions of the product and its clients with the steps around them. A session that crashed says nothing more."""

    def __init__(self, faults: Sequence[Fault | Interruption]) -> None:
        self._faults = faults
        self._thread = threading.local()  # `moving`: whether this thread moves the ledger
        self._crashed: set[int] = set()

    def _at(self, *steps: Step | None) -> None:
        for step in filter(None, steps):
            for fault in self._faults:
                fault.passing(step)

    def statement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def execute(cursor: Any, command: str, *args: Any, **kwargs: Any) -> Any:
            session = id(cursor.connection)
            if session in self._crashed:
                raise CrashError("this session is dead")
            before, after = _around(command, moving=getattr(self._thread, "moving", False))
            try:
                self._at(*before)
                answer = original(cursor, command, *args, **kwargs)
                self._at(*after)
            except CrashError:
                self._crashed.add(session)
                raise
            return answer

        return execute

    def moving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A function that moves the ledger: the statements of its transaction are steps."""

        def move(*args: Any) -> Any:
            self._thread.moving = True
            try:
                return original(*args)
            finally:
                self._thread.moving = False

        return move

    def planned(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def next_ranges(*args: Any) -> Any:
            ranges = original(*args)
            if ranges:
                self._at(Step.PLANNED)
            return ranges

        return next_ranges

    def around(
        self, original: Callable[..., Any], *, before: Step | None = None, after: Step | None = None
    ) -> Callable[..., Any]:
        """A function with steps before and after it."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._at(before)
            answer = original(*args, **kwargs)
            self._at(after)
            return answer

        return call


_Steps = tuple[Step, ...]
_ELSEWHERE: dict[str, tuple[_Steps, _Steps]] = {"PUT": ((Step.BEFORE_PUT,), (Step.PUT,))}
_MOVING: dict[str, tuple[_Steps, _Steps]] = {
    "BEGIN": ((Step.DISPATCHED,), (Step.BEGUN,)),
    "COPY": ((), (Step.COPIED,)),
    "COMMIT": ((Step.BEFORE_COMMIT,), (Step.COMMITTED,)),
    "REMOVE": ((), (Step.REMOVED,)),
}


def _around(statement: str, *, moving: bool) -> tuple[_Steps, _Steps]:
    """The steps before and after a statement."""
    words = statement.split(None, 1)
    if moving and words[0] == "UPDATE":
        return ((), (Step.MOVED,)) if "NEXT_OFFSET =" in statement else ((), (Step.OWNED,))
    return (_MOVING if moving else _ELSEWHERE).get(words[0], ((), ()))
