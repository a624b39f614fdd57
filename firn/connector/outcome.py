"""What checking a configuration gives: faults, warnings, effective values. And what its rules read from and report to.

Nothing here shows a value that is secret or came from a reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from firn.connector.config import Method, SinkConfig
from firn.connector.parameter import Parameter
from firn.connector.parameters import PARAMETERS
from firn.connector.parameters.connect import STREAMING_CLASS
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
class CheckedConfig:
    """The outcome of a check. `config` is None with faults, or where `unchecked` references were not resolved."""

    where: str
    faults: tuple[Fault, ...]
    warnings: tuple[Warned, ...]
    effective: tuple[Effective, ...]
    pending: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    config: SinkConfig | None = None

    def require(self) -> SinkConfig:
        """The configuration, or ConfigError that lists every fault."""
        lines = [str(fault) for fault in self.faults]
        lines += [f"{name}: refers to Secrets Manager, which was not asked" for name in self.unchecked]
        if lines or self.config is None:
            count = f"{len(lines)} fault" + ("s" if len(lines) != 1 else "")
            raise ConfigError(
                f"The sink's configuration has {count}:\n" + "\n".join(f"  {line}" for line in lines),
                where=self.where,
                next_step="Correct these parameters; docs/configuration.md has all of them.",
            )
        return self.config


@dataclass(frozen=True)
class Given:
    """One parameter as the file gives it. `value` is None where it is faulty, or its reference was not resolved."""

    parameter: Parameter
    shown: str
    referenced: bool
    value: Any = field(default=None, repr=False)


@dataclass
class Check:
    """The state of one check: what is given, and what the rules found."""

    given: dict[str, Given] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    overridden: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the file gives it, faulty or not."""
        return name in self.given

    def get(self, name: str) -> Any:
        """The typed value: given, or the default of the method; None without either."""
        if name in self.overridden:
            return self.overridden[name][0]
        if name in self.given and self.given[name].value is not None:
            return self.given[name].value
        text = self.default(PARAMETERS[name])
        return PARAMETERS[name].reader.parse(text) if text else None

    def default(self, parameter: Parameter) -> str | None:
        """The default text, which may depend on the method and on the class of the connector."""
        if parameter.v4_default is not None and self.streaming_class:
            return parameter.v4_default
        if parameter.streaming_default is not None and self.method is Method.SNOWPIPE_STREAMING:
            return parameter.streaming_default
        return parameter.default

    @property
    def method(self) -> Method:
        """The method, named or implied by the class of the v4 connector."""
        named = self.given.get("snowflake.ingestion.method")
        if named and named.value:
            return Method(named.value)
        return Method.SNOWPIPE_STREAMING if self.streaming_class else Method.SNOWPIPE

    @property
    def streaming_class(self) -> bool:
        """Whether the file is one of the v4 connector, which only streams."""
        connector = self.given.get("connector.class")
        return connector is not None and connector.value == STREAMING_CLASS

    def fault(self, name: str, problem: str, allowed: tuple[str, ...] = (), nearest: str | None = None) -> None:
        """Note a fault of a parameter; its value is shown where it may be."""
        shown = self.given[name].shown if name in self.given else ""
        self.faults.append(Fault(name, shown, problem, allowed, nearest))

    def warn(self, name: str, reason: str) -> None:
        """Note that a parameter does not do what one might think."""
        self.warnings.append(Warned(name, reason))

    def override(self, name: str, value: Any, shown: str) -> None:
        """Replace a given value by the one that takes effect."""
        self.overridden[name] = (value, shown)
