"""What one parameter is: its definition, from which checks, effective values and documentation all come.

Not the definitions themselves (`firn.connector.parameters`) and not how texts are read (`firn.connector.readers`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Effect(StrEnum):
    """What Firn does with a parameter."""

    HONOURED = "honoured"
    NO_EFFECT = "no effect"  # accepted, with a warning that says why
    REFUSED = "refused"  # a fault that says why


class ReadError(ValueError):
    """A value that its reader refuses. `detail` may hold a part of the value: never shown for what is masked."""

    def __init__(self, problem: str, *, detail: str = "") -> None:
        super().__init__(problem)
        self.problem, self.detail = problem, detail


@dataclass(frozen=True)
class Reader:
    """How the text of a value becomes a typed value; `parse` raises ReadError.

    `why` says why nothing but the one allowed value can be followed.
    """

    type: str
    parse: Callable[[str], Any]
    allowed: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Parameter:
    """One known parameter.

    `default` is the text that stands for an absent value; `streaming_default` replaces it with SNOWPIPE_STREAMING,
    `v4_default` with the class of the v4 connector.
    `elsewhere` says where an absent value comes from. `empty` is True where an empty text means absent, as in the
    official connector. `reason` explains every effect but plain honouring.
    """

    name: str
    reader: Reader
    doc: str
    default: str | None = None
    streaming_default: str | None = None
    v4_default: str | None = None
    elsewhere: str = ""
    effect: Effect = Effect.HONOURED
    reason: str = ""
    secret: bool = False
    required: bool = False
    empty: bool = False
    group: str = ""

    @property
    def default_text(self) -> str:
        """The default as documentation shows it."""
        if self.streaming_default is not None:
            return f"{self.default} (SNOWPIPE), {self.streaming_default} (SNOWPIPE_STREAMING)"
        if self.v4_default is not None:
            return f"{self.default}, {self.v4_default} (v4's connector.class)"
        return self.default or ""


def honoured(name: str, reader: Reader, doc: str, default: str | None = None, **more: object) -> Parameter:
    """A parameter that Firn follows. An empty text counts as absent, since exported files carry it."""
    return replace(Parameter(name, reader, doc, default, empty=True), **more)  # type: ignore[arg-type]


def no_effect(
    name: str, reader: Reader, doc: str, reason: str, default: str | None = None, *, secret: bool = False
) -> Parameter:
    """A parameter that is checked and changes nothing here."""
    return Parameter(name, reader, doc, default, effect=Effect.NO_EFFECT, reason=reason, secret=secret, empty=True)


def refused(name: str, reader: Reader, doc: str, reason: str, *, secret: bool = False) -> Parameter:
    """A parameter that cannot be followed and must not be ignored."""
    return Parameter(name, reader, doc, effect=Effect.REFUSED, reason=reason, secret=secret, empty=True)


def group(title: str, *parameters: Parameter) -> tuple[Parameter, ...]:
    """The parameters of one group, in the order of the documentation."""
    return tuple(replace(parameter, group=title) for parameter in parameters)
