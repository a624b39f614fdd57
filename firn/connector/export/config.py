"""What one export does: the immutable value that a connector file is parsed into. Below it there are no string keys.

Not for reading or checking (`firn.connector.export.parse`), nor for what Snowflake has of a source
(`firn.exports.sources`). Times in seconds, sizes in bytes; None means: taken from settings and secrets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import SecretStr

from firn.connector.config import SnowflakeConfig
from firn.kafka.properties import KafkaProperty
from firn.proxy import ProxyConfig
from firn.registry.endpoint import RegistryConfig


class SourceKind(StrEnum):
    """What a source is: how its changes are found."""

    STREAM = "stream"
    """A stream that somebody made."""
    TABLES = "tables"
    """Tables by name or pattern; the export makes a stream for each."""
    CURSOR = "cursor"
    """A table whose rows are found by columns that grow."""
    QUERY = "query"
    """The user's SQL over one or more streams."""
    COMPARED = "compared"
    """The user's SQL, or a table, compared with what it returned before."""


class MessageFormat(StrEnum):
    """How keys and values are written."""

    AVRO = "avro"
    JSON_SCHEMA = "json_schema"
    JSON = "json"
    JSON_ENVELOPE = "json_envelope"
    """Connect's {"schema": ..., "payload": ...}."""
    STRING = "string"
    """Keys alone: the text of one column, or several with `|` between them."""

    @property
    def in_registry(self) -> bool:
        """Whether the schema is in the registry, and its id in front of each message."""
        return self in (MessageFormat.AVRO, MessageFormat.JSON_SCHEMA)


class Envelope(StrEnum):
    """What a value holds: the row, Debezium's before and after, or each row of the stream as it is."""

    ROW = "row"
    DEBEZIUM = "debezium"
    CHANGE = "change"


@dataclass(frozen=True)
class MessageConfig:
    """How keys or values are written. auto_register: whether schemas are registered; else the newest one must fit."""

    format: MessageFormat
    registry: RegistryConfig | None = None
    auto_register: bool = True


@dataclass(frozen=True)
class MaskConfig:
    """How a column's values are hidden.

    columns: expressions over names, as of `SourceConfig.include`. kind: `hash` (SHA-256 of salt and text), `replace`
    (by `text`), `truncate` (to `length` characters).
    """

    columns: tuple[str, ...]
    kind: Literal["hash", "replace", "truncate"]
    salt: SecretStr | None = None
    text: str = ""
    length: int = 0


@dataclass(frozen=True)
class QualityCheck:
    """A condition that each row must meet before it is published: SQL that is TRUE.

    action: `stop` leaves the stream as it is and ends the export, `dead letter` publishes the row as one, `warn` only
    counts it.
    """

    name: str
    expression: str
    action: Literal["stop", "dead letter", "warn"] = "stop"


@dataclass(frozen=True)
class SourceConfig:
    """One source as the file names it.

    names: objects as they are written (STREAM: one stream; TABLES: tables; CURSOR: one table; QUERY: the streams that
    the SQL reads; COMPARED: one table without `sql`, else the tables that the SQL reads). patterns, excluded: of
    TABLES, expressions over `<schema>.<table>`. Columns are names as they are written. key_columns: of every table;
    keys: (expression over `<schema>.<table>`, columns), the first that matches counts; without both the primary key
    that the table declares. include, exclude and masks: expressions over `<schema>.<table>.<column>` or `<column>`, in
    any case. topic: a template. types: (column, logical type).
    """

    name: str
    kind: SourceKind
    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    sql: str | None = None
    cursor_columns: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    order_columns: tuple[str, ...] = ()
    topic: str = "{source}"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    masks: tuple[MaskConfig, ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    checks: tuple[QualityCheck, ...] = ()


@dataclass(frozen=True)
class BatchConfig:
    """Limits of one Kafka transaction: rows exactly; it ends with the row that passes `bytes`."""

    rows: int = 1000
    bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True)
class PollConfig:
    """How often an export asks for data. adaptive: between `shortest` and `longest`, by what it found."""

    seconds: float = 60.0
    adaptive: bool = False
    shortest: float = 1.0
    longest: float = 300.0


@dataclass(frozen=True)
class ExportErrorsConfig:
    """What happens to rows that no message can be made of."""

    tolerance: Literal["none", "all"] = "none"
    dead_letter_topic: str | None = None
    dead_letter_replication: int = 3
    log_enable: bool = False


@dataclass(frozen=True)
class SnapshotConfig:
    """What a source publishes first: the rows that are there, or changes only. shards: parts of the first rows that
    are published side by side, by the hash of the key."""

    initial: Literal["rows", "changes only"] = "rows"
    shards: int = 4


@dataclass(frozen=True)
class SnowflakeTaskConfig:
    """A task of Snowflake that moves changes into the outbox. warehouse None: serverless."""

    schedule: str = "1 MINUTE"
    warehouse: str | None = None


@dataclass(frozen=True)
class TopicConfig:
    """How topics are made that are absent. partitions, replication -1: the broker's default."""

    create: bool = True
    partitions: int = -1
    replication: int = -1
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ExportConfig:
    """What one export does."""

    name: str
    sources: tuple[SourceConfig, ...]
    snowflake: SnowflakeConfig = field(default_factory=SnowflakeConfig)
    proxy: ProxyConfig | None = None
    kafka: tuple[KafkaProperty, ...] = field(default=(), repr=False)
    key: MessageConfig = MessageConfig(MessageFormat.STRING)
    value: MessageConfig = MessageConfig(MessageFormat.AVRO)
    envelope: Envelope = Envelope.ROW
    tombstones: bool = True
    batch: BatchConfig = BatchConfig()
    poll: PollConfig = PollConfig()
    retries: int = 3
    tasks_max: int | None = None
    errors: ExportErrorsConfig = ExportErrorsConfig()
    row_function: str | None = None
    function_path: str | None = None
    snapshot: SnapshotConfig = SnapshotConfig()
    task: SnowflakeTaskConfig | None = None
    topics: TopicConfig = TopicConfig()
    marker_topic: str = "firn-export-markers"
    allow_loop: bool = False

    @property
    def publishes_letters(self) -> bool:
        """Whether rows may become dead letters: all that fail, or those that fail a check with this action."""
        checked = any(check.action == "dead letter" for source in self.sources for check in source.checks)
        return bool(self.errors.dead_letter_topic) and (checked or self.errors.tolerance == "all")
