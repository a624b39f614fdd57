"""What a supervisor asks of the world, as Protocols: a driver, looks at Kafka and the ledger, notes, an audience.

A test puts others in their place and two hours pass in a second. Not for doing any of it: `launch`, `observe`,
`notes` and the flow do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from spark_jobs.supervise.control import State, Wanted
    from spark_jobs.supervise.snapshot import Snapshot


class PartitionSeen(Protocol):
    """One partition as `observe.PartitionLag` has it: positions, records between them, age of the oldest (seconds).

    ahead: the ledger is past Kafka's end.
    """

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def table(self) -> str: ...
    @property
    def next_offset(self) -> int | None: ...
    @property
    def end_offset(self) -> int | None: ...
    @property
    def lag(self) -> int | None: ...
    @property
    def lag_seconds(self) -> float | None: ...
    @property
    def ahead(self) -> bool: ...


class TotalsSeen(Protocol):
    """What all runs of a sink committed, from the ledger."""

    @property
    def records(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def bad_records(self) -> int: ...
    @property
    def dead_letters(self) -> int: ...


class OwnerSeen(Protocol):
    """Who holds the sink, as `ledger_owner.Owner` has it."""

    @property
    def epoch(self) -> int: ...
    @property
    def silent_seconds(self) -> float: ...
    @property
    def totals(self) -> TotalsSeen: ...
    def runs(self, within: float) -> bool: ...


class RecordSeen(Protocol):
    """The sink's row in FIRN_SINKS, as `control.SinkRecord` has it."""

    @property
    def wanted(self) -> Wanted: ...
    @property
    def wanted_at(self) -> datetime | None: ...
    @property
    def state(self) -> State | None: ...
    @property
    def since(self) -> datetime | None: ...
    @property
    def why(self) -> str: ...
    @property
    def stats(self) -> Mapping[str, Any]: ...


class Observed(Protocol):
    """One look, as `observe.Observation` has it."""

    @property
    def at(self) -> datetime: ...
    @property
    def partitions(self) -> Sequence[PartitionSeen]: ...
    @property
    def owner(self) -> OwnerSeen | None: ...
    @property
    def wanted(self) -> Wanted: ...
    @property
    def record(self) -> RecordSeen | None: ...


class Observing(Protocol):
    """Looks at the sink from outside."""

    def look(self, *, ledger: bool = True) -> Observed:
        """Ledger, FIRN_SINKS and Kafka; Kafka alone without `ledger`. Raises FirnError where one does not answer."""
        ...


class Noting(Protocol):
    """Writes FIRN_SINKS. Raises FirnError where Snowflake does not answer."""

    def note(self, state: State, *, why: str, next_step: str, stats: Mapping[str, Any]) -> None:
        """What the sink does now."""
        ...

    def want(self, wanted: Wanted, by: str) -> None:
        """What it shall do."""
        ...


class Driver(Protocol):
    """The process that runs the sink."""

    def poll(self) -> int | None:
        """Its exit code, None while it runs; afterwards nothing of its group lives."""
        ...

    @property
    def answer(self) -> Sequence[str]:
        """The newest lines that it printed; the last JSON one is its report or its error."""
        ...

    def ask(self) -> None:
        """Ask for an orderly end; returns at once."""
        ...

    def stop(self, seconds: float) -> int:
        """TERM, after `seconds` KILL of all its processes; returns the exit code."""
        ...


class Launching(Protocol):
    """Starts a driver whose log goes to `on_line` line by line, from another thread."""

    def __call__(self, on_line: Callable[[str], None]) -> Driver: ...


class Telling(Protocol):
    """The audience: must return at once and never raise, whatever is down."""

    def event(self, event: str, sentence: str, data: Mapping[str, Any]) -> None:
        """Something happened: `firn.sink.<event>`."""
        ...

    def show(self, snapshot: Snapshot) -> None:
        """How the sink stands now."""
        ...
