"""What a Spark Python worker keeps between tasks: Kafka and Snowflake connections, and its compiled schemas.

A worker runs one task at a time, so nothing here is shared between threads. Logging in costs about as much as a
small batch, and compiling a schema more than decoding one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from snowflake.connector import SnowflakeConnection

from firn.connector.config import ConverterConfig
from firn.errors import AuthenticationError, ClaimAgainError, FirnError, TransientError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import OffsetRange
from firn.kafka.ranges import BACKLOG_QUEUE, SMALL_QUEUE, SMALL_RANGE, RangeReader
from firn.ledger.table import LedgerTable
from firn.registry.login import RegistryLogin, registry_client
from firn.registry.schemas import RegisteredSchema, registered_schema
from firn.retry import Deadline, with_retries
from firn.sinks.context import SinkContext
from firn.snowflake.columns import ColumnType
from firn.snowflake.connection import SnowflakeLogin, close_quietly, open_connection
from spark_jobs.sink.columns.column_assignment import SchemaTypes
from spark_jobs.sink.decode.base.contract import Converter, Decoder, Writer
from spark_jobs.sink.decode.converters import converter_for
from spark_jobs.sink.methods import registry
from spark_jobs.sink.methods.base import InSession

_sessions: dict[SnowflakeLogin, SnowflakeConnection] = {}
_readers: dict[tuple[KafkaClient, int], RangeReader] = {}
READ_SECONDS = 60.0
"""How long a range may bring nothing before the task fails; the driver then claims again, and so asks Kafka."""
patience = Deadline(60.0)
"""What all retries of the task that runs share; `begin_task` says how long it is."""


def begin_task(seconds: float) -> None:
    """A new task: it may go on failing for so long, whatever it is that fails."""
    patience.seconds = seconds
    patience.succeeded()


def now_ms() -> int:
    """The time of this worker's clock in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def decoders_of(context: SinkContext) -> tuple[Decoder, Decoder]:
    """The decoders of this worker for the sink's values and keys."""
    config, zone = context.config, registry.of(context.config.method).time_zone
    value = _converter("value", config.value, context.value_registry, zone)
    return value, _converter("key", config.key, context.key_registry, zone)


@lru_cache(maxsize=8)
def _converter(side: str, config: ConverterConfig, login: RegistryLogin | None, time_zone: str) -> Converter:
    """One per side, also where both are configured alike: a decoder is not made to be used within itself."""
    return converter_for(config, _schemas(login), time_zone=time_zone, as_key=side == "key")


def schema_types_of(context: SinkContext) -> SchemaTypes:
    """The types of columns that a schema gives to the fields of a value."""
    return _schema_types(context.config.value, context.value_registry)


@lru_cache(maxsize=8)
def _schema_types(config: ConverterConfig, registry: RegistryLogin | None) -> SchemaTypes:
    converter = converter_for(config, _schemas(registry))

    @lru_cache(maxsize=1024)
    def types_of(writer: Writer) -> Mapping[str, ColumnType]:
        return converter.types_of(writer).columns

    return types_of


def reader_for(context: SinkContext, offsets: OffsetRange) -> RangeReader:
    """This worker's reader of ranges, with the task's patience; its connections stay open between tasks."""
    queue = SMALL_QUEUE if len(offsets) <= SMALL_RANGE else BACKLOG_QUEUE
    for other in [key for key in _readers if key[0] != context.kafka]:  # of another sink, or credentials of before
        _readers.pop(other).close()
    found = _readers.get((context.kafka, queue))
    if found is None:
        found = _readers[context.kafka, queue] = RangeReader(context.kafka, queue=queue)
    found.patience = min(READ_SECONDS, patience.left())
    return found


def _schemas(registry: RegistryLogin | None) -> Callable[[int], RegisteredSchema]:
    if registry is None:
        return _no_registry
    client = registry_client(registry)
    return lambda schema_id: with_retries(patience, registered_schema, client, schema_id)


def _no_registry(schema_id: int) -> RegisteredSchema:
    raise FirnError(f"Schema id {schema_id} was asked for by a converter without a registry.")


def session_of(context: SinkContext) -> InSession:
    """This worker's Snowflake session, with the task's patience."""
    return lambda work: with_retries(patience, _in_session, context.login, work)


def confirm_epoch(context: SinkContext, epoch: int) -> None:
    """Raise FencedError unless the sink still belongs to the run of `epoch`. Raises as statements do."""
    table = LedgerTable(context.namespace, context.config.name)
    session_of(context)(lambda connection: table.check_epoch(connection, epoch))


def confirm_topics(admin: cluster.KafkaAdmin, ids: Mapping[str, str], topics: Iterable[str]) -> None:
    """Raise ClaimAgainError unless these topics are still the ones that were claimed."""

    def fault() -> FirnError | None:
        try:
            cluster.check_topic_ids(admin, {topic: ids[topic] for topic in topics})
        except cluster.RecreatedTopicError as error:
            return error
        return None

    if (found := with_retries(patience, fault)) is not None:
        raise ClaimAgainError(found.what, where=found.where)


def _in_session(login: SnowflakeLogin, work: Callable[[SnowflakeConnection], None]) -> None:
    """Work in this worker's session; one that died since it was used last, or was revoked, is replaced at the next."""
    connection = _sessions.get(login) or _open(login)
    try:
        work(connection)
    except (TransientError, AuthenticationError):
        _sessions.pop(login, None)
        close_quietly(connection)
        raise


def _open(login: SnowflakeLogin) -> SnowflakeConnection:
    """A session of this login, and none of another: after a rotation nobody would use or close the old one."""
    while _sessions:
        close_quietly(_sessions.popitem()[1])
    connection = _sessions[login] = open_connection(login)
    return connection
