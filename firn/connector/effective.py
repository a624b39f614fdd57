"""The table of effective values: what takes effect, and where it comes from. Shows no secret."""

from __future__ import annotations

from firn.connector.check import Check
from firn.connector.config import ConverterConfig, Method
from firn.connector.outcome import Effective, Source
from firn.connector.parameter import Effect, Parameter
from firn.connector.parameters import PARAMETERS
from firn.connector.parameters.converters import KEY_OPTIONS, VALUE_OPTIONS
from firn.connector.parameters.loading import ONLY_STREAMING
from firn.connector.parameters.other_connectors import CLOUD
from firn.connector.rules import kafka_properties

# Groups whose defaults say nothing about this sink.
_QUIET = {VALUE_OPTIONS[0].group, KEY_OPTIONS[0].group, CLOUD[0].group}
FAULT = "fault"


def effective_values(check: Check, value: ConverterConfig, key: ConverterConfig) -> tuple[Effective, ...]:
    """All parameters that are given, or that have a value of consequence without being given."""
    unused = _unused(check, value, key)
    lines = [line for parameter in PARAMETERS.values() if (line := _line(check, parameter, unused))]
    lines += [given_line(check, name) for name in check.given if name not in PARAMETERS]
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


def _unused(check: Check, value: ConverterConfig, key: ConverterConfig) -> set[str]:
    """What settings and secrets need not fill in, since the file says it in another way."""
    unused: set[str] = set()
    if not any(each.format.in_registry and each.registry is None for each in (value, key)):
        unused.add("schema.registry.url")
    if check.has("snowflake.private.key"):
        unused.add("snowflake.private.key.passphrase")
    kafka = {each.name: each.value.get_secret_value() for each in kafka_properties(check)}
    if "bootstrap.servers" in kafka:
        unused.add("kafka.endpoint")
    if "sasl.jaas.config" in kafka or not kafka.get("security.protocol", "SASL").strip().upper().startswith("SASL"):
        unused |= {"kafka.api.key", "kafka.api.secret"}
    return unused


def _line(check: Check, parameter: Parameter, unused: set[str]) -> Effective | None:
    name = parameter.name
    if check.has(name):
        return given_line(check, name)
    if name == "snowflake.ingestion.method" and check.method is not Method.SNOWPIPE:
        return Effective(name, str(check.method), "implied", parameter.effect, "by connector.class")
    if parameter.elsewhere and parameter.group not in _QUIET - {CLOUD[0].group}:
        elsewhere = Effective(name, "", "settings and secrets", parameter.effect, parameter.elsewhere)
        return None if name in unused else elsewhere
    default = check.default(parameter)
    if not default or not _informative(check, parameter):
        return None
    return Effective(name, default, "default", _effect(check, parameter))


def _informative(check: Check, parameter: Parameter) -> bool:
    """Whether the default of a parameter says something about this sink."""
    if parameter.group in _QUIET or parameter.reader.why:
        return False
    if parameter.name in ONLY_STREAMING and check.method is Method.SNOWPIPE:
        return False
    return parameter.effect is Effect.HONOURED


def given_line(check: Check, name: str) -> Effective:
    """The line of a parameter that the file gives."""
    given = check.given[name]
    source: Source = "reference" if given.referenced else "given"
    effect = _effect(check, given.parameter)
    if name in check.overridden:
        return Effective(name, check.overridden[name][1], source, effect, f"raised from {given.redacted}")
    note = "" if effect in (Effect.HONOURED, FAULT) else given.parameter.reason
    return Effective(name, given.redacted, source, effect, "not resolved here" if name in check.unchecked else note)


def _effect(check: Check, parameter: Parameter) -> str:
    """What becomes of a parameter with the value it has."""
    if any(fault.name == parameter.name for fault in check.faults):
        return FAULT
    return parameter.effect
