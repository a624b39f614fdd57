"""One check of a file: each parameter by itself, from its text to a typed value, and what is wrong with it.

`Check` is what the rules over several parameters (`rules`, `conversion`) read from and report to.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Secret, SecretStr

from firn.connector import readers
from firn.connector.config import Method
from firn.connector.outcome import Fault, Warned
from firn.connector.parameter import Effect, Parameter, ReadError
from firn.connector.parameters import PARAMETERS
from firn.connector.parameters.connect import STREAMING_CLASS
from firn.connector.references import (
    Referenced,
    ReferenceFault,
    Resolver,
    Unresolved,
    has_reference,
    is_reference,
)
from firn.kafka.properties import Role, Treatment, treatment
from firn.redaction import HIDDEN, printable, redacted

_TRANSFORM = re.compile(r"(transforms|predicates)\.([^.]+)\.(.+)")
_CLIENTS: dict[str, Role] = {
    "kafka.": "consumer",
    "consumer.override.": "consumer",
    "producer.override.": "producer",
    "admin.override.": "admin",
}


@dataclass(frozen=True)
class Given:
    """One parameter as the file gives it. `value` is None where it is faulty, or its reference was not resolved."""

    parameter: Parameter
    redacted: str
    referenced: bool
    value: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Definitions:
    """The parameters that a kind of connector file knows.

    family: the definition of a name that no table can list, with the nearest known name where it is none; None for a
    name that is of no family. client: the prefix whose client properties win over those of `kafka.`.
    """

    parameters: Mapping[str, Parameter]
    family: Callable[[str], tuple[Parameter | None, str | None] | None]
    client: str

    def nearest(self, name: str, cutoff: float = 0.5) -> str | None:
        """The known parameter that a misspelt name most likely means."""
        return next(iter(difflib.get_close_matches(name.strip().lower(), self.parameters, n=1, cutoff=cutoff)), None)

    def kafka_property(self, name: str) -> str | None:
        """The Java property that a client property names, if the parameter is one."""
        if name in self.parameters:
            return None
        return next((name.removeprefix(p) for p in (self.client, "kafka.") if name.startswith(p)), None)


@dataclass
class Check:
    """The state of one check: what is given, and what the rules found."""

    definitions: Definitions = field(default_factory=lambda: SINK)
    given: dict[str, Given] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
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
        parameter = self.definitions.parameters[name]
        text = self.default(parameter)
        return parameter.reader.parse(text) if text else None

    def default(self, parameter: Parameter) -> str | None:
        """The default text, which may depend on the method and on the class of the connector."""
        if parameter.v4_default is not None and self.streaming_class:
            return parameter.v4_default
        if parameter.streaming_default is not None and self.method is Method.SNOWPIPE_STREAMING:
            return parameter.streaming_default
        return parameter.default

    @property
    def method(self) -> Method:
        """The method: v4's connector only streams, whatever the file names beside its class; else the named one."""
        if self.streaming_class:
            return Method.SNOWPIPE_STREAMING
        named = self.given.get("snowflake.ingestion.method")
        return Method(named.value) if named and named.value else Method.SNOWPIPE

    @property
    def streaming_class(self) -> bool:
        """Whether the file is one of the v4 connector, which only streams."""
        connector = self.given.get("connector.class")
        return connector is not None and connector.value == STREAMING_CLASS

    def fault(self, name: str, problem: str, allowed: tuple[str, ...] = (), nearest: str | None = None) -> None:
        """Note a fault of a parameter; its value is shown where it may be."""
        shown = self.given[name].redacted if name in self.given else ""
        self.faults.append(Fault(name, shown, problem, allowed, nearest))

    def warn(self, name: str, reason: str) -> None:
        """Note that a parameter does not do what one might think."""
        self.warnings.append(Warned(name, reason))

    def override(self, name: str, value: Any, shown: str) -> None:
        """Replace a given value by the one that takes effect."""
        self.overridden[name] = (value, shown)


