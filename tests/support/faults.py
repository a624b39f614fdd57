"""Faults between any two steps of the commit protocol, put in from outside: product code has no hooks for tests.

A step is told by what leaves the process: the statements that go to Snowflake, the plan that tasks get, the file that
is written. Passages are counted in files, so that a fault counts over all processes of a sink, strikes once,
and can be asked afterwards whether it did.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
from snowflake.connector import errors as driver
from snowflake.connector.cursor import SnowflakeCursorBase

from firn.kafka.transactional_producer import TransactionalProducer
from firn.ledger.positions import Ledger, Move
from spark_jobs.sink import dispatch
from spark_jobs.sink.batch import BatchRunner
from spark_jobs.sink.planner import Planner
from spark_jobs.sink.task.partition_task import RangeWork, TaskPlan, run_task

VARIABLE = "TEST_FAULTS"
"""The environment variable that tells `faulty_job` what to arm: a JSON list of faults."""


class Step(StrEnum):
    """Where a fault may strike, in the protocol's order."""

    CLAIMED = "after the claim"
    PLANNED = "after the plan was made"
    WRITING = "while a file is written"
    BEFORE_PUT = "before a PUT"
    PUT = "after a PUT"
    BEFORE_LETTERS = "before dead letters are published"
    LETTERS = "after dead letters were published"
    DISPATCHED = "after all PUTs"
    BEGUN = "after BEGIN"
    COPIED = "after COPY"
    OWNED = "after the owner's UPDATE"
    MOVED = "after the partitions' UPDATE"
    BEFORE_COMMIT = "before COMMIT"
    COMMITTED = "after COMMIT, before its answer is taken"
    ADVANCED = "after the ledger's picture has moved on"
    REMOVED = "after the removal of files"


class Kind(StrEnum):
    """What happens there."""

    KILL = "SIGKILL of the driver"
    KILL_WORKER = "SIGKILL of the process that gets there"
    STOP = "SIGSTOP of the driver"
    TERM = "SIGTERM of the driver"
    CRASH = "an exception that nobody expects; nothing leaves this session afterwards"
    NO_SPACE = "ENOSPC"
    UNREACHABLE = "the Snowflake driver gives up"


class CrashError(Exception):
    """A thread ends here, as if its process had."""


@dataclass(frozen=True)
class Fault:
    """One fault at the `nth` passage of a step. `folder` is its own; `driver` the process that KILL and STOP strike.

    times: it strikes at that passage and the ones that follow; a process that is killed passes no more.
    """

    step: Step
    kind: Kind
    folder: str
    nth: int = 1
    times: int = 1
    driver: int = field(default_factory=os.getpid)

    @property
    def fired(self) -> int:
        """How often it struck."""
        return _size(Path(self.folder) / "fired")

    def passing(self, step: Step) -> None:
        """This process is at `step`: count, and strike if it is the turn."""
        if step != self.step:
            return
        if self.nth <= _count(Path(self.folder) / "passed") < self.nth + self.times:
            _count(Path(self.folder) / "fired")
            self._strike()

    def _strike(self) -> None:
        match self.kind:
            case Kind.KILL:
                _signal(self.driver, signal.SIGKILL)
            case Kind.STOP:
                _signal(self.driver, signal.SIGSTOP)
            case Kind.TERM:
                os.kill(self.driver, signal.SIGTERM)
            case Kind.KILL_WORKER:
                _signal(os.getpid(), signal.SIGKILL)
            case Kind.CRASH:
                raise CrashError(self.step)
            case Kind.NO_SPACE:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            case Kind.UNREACHABLE:
                raise driver.OperationalError(msg=f"no answer {self.step}", errno=250001)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the environment of a process, which is the driver there."""
        return {name: value for name, value in asdict(self).items() if name != "driver"}


@dataclass
class Interruption:
    """Something else that happens at the `nth` passage of a step of the driver: an action of this process."""

    step: Step
    action: Callable[[], object]
    nth: int = 1
    passed: int = field(default=0, init=False)

    @property
    def fired(self) -> int:
        """How often it happened."""
        return int(self.passed >= self.nth)

    def passing(self, step: Step) -> None:
        """The driver is at `step`."""
        if step == self.step:
            self.passed += 1
            if self.passed == self.nth:
                self.action()


def _signal(pid: int, number: signal.Signals) -> None:
    os.kill(pid, number)
    if pid != os.getpid():
        time.sleep(30)  # the driver's end takes this worker along; nothing goes on in between


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _count(file: Path) -> int:
    """Append a byte, also when several processes do; returns how many there are now."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, b".")
        return os.lseek(handle, 0, os.SEEK_CUR)
    finally:
        os.close(handle)


