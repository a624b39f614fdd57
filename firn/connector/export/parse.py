"""An export's configuration: a connector file, checked as a whole and parsed once into an immutable value.

Every fault is reported at once. The parameters are those of `firn.connector.export.parameters`; a file without faults
becomes a `firn.connector.export.config.ExportConfig`, and only here do names of parameters meet its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from firn.connector.check import Check, read_all
from firn.connector.conversion import Side, registry_of
from firn.connector.export.config import (
    BatchConfig,
    Envelope,
    ExportConfig,
    ExportErrorsConfig,
    MessageConfig,
    MessageFormat,
    PollConfig,
    SnapshotConfig,
    SnowflakeTaskConfig,
    SourceConfig,
    TopicConfig,
)
from firn.connector.export.effective import effective_values
from firn.connector.export.families import EXPORT, topic_option
from firn.connector.export.parameters import AVRO, JSON, JSON_SR, STRING
from firn.connector.export.rules import apply_rules
from firn.connector.export.sources import read_sources
from firn.connector.file import read_connector_file
from firn.connector.outcome import Checked
from firn.connector.parse import named, proxy_config, snowflake_config
from firn.connector.references import Resolver
from firn.connector.rules import dead_letter_topic, kafka_properties

PAGE = "docs/configuration-export.md"
_CONVERTERS = {
    AVRO: MessageFormat.AVRO,
    JSON_SR: MessageFormat.JSON_SCHEMA,
    JSON: MessageFormat.JSON,
    STRING: MessageFormat.STRING,
}
_FORMATS = {
    "AVRO": MessageFormat.AVRO,
    "JSON_SR": MessageFormat.JSON_SCHEMA,
    "JSON": MessageFormat.JSON,
    "STRING": MessageFormat.STRING,
}
_OUTPUT = {"value": "output.data.format", "key": "output.key.format"}
_DEFAULT = {"value": MessageFormat.AVRO, "key": MessageFormat.STRING}


@dataclass(frozen=True)
class CheckedExport(Checked):
    """The outcome for an export. `config` is None with faults, or where references were not resolved."""

    config: ExportConfig | None = None

    def require(self) -> ExportConfig:
        """The configuration, or ConfigError that lists every fault."""
        if self.config is None:
            raise self.error("export", PAGE)
        return self.config


def load_export_config(path: Path, resolver: Resolver | None = None) -> ExportConfig:
    """Read and parse a connector file. Raises ConfigError that lists every fault, TransientError from the resolver."""
    return check_export_config(read_connector_file(path, "export"), where=str(path), resolver=resolver).require()


def check_export_config(raw: Mapping[str, str], *, where: str, resolver: Resolver | None = None) -> CheckedExport:
    """Check flat parameters as a whole; faults are part of the answer.

    Without a resolver that asks Secrets Manager its references count as given and stay unchecked.
    """
    check = Check(EXPORT)
    read_all(check, {str(name): str(value) for name, value in raw.items()}, resolver or Resolver())
    apply_rules(check)
    sources = read_sources(check)
    value, key = _message(check, "value"), _message(check, "key")
    config = None if check.faults or check.unchecked else _config(check, sources, value, key)
    faulty = {fault.name for fault in check.faults}
    return CheckedExport(
        where=where,
        faults=tuple(map(named, check.faults)),
        warnings=tuple(named(warned) for warned in check.warnings if warned.name not in faulty),
        effective=tuple(map(named, effective_values(check))),
        unchecked=tuple(check.unchecked),
        config=config,
    )


def _message(check: Check, side: Side) -> MessageConfig:
    """How keys or values are written; faults go into the check."""
    converter, output = check.get(f"{side}.converter"), check.get(_OUTPUT[side])
    chosen = _CONVERTERS[converter] if converter else _FORMATS[output] if output else _DEFAULT[side]
    if converter and output and _FORMATS[output] is not _CONVERTERS[converter]:
        check.fault(_OUTPUT[side], f"contradicts {side}.converter")
    enveloped = f"{side}.converter.schemas.enable"
    if chosen is not MessageFormat.JSON and check.has(enveloped):
        check.warn(enveloped, f"has no effect: the {side}'s converter ({chosen}) has no such option.")
    elif converter == JSON and check.get(enveloped):
        chosen = MessageFormat.JSON_ENVELOPE
    registry = registry_of(check, side) if chosen.in_registry else None
    return MessageConfig(chosen, registry, bool(check.get(f"{side}.converter.auto.register.schemas")))


def _config(check: Check, sources: tuple[SourceConfig, ...], value: MessageConfig, key: MessageConfig) -> ExportConfig:
    """The configuration of a check without faults."""
    get = check.get
    schedule = get("firn.export.task.schedule")
    return ExportConfig(
        name=get("name"),
        sources=sources,
        snowflake=snowflake_config(check),
        proxy=proxy_config(check),
        kafka=kafka_properties(check),
        key=key,
        value=value,
        envelope=Envelope(get("firn.export.envelope")),
        tombstones=get("tombstones.on.delete"),
        batch=BatchConfig(get("batch.max.rows"), get("firn.export.batch.bytes")),
        poll=_poll(check),
        retries=get("firn.export.retries"),
        tasks_max=get("tasks.max"),
        errors=_errors(check),
        row_function=get("firn.export.row.function"),
        function_path=get("firn.export.row.function.path"),
        snapshot=SnapshotConfig(
            "rows" if get("snapshot.mode") == "initial" else "changes only", get("firn.export.snapshot.shards")
        ),
        task=SnowflakeTaskConfig(schedule, get("firn.export.task.warehouse")) if schedule else None,
        topics=_topics(check),
        marker_topic=get("firn.export.marker.topic"),
        allow_loop=get("firn.export.allow.loop"),
    )


def _poll(check: Check) -> PollConfig:
    return PollConfig(
        seconds=check.get("poll.interval.ms"),
        adaptive=check.get("firn.export.poll.adaptive"),
        shortest=check.get("firn.export.poll.shortest.ms"),
        longest=check.get("firn.export.poll.longest.ms"),
    )


def _errors(check: Check) -> ExportErrorsConfig:
    return ExportErrorsConfig(
        tolerance=check.get("errors.tolerance"),
        dead_letter_topic=dead_letter_topic(check),
        dead_letter_replication=check.get("errors.deadletterqueue.topic.replication.factor"),
        log_enable=check.get("errors.log.enable"),
    )


def _topics(check: Check) -> TopicConfig:
    options = {option: given.value for name, given in check.given.items() if (option := topic_option(name))}
    return TopicConfig(
        create=check.get("topic.creation.enable"),
        partitions=check.get("topic.creation.default.partitions"),
        replication=check.get("topic.creation.default.replication.factor"),
        options=tuple((name, str(value)) for name, value in options.items()),
    )
