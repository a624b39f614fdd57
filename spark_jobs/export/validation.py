"""Live checks of one export: those of every export, and a message of each source's first row, which nobody reads.

The message is produced in a transaction that is aborted, together with a marker: this tries the rights on topics and
on transactional ids, and a consumer with isolation.level=read_committed never sees it. The one place that knows both
the checks (`firn.operations.exports.validation`) and how messages are made. Where schemas are registered by themselves,
that message's schema is registered by the check too; nothing else is changed, and no topic is made.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig
from firn.exports.context import ExportContext
from firn.exports.markers import PARTITION, MarkerKey, marker_session
from firn.exports.source import Source
from firn.exports.values import row_object
from firn.kafka import cluster
from firn.operations.exports import validation
from firn.operations.validation.live_check import LiveCheck
from firn.plural import counted
from firn.registry.login import RegistryLogin, registry_client
from firn.settings import Settings
from firn.snowflake.connection import query
from firn.snowflake.identifiers import written
from spark_jobs.export.messages.envelopes import Change
from spark_jobs.export.messages.serializer import Output, Registries, RowError, Serializer

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
    said = f"{counted(len(made), 'message')} of {size} bytes for topic {source.topic}"
    return LiveCheck(subject, "ok", f"{said}; {_produced(context, source, made)}")


class _Aborted(Exception):  # noqa: N818 - no error: it ends a transaction that nobody is to see
    """Ends the transaction of a check."""


def _produced(context: ExportContext, source: Source, made: Sequence[Output]) -> str:
    """Produce to those topics that are there, in a transaction that is aborted. Raises what Kafka says of the rights.

    The id is the export's own for checks: a run's producer is not fenced.
    """
    key = MarkerKey(f"validate-{context.config.name}", source.name, 0)
    topics = [source.topic, context.config.marker_topic]
    there = cluster.find_topics(cluster.admin_client(context.kafka), topics)
    with suppress(_Aborted), marker_session(context.kafka, key, source.topic) as session, session.transaction():
        if source.topic in there:
            for each in made:
                session.put(source.topic, each.key, each.value, each.headers)
        if context.config.marker_topic in there:
            session.put(context.config.marker_topic, key.record, None, [], PARTITION)
        session.flush()
        raise _Aborted
    absent = [topic for topic in topics if topic not in there]
    return f"not produced, the first run makes {', '.join(absent)}" if absent else "produced, and aborted"


def _client(login: RegistryLogin | None) -> SchemaRegistryClient | None:
    return None if login is None else registry_client(login)
