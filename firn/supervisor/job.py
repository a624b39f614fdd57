"""What is supervised, how, and how it ended: plain values. Times are seconds.

A supervisor knows its job by these alone. What makes a sink such a job is in `sink_job`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from firn.errors import FirnError
from firn.supervisor.driver import DriverResult
from firn.supervisor.ports import Control, Launcher, Observer


@dataclass(frozen=True)
class SupervisedJob:
    """A job to supervise.

    kind: the noun of sentences, of commands (`firn <kind> resume`) and of events (`firn.<kind>.stalled`). launch:
    starts its driver; read_result: what the driver's exit code and the last lines mean. observer: its positions and
    desired state. control: where its state is reported.
    """

    kind: str
    name: str
    launch: Launcher
    read_result: Callable[[int, Sequence[str]], DriverResult]
    observer: Observer
    control: Control

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def title(self) -> str:
        """Its kind and name as a sentence begins: `Sink orders`."""
        return f"{self.kind.capitalize()} {self.name}"

    def command(self, verb: str) -> str:
        """A command for a person: `firn sink resume`, in backticks."""
        return f"`firn {self.kind} {verb}`"


@dataclass(frozen=True)
class Patience:
    """How long what is normal, in seconds.

    stall: no offset moves though records wait, beyond what the last batch took, or no answer to looks. start: more
    than that for Spark's own start and its first batch.
    flush: fewer than `flush_records` records may wait for company so long (buffer.flush.time, buffer.count.records).
    hang: no sign of life from a driver that lives, neither in Kafka or the ledger nor in its log. heartbeat: between
    two signs of an idle job; 0: none.
    """

    stall: float = 45.0
    start: float = 60.0
    flush: float = 0.0
    flush_records: int = 0
    hang: float = 600.0
    heartbeat: float = 30.0


@dataclass(frozen=True)
class Policy:
    """How a job is supervised.

    keep_alive: a start by schedule: nothing is started that a person stopped or that failed for good, and a run that
    lives is watched instead of replaced. by: who starts it. alive_within: so long after its last sign of life a run
    counts as alive. look: between two looks; idle, ledger: between two that ask for the desired state, and for the
    ledger, while nothing changes.
    restarts: in a row without progress; backoff_first to backoff_longest: pauses before them. lag_records,
    lag_seconds: from there on the event `lagging` is emitted; 0: never. stop: from TERM to KILL of a cancelled run.
    """

    patience: Patience = field(default_factory=Patience)
    keep_alive: bool = False
    by: str = ""
    alive_within: float = 90.0
    look: float = 5.0
    idle: float = 30.0
    ledger: float = 600.0
    restarts: int = 10
    backoff_first: float = 1.0
    backoff_longest: float = 60.0
    lag_records: int = 0
    lag_seconds: float = 300.0
    stop: float = 20.0


@dataclass(frozen=True)
class Result:
    """How a supervision ended.

    ended: the driver was done or was asked to end; stopped: that is the desired state; skipped: nothing was started;
    cancelled: somebody cancelled the run that supervised; failed: `error` says why. report: the last driver's report
    as plain values, empty where none made one.
    """

    kind: Literal["ended", "stopped", "skipped", "cancelled", "failed"]
    sentence: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    error: FirnError | None = None
