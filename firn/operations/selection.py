"""Which sinks to look at: those of connector files, or all that a schema of Snowflake knows.

A schema knows no file: what is normal for a sink (its pace) is what its supervisor reported. Registries are left out:
whether a sink works does not depend on who asks. Not for looking (`observer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from firn.connector.config import BufferConfig, ConverterConfig, Method, SinkConfig
from firn.connector.formats import Format
from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.exports.names import is_control_name
from firn.ledger.control import read_all
from firn.ledger.control_record import ControlRecord
from firn.ledger.owner import Owner
from firn.ledger.table import LedgerTable
from firn.secrets import secret_reader
from firn.settings import Settings
from firn.sinks.context import SinkContext, kafka_login, snowflake_login
from firn.snowflake.connection import connect
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace


def of_files(files: Iterable[Path], settings: Settings) -> list[SinkContext]:
    """The sinks of connector files. Raises ConfigError for a faulty one, and the errors of `read_secret`."""
    return [of_config(load_sink_config(file, Resolver(secret_reader(settings))), settings) for file in files]


def of_config(config: SinkConfig, settings: Settings) -> SinkContext:
    """What is needed to look at a sink. Raises the errors of `read_secret`."""
    return SinkContext(config, settings, kafka_login(config, settings), None, None, snowflake_login(config, settings))


def of_schema(settings: Settings) -> list[SinkContext]:
    """All sinks that FIRN_SINKS of the settings' database and schema knows, by name.

    Their files are elsewhere: topics and tables are those of the last claim, the pace (`pace_of`) is the one that the
    supervisor reported, the cluster is the settings'. Raises the errors of `read_secret` and of Snowflake.
    """
    login = snowflake_login(SinkConfig(""), settings)
    namespace = Namespace(login.database, login.schema)
    with connect(login, query_tag="firn sink status") as connection:
        records = [each for each in read_all(connection, namespace) if not is_control_name(each.sink)]
        try:
            owners = {each.sink: LedgerTable(namespace, each.sink).owner(connection) for each in records}
        except MissingObjectError:
            owners = {}
    return [of_config(_config(each, owners.get(each.sink)), settings) for each in records]


def _config(record: ControlRecord, owner: Owner | None) -> SinkConfig:
    targets = tuple(owner.targets.items()) if owner else ()
    topics = tuple(topic for topic, _ in targets)
    method = Method(owner.method) if owner and owner.method in set(Method) else Method.SNOWPIPE
    config = SinkConfig(record.sink, topics, table_map=targets, value=ConverterConfig(Format.STRING), method=method)
    return at_pace(config, record.stats)


def pace_of(config: SinkConfig) -> dict[str, Any]:
    """What is normal for a sink, as plain values for FIRN_SINKS: an observer without its file diagnoses alike."""
    return {
        "heartbeat_seconds": config.heartbeat_seconds,
        "buffer_records": config.buffer.records,
        "buffer_seconds": config.buffer.seconds,
        "buffer_bytes": config.buffer.bytes,
        "ledger_seconds": config.streaming.ledger_seconds,
        "tasks_max": config.tasks_max,
    }


def at_pace(config: SinkConfig, stats: Mapping[str, Any]) -> SinkConfig:
    """The configuration with the pace that FIRN_SINKS holds of it; what is not there, or is no number, stays."""
    pace = pace_of(config)
    pace |= {name: stats[name] for name in pace if isinstance(stats.get(name), int | float)}
    buffer = BufferConfig(pace["buffer_records"], pace["buffer_seconds"], pace["buffer_bytes"])
    streaming = replace(config.streaming, ledger_seconds=pace["ledger_seconds"])
    paced = replace(config, buffer=buffer, streaming=streaming, tasks_max=pace["tasks_max"])
    return replace(paced, heartbeat_seconds=pace["heartbeat_seconds"])
