"""Live checks of one export: those of every export, and a message of each source's first row, which is never published.

The one place that knows both the checks (`firn.operations.exports.validation`) and how messages are made. Where schemas
are registered by themselves, that message's schema is registered by the check too; nothing else is changed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig
from firn.exports.context import ExportContext
from firn.exports.source import Source
from firn.exports.values import row_object
from firn.operations.exports import validation
from firn.operations.validation.live_check import LiveCheck
from firn.plural import counted
from firn.registry.login import RegistryLogin, registry_client
from firn.settings import Settings
from firn.snowflake.connection import query
from firn.snowflake.identifiers import written
from spark_jobs.export.messages.envelopes import Change
from spark_jobs.export.messages.serializer import Registries, RowError, Serializer

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from snowflake.connector import SnowflakeConnection

_SAMPLE = "SELECT TO_JSON({row}) AS PAYLOAD FROM {relation} S LIMIT 1"


def live_checks(config: ExportConfig, settings: Settings) -> list[LiveCheck]:
    """Look at everything the export will use. Never raises for what it finds."""
    return validation.live_checks(config, settings, try_message)


def try_message(connection: SnowflakeConnection, context: ExportContext, source: Source) -> LiveCheck:
    """Make the messages of a row of the source. Raises the errors of Snowflake and of the registry."""
    subject = f"message of {source.name}"
    relation = written(source.base) if source.base else source.relation
    rows = query(connection, _SAMPLE.format(row=row_object(source.columns, "S"), relation=relation))
    if not rows:
        return LiveCheck(subject, "warning", "not tried: the source has no row", "Look again once it has one.")
    registries = Registries(_client(context.key_registry), _client(context.value_registry))
    serializer = Serializer(source, context.config, {1: source.columns}, registries)
    row, now = str(rows[0]["PAYLOAD"]), time.time_ns() // 1_000_000
    try:
        made = serializer.messages(Change(0, "INSERT", False, None, row, None, 1, None, now, snapshot=False))
    except RowError as error:
        step = "Correct the row, firn.export.types or the row function; or set errors.tolerance=all."
        return LiveCheck(subject, "failed", f"{error.reason}: {error.detail}", step)
    size = sum(len(each.key or b"") + len(each.value or b"") for each in made)
    return LiveCheck(subject, "ok", f"{counted(len(made), 'message')} of {size} bytes for topic {source.topic}")


def _client(login: RegistryLogin | None) -> SchemaRegistryClient | None:
    return None if login is None else registry_client(login)