def from_environment() -> list[Fault]:
    """The faults that a test gave this process, which is the driver."""
    return [
        Fault(**{**each, "step": Step(each["step"]), "kind": Kind(each["kind"])})
        for each in json.loads(os.environ.get(VARIABLE, "[]"))
    ]


def environment(*faults: Fault) -> dict[str, str]:
    """What a process needs in its environment to be struck by `faults`."""
    return {VARIABLE: json.dumps([fault.as_json() for fault in faults])}


@contextmanager
def armed(*faults: Fault | Interruption, clock: float = 0.0) -> Iterator[None]:
    """This process, as the driver, and the Python workers of its batches; their clocks moved by `clock` seconds."""
    hooks = _Hooks(faults)
    for_workers = tuple(fault for fault in faults if isinstance(fault, Fault))
    with ExitStack() as patches:
        for patched in (
            patch.object(SnowflakeCursorBase, "execute", hooks.statement(SnowflakeCursorBase.execute)),
            patch.object(Planner, "next", hooks.planned(Planner.next)),
            patch.object(BatchRunner, "_commit", hooks.batch(BatchRunner._commit)),
            patch.object(Ledger, "advance", hooks.advance(Ledger.advance)),
            patch.object(dispatch, "run_task", partial(in_worker, for_workers, clock)),
            moved_clock(clock),
        ):
            patches.enter_context(patched)
        yield


def in_worker(
    faults: tuple[Fault, ...], clock: float, plan: TaskPlan, groups: Iterator[Sequence[RangeWork]]
) -> Iterator[str]:
    """A task of an armed driver. A worker outlives its task, so the patches end with it."""
    hooks = _Hooks(faults)
    with (
        patch.object(SnowflakeCursorBase, "execute", hooks.statement(SnowflakeCursorBase.execute)),
        patch.object(pq.ParquetWriter, "write_table", hooks.writing(pq.ParquetWriter.write_table)),
        patch.object(TransactionalProducer, "send", hooks.letters(TransactionalProducer.send)),
        moved_clock(clock),
    ):
        yield from run_task(plan, groups)


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
        self._thread = threading.local()  # `batch`: whether this thread runs a batch
        self._crashed: set[int] = set()

    def _at(self, *steps: Step) -> None:
        for step in steps:
            for fault in self._faults:
                fault.passing(step)

    def statement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def execute(cursor: Any, command: str, *args: Any, **kwargs: Any) -> Any:
            session = id(cursor.connection)
            if session in self._crashed:
                raise CrashError("this session is dead")
            before, after = _around(command, in_batch=getattr(self._thread, "batch", False))
            try:
                self._at(*before)
                answer = original(cursor, command, *args, **kwargs)
                self._at(*after)
            except CrashError:
                self._crashed.add(session)
                raise
            return answer

        return execute

    def batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def commit(*args: Any) -> Any:
            self._thread.batch = True
            try:
                return original(*args)
            finally:
                self._thread.batch = False

        return commit

    def planned(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def next_ranges(*args: Any) -> Any:
            ranges = original(*args)
            if ranges:
                self._at(Step.PLANNED)
            return ranges

        return next_ranges

    def advance(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def advance(ledger: Ledger, moves: tuple[Move, ...]) -> None:
            original(ledger, moves)
            self._at(Step.ADVANCED)

        return advance

    def writing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def write_table(writer: Any, *args: Any, **kwargs: Any) -> Any:
            self._at(Step.WRITING)
            return original(writer, *args, **kwargs)

        return write_table

    def letters(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def send(*args: Any, **kwargs: Any) -> Any:
            self._at(Step.BEFORE_LETTERS)
            answer = original(*args, **kwargs)
            self._at(Step.LETTERS)
            return answer

        return send


_Steps = tuple[Step, ...]
_OUTSIDE: dict[str, tuple[_Steps, _Steps]] = {"COMMIT": ((), (Step.CLAIMED,)), "PUT": ((Step.BEFORE_PUT,), (Step.PUT,))}
_IN_BATCH: dict[str, tuple[_Steps, _Steps]] = {
    "BEGIN": ((Step.DISPATCHED,), (Step.BEGUN,)),
    "COPY": ((), (Step.COPIED,)),
    "COMMIT": ((Step.BEFORE_COMMIT,), (Step.COMMITTED,)),
    "REMOVE": ((), (Step.REMOVED,)),
}


def _around(statement: str, *, in_batch: bool) -> tuple[_Steps, _Steps]:
    """The steps before and after a statement. A driver's COMMIT outside a batch is a claim's."""
    words = statement.split(None, 1)
    if in_batch and words[0] == "UPDATE":
        return ((), (Step.MOVED,)) if "NEXT_OFFSET =" in statement else ((), (Step.OWNED,))
    return (_IN_BATCH if in_batch else _OUTSIDE).get(words[0], ((), ()))
