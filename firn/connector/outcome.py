"""What checking a configuration finds: faults, warnings, effective values, and the configuration where all is well.

Values only; nothing here holds a value that is secret or came from a reference. Not for checking (`check`, `rules`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firn.connector.config import SinkConfig
from firn.connector.references import is_reference
from firn.errors import ConfigError
from firn.redaction import HIDDEN

Source = Literal["given", "reference", "default", "settings and secrets", "implied"]


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong. `problem` reads on from name and value; `value_shown` is empty where it is not known."""

    name: str
    value_shown: str
    problem: str
    allowed: tuple[str, ...] = ()
    nearest: str | None = None

    def __str__(self) -> str:
        plain = self.value_shown == HIDDEN or is_reference(self.value_shown)
        shown = f"{self.value_shown if plain else repr(self.value_shown)} " if self.value_shown else ""
        allowed = f" (allowed: {', '.join(self.allowed)})" if self.allowed else ""
        near = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.name}: {shown}{self.problem}{allowed}{near}"


@dataclass(frozen=True)
class Warned:
    """A parameter that is accepted and does not do what one might think."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Effective:
    """One line of the table of effective values."""

    name: str
    value_shown: str
    source: Source
    effect: str
    note: str = ""


@dataclass(frozen=True)
class Checked:
    """The outcome of a check. `unchecked` references were not resolved."""

    where: str
    faults: tuple[Fault, ...]
    warnings: tuple[Warned, ...]
    effective: tuple[Effective, ...]
    unchecked: tuple[str, ...] = ()

    def error(self, what: str, page: str) -> ConfigError:
        """The error that lists every fault. what: whose configuration it is; page: where its parameters are."""
        lines = [str(fault) for fault in self.faults]
        lines += [f"{name}: refers to Secrets Manager, which was not asked" for name in self.unchecked]
        count = f"{len(lines)} fault" + ("s" if len(lines) != 1 else "")
        return ConfigError(
            f"The {what}'s configuration has {count}:\n" + "\n".join(f"  {line}" for line in lines),
            where=self.where,
            next_step=f"Correct these parameters; {page} has all of them.",
        )


@dataclass(frozen=True)
class CheckedConfig(Checked):
    """The outcome for a sink. `config` is None with faults, or where references were not resolved."""

    config: SinkConfig | None = None

    def require(self) -> SinkConfig:
        """The configuration, or ConfigError that lists every fault."""
        if self.config is None:
            raise self.error("sink", "docs/configuration.md")
        return self.config
