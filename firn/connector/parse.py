"""A sink's configuration: a Kafka Connect connector, checked as a whole and parsed once into an immutable value.

Every fault is reported at once. The parameters are those of `firn.connector.parameters`; a file without faults becomes
a `firn.connector.config.SinkConfig`, and only here do names of parameters meet its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from firn.connector.check import Check, read_all
from firn.connector.config import (
    BufferConfig,
    ConverterConfig,
    ErrorsConfig,
    MetadataConfig,
    MetricsConfig,
    SinkConfig,
    SnowflakeConfig,
    TableConfig,
)
from firn.connector.conversion import convert, header_format
from firn.connector.effective import effective_values
from firn.connector.exposure import warn_of_exposed_files
from firn.connector.file import read_connector_file
from firn.connector.outcome import CheckedConfig, Effective, Fault, Warned
from firn.connector.references import Resolver
from firn.connector.rules import apply_rules, dead_letter_topic, first_offset, kafka_properties, makes_tables
from firn.connector.streaming import streaming_config
from firn.proxy import ProxyConfig
from firn.redaction import redacted
from firn.snowflake.columns import TableType

_Line = TypeVar("_Line", Fault, Warned, Effective)


def load_sink_config(path: Path, resolver: Resolver | None = None) -> SinkConfig:
    """Read and parse a connector file. Raises ConfigError that lists every fault, TransientError from the resolver."""
    return parse_sink_config(read_connector_file(path), where=str(path), resolver=resolver)


def parse_sink_config(raw: Mapping[str, str], *, where: str, resolver: Resolver | None = None) -> SinkConfig:
    """Parse flat parameters. Raises ConfigError that lists every fault, TransientError from the resolver."""
    return check_sink_config(raw, where=where, resolver=resolver).require()


def check_sink_config(raw: Mapping[str, str], *, where: str, resolver: Resolver | None = None) -> CheckedConfig:
    """Check flat parameters as a whole; faults are part of the answer.

    Without a resolver that asks Secrets Manager its references count as given and stay unchecked.
    """
    check = Check()
    read_all(check, {str(name): str(value) for name, value in raw.items()}, resolver or Resolver())
    apply_rules(check)
    warn_of_exposed_files(check, raw, where)
    value, key = convert(check)
    config = None if check.faults or check.unchecked else _config(check, value, key)
    faulty = {fault.name for fault in check.faults}
    return CheckedConfig(
        where=where,
        faults=tuple(map(named, check.faults)),
        # What is wrong is not also without effect.
        warnings=tuple(named(warned) for warned in check.warnings if warned.name not in faulty),
        effective=tuple(map(named, effective_values(check, value, key))),
        unchecked=tuple(check.unchecked),
        config=config,
    )


def named(line: _Line) -> _Line:
    """A line of the outcome under a name that can be shown: names are the file's, too."""
    return replace(line, name=redacted(line.name))


def _config(check: Check, value: ConverterConfig, key: ConverterConfig) -> SinkConfig:
    """The configuration of a check without faults."""
    get = check.get
    return SinkConfig(
        name=get("name"),
        topics=get("topics") or (),
        topics_regex=get("topics.regex"),
        table_map=get("snowflake.topic2table.map") or (),
        method=check.method,
        tasks_max=get("tasks.max"),
        value=value,
        key=key,
        headers=header_format(check),
        null_values=get("behavior.on.null.values"),
        metadata=_metadata(check),
        buffer=BufferConfig(get("buffer.count.records"), get("buffer.flush.time"), get("buffer.size.bytes")),
        streaming=streaming_config(check),
        snowflake=snowflake_config(check),
        proxy=proxy_config(check),
        errors=_errors(check),
        kafka=kafka_properties(check),
        first_offset="latest" if first_offset(check) == "latest" else "earliest",
        auto_create_tables=makes_tables(check),
        schematization=get("snowflake.enable.schematization"),
        auto_evolve=get("auto.evolve"),
        unknown_fields=get("firn.unknown.fields"),
        tables=TableConfig(
            TableType(get("firn.table.type")), get("firn.table.cluster.by"), get("firn.table.max.columns")
        ),
        batch_records=get("firn.batch.records"),
        batch_bytes=get("firn.batch.bytes"),
        topic_refresh_seconds=get("firn.topics.refresh.seconds"),
        trigger_seconds=get("firn.trigger.interval.seconds"),
        heartbeat_seconds=get("firn.heartbeat.seconds"),
        share_target=get("firn.share.target"),
        metrics=MetricsConfig(get("firn.metrics.port"), get("firn.metrics.host")),
    )


def _metadata(check: Check) -> MetadataConfig:
    return MetadataConfig(
        all=check.get("snowflake.metadata.all"),
        topic=check.get("snowflake.metadata.topic"),
        offset_and_partition=check.get("snowflake.metadata.offset.and.partition"),
        create_time=check.get("snowflake.metadata.createtime"),
        push_time=check.get("snowflake.streaming.metadata.connectorPushTime"),
        timestamp=check.get("firn.metadata.timestamp"),
    )


def snowflake_config(check: Check) -> SnowflakeConfig:
    """Where the tables are and who reads or writes them."""
    return SnowflakeConfig(
        url=check.get("snowflake.url.name"),
        user=check.get("snowflake.user.name"),
        role=check.get("snowflake.role.name"),
        private_key=check.get("snowflake.private.key"),
        private_key_passphrase=check.get("snowflake.private.key.passphrase"),
        database=check.get("snowflake.database.name"),
        schema=check.get("snowflake.schema.name"),
        warehouse=check.get("firn.snowflake.warehouse"),
    )


def proxy_config(check: Check) -> ProxyConfig | None:
    """The proxy of a check without faults."""
    host, port = check.get("jvm.proxy.host"), check.get("jvm.proxy.port")
    if not host or not port:
        return None
    return ProxyConfig(
        host=host,
        port=port,
        username=check.get("jvm.proxy.username"),
        password=check.get("jvm.proxy.password"),
        bypass=check.get("jvm.nonProxy.hosts") or (),
    )


def _errors(check: Check) -> ErrorsConfig:
    return ErrorsConfig(
        tolerance=check.get("errors.tolerance"),
        log_enable=check.get("errors.log.enable"),
        log_messages=check.get("errors.log.include.messages"),
        dead_letter_topic=dead_letter_topic(check),
        dead_letter_replication=check.get("errors.deadletterqueue.topic.replication.factor"),
        dead_letter_headers=check.get("errors.deadletterqueue.context.headers.enable"),
    )
