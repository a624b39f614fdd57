"""What one sink does: the immutable value that a connector file is parsed into. Below it there are no string keys.

Not for reading or checking (`firn.connector.parse`), nor for where the outside world is when the file leaves it out
(settings and secrets). Times in seconds, sizes in bytes; None means: taken from settings and secrets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import SecretStr

from firn.connector.formats import Format
from firn.kafka.properties import KafkaProperty
from firn.proxy import ProxyConfig
from firn.registry.endpoint import RegistryConfig
from firn.snowflake.columns import TableType


class Method(StrEnum):
    """How rows travel: staged files and COPY, or appended to channels."""

    SNOWPIPE = "SNOWPIPE"
    SNOWPIPE_STREAMING = "SNOWPIPE_STREAMING"


class HeaderFormat(StrEnum):
    """How header values are read: guessed as by Connect's SimpleHeaderConverter, as text, or as base64."""

    SIMPLE = "simple"
    STRING = "string"
    BYTES = "bytes"


@dataclass(frozen=True)
class ProtobufOptions:
    """The parameters of Confluent's ProtobufConverter that change the JSON."""

    enums_as_numbers: bool = False  # int.for.enums
    index_in_union_names: bool = True  # generate.index.for.unions
    raw_wrappers: bool = True  # wrapper.for.raw.primitives
    flatten_unions: bool = False  # flatten.unions


@dataclass(frozen=True)
class ConverterConfig:
    """How keys or values are converted. `hoist` are the fields of HoistField, the innermost first."""

    format: Format
    registry: RegistryConfig | None = None
    # The text `null` and an empty value: a null record to Connect's JsonConverter, the JSON null to Snowflake's.
    json_null_is_tombstone: bool = True
    protobuf: ProtobufOptions = ProtobufOptions()
    hoist: tuple[str, ...] = ()
    # A null in a nullable field becomes the field's default, as Connect's Struct.get has it (Avro, JSON with a schema).
    null_defaults: bool = True
    # A union of one type is that type, and no object with one member (Avro).
    flatten_singletons: bool = True


@dataclass(frozen=True)
class MetadataConfig:
    """Which fields RECORD_METADATA has; without `all` the column is NULL."""

    all: bool = True
    topic: bool = True
    offset_and_partition: bool = True
    create_time: bool = True
    push_time: bool = True
    timestamp: bool = False


@dataclass(frozen=True)
class BufferConfig:
    """Limits of a partition's staged file, and how long records wait for their batch (SNOWPIPE)."""

    records: int = 10_000
    seconds: int = 120
    bytes: int = 5_000_000


@dataclass(frozen=True)
class StreamingConfig:
    """How SNOWPIPE_STREAMING appends rows; SNOWPIPE uses none of it.

    client_lag_seconds: how long the client may keep rows before it sends them. memory_bytes: what it may hold of one
    partition; None: as Firn has it (`firn.channels.client`). client_properties: names and values of its other
    properties, none of them secret. ledger_seconds: between two moves of the ledger, at
    least. idle_seconds: without a record, until a group of partitions gives its task back.
    """

    client_lag_seconds: float = 0.2
    memory_bytes: int | None = None
    client_properties: tuple[tuple[str, str], ...] = ()
    ledger_seconds: float = 600.0
    idle_seconds: float = 300.0


@dataclass(frozen=True)
class ErrorsConfig:
    """What happens to records that cannot be converted."""

    tolerance: Literal["none", "all"] = "none"
    log_enable: bool = False
    log_messages: bool = False
    dead_letter_topic: str | None = None
    dead_letter_replication: int = 3
    dead_letter_headers: bool = False


@dataclass(frozen=True)
class TableConfig:
    """How tables are made and grow. cluster_by: of the clustering key; max_columns: how many records may bring."""

    type: TableType = TableType.STANDARD
    cluster_by: str | None = None
    max_columns: int = 1000


@dataclass(frozen=True)
class SnowflakeConfig:
    """Where the tables are and who writes them."""

    url: str | None = None
    user: str | None = None
    role: str | None = None
    private_key: SecretStr | None = None
    private_key_passphrase: SecretStr | None = None
    database: str | None = None
    schema: str | None = None
    warehouse: str | None = None


@dataclass(frozen=True)
class MetricsConfig:
    """Where the driver serves its metrics; port 0: nowhere."""

    port: int = 0
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class SinkConfig:
    """What one sink does."""

    name: str
    topics: tuple[str, ...] = ()
    topics_regex: str | None = None
    table_map: tuple[tuple[str, str], ...] = ()
    method: Method = Method.SNOWPIPE
    tasks_max: int | None = None
    value: ConverterConfig = ConverterConfig(Format.AVRO)
    key: ConverterConfig = ConverterConfig(Format.STRING)
    headers: HeaderFormat = HeaderFormat.SIMPLE
    null_values: Literal["default", "ignore"] = "default"
    metadata: MetadataConfig = MetadataConfig()
    buffer: BufferConfig = BufferConfig()
    streaming: StreamingConfig = StreamingConfig()
    snowflake: SnowflakeConfig = SnowflakeConfig()
    proxy: ProxyConfig | None = None
    errors: ErrorsConfig = ErrorsConfig()
    kafka: tuple[KafkaProperty, ...] = field(default=(), repr=False)
    first_offset: Literal["earliest", "latest"] = "earliest"
    auto_create_tables: bool = True
    schematization: bool = False
    # None: tables evolve that have ENABLE_SCHEMA_EVOLUTION, as those do that the sink makes itself.
    auto_evolve: bool | None = None
    # What happens to fields without a column where a table does not evolve.
    unknown_fields: Literal["error", "ignore"] = "error"
    tables: TableConfig = TableConfig()
    batch_records: int = 500_000
    batch_bytes: int = 512 * 1024 * 1024
    topic_refresh_seconds: float = 30.0
    trigger_seconds: float = 1.0
    heartbeat_seconds: float = 30.0
    share_target: bool = False
    metrics: MetricsConfig = MetricsConfig()
