"""Live checks of an export: credentials, endpoints, topics, and its sources in Snowflake, each after what it needs.

What only a message shows (converters, registry, rights to produce) is tried by a function that is handed in. Not for
the configuration itself, which must be free of faults here. Nothing is changed, and nothing is published that a
consumer of committed records sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from firn.connector.export.config import ExportConfig
from firn.errors import FirnError
from firn.exports.context import ExportContext, resolve_export
from firn.exports.source import Source
from firn.exports.sources import discover
from firn.operations.exports.loops import find_loops, refuse_loops
from firn.operations.exports.streams import now, staleness
from firn.operations.validation.endpoints import Endpoint, check_endpoint
from firn.operations.validation.kafka_and_registry import (
    broker_endpoints,
    check_dead_letters,
    check_topics,
    registry_endpoints,
    snowflake_endpoint,
)
from firn.operations.validation.live_check import LiveCheck, Task, failed, guarded, impatient, run_tasks
from firn.operations.validation.snowflake import check_objects
from firn.plural import counted
from firn.provision.snowflake import session_of
from firn.settings import Settings
from firn.snowflake.connection import connect

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

TryMessage: TypeAlias = Callable[["SnowflakeConnection", ExportContext, Source], LiveCheck]
"""Makes one message of a source's first row and produces it in a transaction that is aborted."""
_SUBJECT = "credentials"


def live_checks(config: ExportConfig, settings: Settings, try_message: TryMessage) -> list[LiveCheck]:
    """Look at everything the export will use. Never raises for what it finds."""
    settings = impatient(settings)
    try:
        context = resolve_export(config, settings)
    except FirnError as error:
        return [failed(_SUBJECT, error)]
    checks = [LiveCheck(_SUBJECT, "ok", "Kafka, Snowflake and what the formats need")]
    checks += run_tasks(
        Task(f"connection {each.name}", partial(check_endpoint, each)) for each in dict.fromkeys(_endpoints(context))
    )
    if any(check.state == "failed" for check in checks):
        return checks
    found: list[Source] = []
    checks += run_tasks([Task("snowflake login", partial(_check_snowflake, context, found))])
    return checks + run_tasks(_content_tasks(context, found, try_message))


def _endpoints(context: ExportContext) -> Iterator[Endpoint]:
    yield from broker_endpoints(context.kafka)
    for registry in (context.value_registry, context.key_registry):
        yield from registry_endpoints(registry) if registry else ()
    yield snowflake_endpoint(context.login)


def _check_snowflake(context: ExportContext, found: list[Source]) -> Iterator[LiveCheck]:
    """Log in and look at the sources. Raises FirnError where the login does not work; all else is a check."""
    with connect(context.login, query_tag="firn export validate") as connection:
        yield LiveCheck("snowflake login", "ok", str(session_of(connection)))
        yield from guarded("snowflake objects", partial(check_objects, connection, context.login))
        yield from guarded("sources", partial(_check_sources, connection, context, found))
        if found and not context.config.allow_loop:
            yield from guarded("loop guard", partial(_check_loops, connection, context, found))


def _check_sources(connection: SnowflakeConnection, context: ExportContext, found: list[Source]) -> Iterator[LiveCheck]:
    found += discover(connection, context.config, context.namespace)
    for source in found:
        columns = counted(len(source.columns), "column")
        key = ", ".join(column.name for column in source.key)
        said = f"{source.relation}: {columns}, {f'key {key}' if key else 'no key'}, to topic {source.topic}"
        yield LiveCheck(f"source {source.name}", "ok", said)
    at = now()
    for stream in staleness(connection, found):
        if stream.needs_attention(at) and not stream.gone:
            said = "is stale" if stream.stale else f"becomes stale in {stream.hours_left(at):.0f} h"
            step = "Run the export before that. Of a stale stream: `firn export resync <config>`."
            yield LiveCheck(f"stream {stream.stream}", "failed" if stream.stale else "warning", said, step)


def _check_loops(
    connection: SnowflakeConnection, context: ExportContext, found: Iterable[Source]
) -> Iterator[LiveCheck]:
    refuse_loops(find_loops(connection, context.namespace, found))
    yield LiveCheck("loop guard", "ok", "no sink of this schema loads what the export publishes into its source")


def _content_tasks(context: ExportContext, found: list[Source], try_message: TryMessage) -> Iterator[Task]:
    client, errors = context.kafka, context.config.errors
    if not context.config.topics.create:  # those that the export makes may be absent
        yield Task("kafka login", partial(check_topics, client, [source.topic for source in found]))
    if errors.dead_letter_topic:
        look = partial(check_dead_letters, client, errors.dead_letter_topic, errors.dead_letter_replication)
        yield Task("dead-letter topic", look)
    if found:
        yield Task("one message", partial(_try_messages, context, found, try_message))


def _try_messages(context: ExportContext, found: Iterable[Source], try_message: TryMessage) -> Iterator[LiveCheck]:
    with connect(context.login, query_tag="firn export validate") as connection:
        for source in found:
            yield from guarded(f"message of {source.name}", partial(_tried, connection, context, source, try_message))


def _tried(
    connection: SnowflakeConnection, context: ExportContext, source: Source, try_message: TryMessage
) -> list[LiveCheck]:
    return [try_message(connection, context, source)]
