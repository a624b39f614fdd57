"""What a supervisor asks of the world, as Protocols: a driver, looks at Kafka and the ledger, notes, an audience.

A test puts others in their place and two hours pass in a second. Not for doing any of it: `launch`, `observe`,
`notes` and the flow do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from firn.ledger.control_record import DesiredState, State
    from firn.operations.observation import Observation
    from firn.supervisor.snapshot import Snapshot


class Observing(Protocol):
    """Looks at the sink from outside."""

    def look(self, *, ledger: bool = True) -> Observation:
        """Ledger, FIRN_SINKS and Kafka; Kafka alone without `ledger`. Raises FirnError where one does not answer."""
        ...


class Noting(Protocol):
    """Writes FIRN_SINKS. Raises FirnError where Snowflake does not answer."""

    def report(self, state: State, *, reason: str, next_step: str, stats: Mapping[str, Any]) -> None:
        """What the sink does now."""
        ...

    def request(self, desired: DesiredState, by: str) -> None:
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

    def __call__(self, on_line: Callable[[str], None]) -> Driver:
        """Start one. Raises OSError or FirnError where it cannot be started."""
        ...


class Telling(Protocol):
    """The audience: must return at once and never raise, whatever is down."""

    def event(self, event: str, sentence: str, data: Mapping[str, Any]) -> None:
        """Something happened: `firn.sink.<event>`."""
        ...

    def show(self, snapshot: Snapshot) -> None:
        """How the sink stands now."""
        ...
