"""The table of effective values of an export: what takes effect, and where it comes from. Shows no secret."""

from __future__ import annotations

from firn.connector.check import Check
from firn.connector.effective import given_line
from firn.connector.outcome import Effective
from firn.connector.parameter import Effect, Parameter

_QUIET = ("Options of the value's converter", "Options of the key's converter", "Confluent Cloud", "Source", "Proxy")
"""Groups whose defaults say nothing about this export."""


def effective_values(check: Check) -> tuple[Effective, ...]:
    """All parameters that are given, or that have a value of consequence without being given."""
    parameters = check.definitions.parameters
    lines = [line for parameter in parameters.values() if (line := _line(check, parameter))]
    return (*lines, *(given_line(check, name) for name in check.given if name not in parameters))


def _line(check: Check, parameter: Parameter) -> Effective | None:
    if check.has(parameter.name):
        return given_line(check, parameter.name)
    if parameter.group in _QUIET or parameter.effect is not Effect.HONOURED:
        return None
    if parameter.elsewhere:
        return Effective(parameter.name, "", "settings and secrets", parameter.effect, parameter.elsewhere)
    return Effective(parameter.name, parameter.default, "default", parameter.effect) if parameter.default else None
