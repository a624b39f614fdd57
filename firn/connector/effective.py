"""The table of effective values: what takes effect, and where it comes from. Shows no secret."""

from __future__ import annotations

from firn.connector.checked import Check, Effective, Source
from firn.connector.config import ConverterConfig
from firn.connector.parameter import Effect, Parameter
from firn.connector.parameters import PARAMETERS


def effective_values(check: Check, value: ConverterConfig, key: ConverterConfig) -> tuple[Effective, ...]:
    """All parameters that are given, or that Firn follows and that have a value without being given."""
    lines = [line for parameter in PARAMETERS.values() if (line := _line(check, parameter))]
    lines += [_given(check, name) for name in check.given if name not in PARAMETERS]
    return (*_formats(check, value, key), *lines)


def _formats(check: Check, value: ConverterConfig, key: ConverterConfig) -> tuple[Effective, ...]:
    """The formats of values and keys where the file names none."""
    unnamed = (
        ("input.data.format", "value.converter", "AVRO", value),
        ("input.key.format", "key.converter", "STRING", key),
    )
    return tuple(
        Effective(name, shown, "default", Effect.HONOURED, f"{converter} is not given either ({config.format})")
        for name, converter, shown, config in unnamed
        if not check.has(name) and not check.has(converter)
    )


def _line(check: Check, parameter: Parameter) -> Effective | None:
    name = parameter.name
    if check.has(name):
        return _given(check, name)
    if name == "snowflake.ingestion.method" and check.method != parameter.default:
        return Effective(name, str(check.method), "implied", parameter.effect, "by connector.class")
    option = name.startswith(("value.converter.", "key.converter."))
    if parameter.effect not in (Effect.HONOURED, Effect.PENDING) or option:
        return None
    if parameter.elsewhere:
        return Effective(name, "", "settings and secrets", parameter.effect, parameter.elsewhere)
    default = check.default(parameter)
    return Effective(name, default, "default", parameter.effect, _note(parameter)) if default else None


def _given(check: Check, name: str) -> Effective:
    given = check.given[name]
    source: Source = "reference" if given.referenced else "given"
    if name in check.overridden:
        return Effective(name, check.overridden[name][1], source, given.parameter.effect, f"raised from {given.shown}")
    note = "not resolved here" if name in check.unchecked else _note(given.parameter)
    return Effective(name, given.shown, source, given.parameter.effect, note)


def _note(parameter: Parameter) -> str:
    return "" if parameter.effect is Effect.HONOURED else parameter.reason
