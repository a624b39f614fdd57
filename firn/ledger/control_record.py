"""How a job is and how it shall be: states, a diagnosis, and what FIRN_SINKS and FIRN_REQUESTS keep of a sink.

Plain values; the tables and their statements are in `firn.ledger.control` and `requests`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

E = TypeVar("E", bound=StrEnum)


class DesiredState(StrEnum):
    """What a person wants a job to do."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class State(StrEnum):
    """How a job is: as its supervisor reports it, or as a look from outside finds it."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STALLED = "stalled"
    FAILED = "failed"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    """Found from outside only: no supervisor reports it."""

    @property
    def word(self) -> str:
        """The state as a person reads it: `Running`."""
        return self.value.capitalize()


@dataclass(frozen=True)
class Diagnosis:
    """How a job is: its state, since when (UTC; None: not known), the reason, and the next step for a person."""

    state: State
    since: datetime | None = None
    reason: str = ""
    next_step: str = ""

    @property
    def needs_attention(self) -> bool:
        """Whether a person has to look; not at what somebody paused or stopped."""
        return self.state in (State.FAILED, State.STALLED, State.UNKNOWN)


@dataclass(frozen=True)
class ControlRecord:
    """The desired state of a sink, and what its supervisor reported last.

    desired_at: None where nobody ever asked for anything. updated_at: when a supervisor reported last, silent_seconds:
    how long ago that is; None where none ever did. since: when the state began. stats: figures
    (`Snapshot.stats`), and the host and pid of the supervisor. Times are UTC.
    """

    sink: str
    desired: DesiredState = DesiredState.RUNNING
    desired_by: str = ""
    desired_at: datetime | None = None
    state: State = State.STOPPED
    since: datetime | None = None
    reason: str = ""
    next_step: str = ""
    stats: Mapping[str, Any] = field(default_factory=dict)
    updated_at: datetime | None = None
    silent_seconds: float | None = None

    @property
    def failed(self) -> bool:
        """Whether a failure stands: the job failed, and nobody asked for anything since."""
        if self.state is not State.FAILED:
            return False
        return self.desired_at is None or self.since is None or self.since >= self.desired_at

    @property
    def supervisor(self) -> str:
        """The supervisor that reported last; empty where none did."""
        host, pid = self.stats.get("host"), self.stats.get("pid")
        return f"process {pid} on {host}" if host else ""


def known(kind: type[E], text: str | None, otherwise: E) -> E:
    """The member; `otherwise` for a text that somebody wrote by hand, or that a newer Firn knows."""
    return kind(text) if text in list(kind) else otherwise
