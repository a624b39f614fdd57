"""Faults between any two steps of the commit protocol: which, where, and how often they struck.

Passages are counted in files, so that a fault counts over all processes of a sink, strikes once, and can be asked
afterwards whether it did. Not for how a process comes to know its step (`faults_hooks`).
"""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from snowflake.connector import errors as driver

from firn.connector.config import Method

VARIABLE = "TEST_FAULTS"
"""The environment variable that tells `faulty_job` what to arm: a JSON list of faults."""


class Step(StrEnum):
    """Where a fault may strike, in the protocol's order; of both methods, unless OF_SNOWPIPE or OF_STREAMING has it."""

    TAKEN = "between the two transactions of a claim"
    FOLDED = "after channels were opened for what their tokens say"
    CLAIMED = "after the claim"
    PLANNED = "after the plan was made"
    OPENED = "after a task opened a channel, before it asks who may write"
    WRITING = "while a file is written"
    BEFORE_PUT = "before a PUT"
    PUT = "after a PUT"
    BEFORE_LETTERS = "before dead letters are published"
    LETTERS = "after dead letters were published"
    BEFORE_APPEND = "before rows are appended"
    APPENDED = "after rows were appended, before they are sent"
    LOOKED = "after a look at a channel's token"
    REPORTED = "after a task reported how far it is"
    DISPATCHED = "before BEGIN"
    BEGUN = "after BEGIN"
    COPIED = "after COPY"
    OWNED = "after the owner's UPDATE"
    MOVED = "after the partitions' UPDATE"
    BEFORE_COMMIT = "before COMMIT"
    COMMITTED = "after COMMIT, before its answer is taken"
    ADVANCED = "after the ledger's picture has moved on"
    REMOVED = "after the removal of files"
    SEALED = "after no task may append any more"
    SETTLED = "after the ledger says that no token is ahead of it"


OF_LETTERS = (Step.BEFORE_LETTERS, Step.LETTERS)
OF_SNOWPIPE = (Step.PLANNED, Step.WRITING, Step.BEFORE_PUT, Step.PUT, Step.COPIED, Step.REMOVED)
OF_TASKS = (Step.OPENED, *OF_LETTERS, Step.BEFORE_APPEND, Step.APPENDED, Step.LOOKED, Step.REPORTED)
"""Those of a streaming task's process."""
OF_STREAMING = (Step.FOLDED, *(step for step in OF_TASKS if step not in OF_LETTERS), Step.SEALED, Step.SETTLED)


def steps_of(method: Method) -> list[Step]:
    """The steps of a run of this method that every record passes: letters have tests of their own."""
    others = OF_STREAMING if method is Method.SNOWPIPE else OF_SNOWPIPE
    return [step for step in Step if step not in (*others, *OF_LETTERS)]


def passages_of(method: Method) -> list[tuple[Step, int]]:
    """These steps, each with a passage of it that even a run of a few records in two partitions has."""
    # The first looks, one at each channel, find nothing on its way; channels are folded by the claim and at the end.
    passages = [(step, 3 if step is Step.LOOKED else 1) for step in steps_of(method)]
    return [*passages, (Step.FOLDED, 2)] if method is Method.SNOWPIPE_STREAMING else passages


class ExportStep(StrEnum):
    """Where a fault may strike an export, in the order of its protocol."""

    CLAIMED = "after the claim"
    FIRST_MARKERS = "after first markers were written"
    MOVE_BEGUN = "after BEGIN of a move"
    NUMBERED = "after a move took its number"
    MOVED = "after the outbox was written"
    ADVANCED = "after a move wrote how far its source is"
    BEFORE_MOVE_COMMIT = "before COMMIT of a move"
    MOVE_COMMITTED = "after COMMIT of a move, before its answer is taken"
    OPENED = "after a producer fenced the older ones"
    MARKER_READ = "after the marker was read"
    BEGUN = "after a Kafka transaction began"
    PRODUCED = "after a message was produced"
    MARKED = "after all messages were delivered, and the marker was produced"
    BEFORE_COMMIT = "before the Kafka transaction is committed"
    COMMITTED = "after the Kafka transaction was committed, before its answer is taken"
    SETTLE_BEGUN = "after BEGIN of a settle"
    HELD = "after a settle locked its source"
    HISTORY = "after the history was written"
    DELETED = "after published batches were deleted"
    BEFORE_SETTLE_COMMIT = "before COMMIT of a settle"
    SETTLED = "after COMMIT of a settle, before its answer is taken"


class Kind(StrEnum):
    """What happens there."""

    KILL = "SIGKILL of the driver"
    KILL_WORKER = "SIGKILL of the process that gets there"
    STOP = "SIGSTOP of the driver"
    TERM = "SIGTERM of the driver"
    CRASH = "an exception that nobody expects; nothing leaves this session afterwards"
    NO_SPACE = "ENOSPC"
    UNREACHABLE = "the Snowflake driver gives up"
    SILENT = "the Kafka client gives up"


class CrashError(Exception):
    """A thread ends here, as if its process had."""


@dataclass(frozen=True)
class Fault:
    """One fault at the `nth` passage of a step. `folder` is its own; `driver` the process that KILL and STOP strike.

    times: it strikes at that passage and the ones that follow; a process that is killed passes no more.
    """

    step: Step | ExportStep
    kind: Kind
    folder: str
    nth: int = 1
    times: int = 1
    driver: int = field(default_factory=os.getpid)

    @property
    def fired(self) -> int:
        """How often it struck."""
        return _size(Path(self.folder) / "fired")

    def passing(self, step: StrEnum) -> None:
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
            case Kind.SILENT:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer {self.step}"))

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the environment of a process, which is the driver there."""
        return {name: value for name, value in asdict(self).items() if name != "driver"}


@dataclass
class Interruption:
    """Something else that happens at the `nth` passage of a step of the driver: an action of this process."""

    step: Step | ExportStep
    action: Callable[[], object]
    nth: int = 1
    passed: int = field(default=0, init=False)

    @property
    def fired(self) -> int:
        """How often it happened."""
        return int(self.passed >= self.nth)

    def passing(self, step: StrEnum) -> None:
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


def from_environment(steps: type[Step | ExportStep] = Step) -> list[Fault]:
    """The faults that a test gave this process, which is the driver. steps: of a sink, or of an export."""
    return [
        Fault(**{**each, "step": steps(each["step"]), "kind": Kind(each["kind"])})
        for each in json.loads(os.environ.get(VARIABLE, "[]"))
    ]


def environment(*faults: Fault) -> dict[str, str]:
    """What a process needs in its environment to be struck by `faults`."""
    return {VARIABLE: json.dumps([fault.as_json() for fault in faults])}