def read_all(check: Check, raw: dict[str, str], resolver: Resolver) -> None:
    """Read every parameter of a file into the check."""
    for name, text in raw.items():
        parameter, nearest = definition(check.definitions, name)
        if parameter is None:
            # The value under a misspelt name may be a secret: it is not shown.
            check.faults.append(Fault(name, "", "is not a known parameter", nearest=nearest))
        else:
            _read(check, parameter, text, resolver, nearest)


def definition(definitions: Definitions, name: str) -> tuple[Parameter | None, str | None]:
    """A known parameter, or one of a family of names, else None; with the nearest known name where it is none."""
    if name in definitions.parameters:
        return definitions.parameters[name], None
    return definitions.family(name) or (None, definitions.nearest(name))


def _family(name: str) -> tuple[Parameter | None, str | None] | None:
    """The families of a sink's names."""
    for prefix, role in _CLIENTS.items():
        if name.startswith(prefix):
            return client_property(SINK, name, prefix, treatment(name.removeprefix(prefix), role))
    if _TRANSFORM.fullmatch(name):
        return Parameter(name, readers.TEXT, "An option of a single message transform."), None
    if name.startswith("header.converter."):
        return _header_option(name), None
    return None


def client_property(
    definitions: Definitions, name: str, prefix: str, treated: Treatment
) -> tuple[Parameter, str | None]:
    """The definition of a client's property, by what becomes of it."""
    effect, reason = Effect(treated.kind), treated.reason
    nearest = prefix + treated.nearest if treated.nearest else None
    if prefix == "kafka." and treated.kind == "refused" and not treated.nearest:
        nearest = definitions.nearest(name, cutoff=0.8)
    return Parameter(
        name, readers.ANY, "A client property.", effect=effect, reason=reason, secret=treated.secret
    ), nearest


def _header_option(name: str) -> Parameter:
    reason = "header converters have no options that change what is read."
    return Parameter(name, readers.ANY, "An option.", effect=Effect.NO_EFFECT, reason=reason)


def _read(check: Check, parameter: Parameter, raw: str, resolver: Resolver, nearest: str | None) -> None:
    name, referenced = parameter.name, has_reference(raw)
    if parameter.empty and not raw.strip():
        return
    given = Given(parameter, _redacted(parameter, raw), referenced)
    check.given[name] = given
    if parameter.effect is Effect.REFUSED:
        check.fault(name, f"is refused: {parameter.reason}", nearest=nearest)
        return
    try:
        text = resolver.resolve(raw)
    except Unresolved:
        check.unchecked.append(name)
        return
    except ReferenceFault as fault:
        check.faults.append(Fault(name, "", printable(str(fault))))
        return
    try:
        value = parameter.reader.parse(text)
    except ReadError as error:
        # A part of a value says less about where a login in it ends than the whole.
        hidden = referenced or parameter.secret or not error.detail or "@" in text
        problem = error.problem if hidden else f"{error.problem}: {redacted(error.detail)}"
        check.fault(name, problem, parameter.reader.allowed)
        return
    check.given[name] = Given(parameter, given.redacted, referenced, _masked(value, parameter, referenced))
    if parameter.effect is Effect.NO_EFFECT:
        check.warn(name, f"has no effect: {parameter.reason}")


SINK: Definitions = Definitions(PARAMETERS, _family, "consumer.override.")
"""A sink's parameters."""


def _redacted(parameter: Parameter, raw: str) -> str:
    if is_reference(raw):
        return redacted(raw.strip())
    if parameter.secret:
        return HIDDEN
    return redacted(raw)


def _masked(value: Any, parameter: Parameter, referenced: bool) -> Any:
    """The value so that no repr shows it where it is secret or came from a reference."""
    if parameter.secret:
        return SecretStr(value) if isinstance(value, str) else Secret(value)
    if not referenced:
        return value
    if isinstance(value, str):
        return Referenced(value)
    if isinstance(value, tuple):
        return tuple(_masked(part, parameter, referenced) for part in value)
    return value
