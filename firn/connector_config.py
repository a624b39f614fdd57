"""A sink's configuration: a Kafka Connect connector in JSON or .properties, parsed once into an immutable value.

Below this module there are no string keys. Every fault is reported at once. The parameter names are the official
connector's (https://docs.snowflake.com/en/user-guide/kafka-connector-install); our own begin with `firn.`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from firn.connector.file import read_connector_file
from firn.errors import ConfigError

AVRO_CONVERTERS = {
    "io.confluent.connect.avro.AvroConverter",
    "com.snowflake.kafka.connector.records.SnowflakeAvroConverter",
}
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_$]*"


@dataclass(frozen=True)
class SinkConfig:
    """What one sink does. Times in seconds, sizes in bytes; None means: taken from settings and secrets."""

    name: str
    topics: tuple[str, ...]
    topics_regex: str | None = None
    table_map: tuple[tuple[str, str], ...] = ()
    url: str | None = None
    user: str | None = None
    role: str | None = None
    private_key: SecretStr | None = None
    private_key_passphrase: SecretStr | None = None
    database: str | None = None
    schema: str | None = None
    warehouse: str | None = None
    auto_create_tables: bool = True
    first_offset: Literal["earliest", "latest"] = "earliest"
    file_records: int = 10_000
    flush_seconds: int = 120
    file_bytes: int = 5_000_000
    batch_records: int = 500_000
    checkpoint_location: str | None = None


@dataclass(frozen=True)
class Parameter:
    """One known parameter: where its parsed value goes (None: checked and without effect here) and how it is read."""

    target: str | None
    read: Callable[[str], Any]
    doc: str
    required: bool = False


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value.strip()


def _secret(value: str) -> SecretStr:
    if value.strip().startswith("${"):
        raise ValueError("is a reference, which cannot be resolved yet; leave it out to use the Snowflake secret")
    return SecretStr(_text(value))


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$-]*", value.strip()):
        raise ValueError("must begin with a letter or underscore and hold only letters, digits, _, - and $")
    return value.strip()


def _integer(minimum: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError("is not a whole number") from None
        if number < minimum:
            raise ValueError(f"is below the minimum {minimum}")
        return number

    return read


def _boolean(value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return value.strip().lower() == "true"


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        for choice in allowed:
            if value.strip().lower() == choice.lower():
                return choice
        raise ValueError(f"must be one of {', '.join(allowed)}")

    return read


def _topics(value: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not topics:
        raise ValueError("names no topic")
    wrong = [topic for topic in topics if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no topic name (letters, digits, '.', '_', '-')")
    return topics


def _regex(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return value


def _table_map(value: str) -> tuple[tuple[str, str], ...]:
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        topic, colon, table = (piece.strip() for piece in part.partition(":"))
        if not colon or not topic or not re.fullmatch(IDENTIFIER, table):
            raise ValueError(f"{part!r} is not <topic>:<table> with a valid table name")
        if topic in pairs:
            raise ValueError(f"maps topic {topic!r} twice")
        pairs[topic] = table
    return tuple(pairs.items())


PARAMETERS: Mapping[str, Parameter] = {
    "name": Parameter("name", _name, "Name of the sink; part of its stage paths and ledger rows.", required=True),
    "connector.class": Parameter(
        None,
        _one_of(
            "com.snowflake.kafka.connector.SnowflakeSinkConnector",
            "com.snowflake.kafka.connector.SnowflakeStreamingSinkConnector",
            "SnowflakeSink",
        ),
        "Accepted so that a connector's file works as it stands.",
    ),
    "topics": Parameter("topics", _topics, "Topics, separated by commas."),
    "topics.regex": Parameter("topics_regex", _regex, "Topics by regular expression, instead of `topics`."),
    "snowflake.topic2table.map": Parameter("table_map", _table_map, "<topic>:<table>, separated by commas."),
    "snowflake.url.name": Parameter("url", _text, "Account address, with an optional port."),
    "snowflake.user.name": Parameter("user", _text, "User of the key-pair login."),
    "snowflake.role.name": Parameter("role", _text, "Role of the session."),
    "snowflake.private.key": Parameter("private_key", _secret, "Private key of the user."),
    "snowflake.private.key.passphrase": Parameter("private_key_passphrase", _secret, "Passphrase of an encrypted key."),
    "snowflake.database.name": Parameter("database", _text, "Database of the tables."),
    "snowflake.schema.name": Parameter("schema", _text, "Schema of the tables."),
    "snowflake.ingestion.method": Parameter(None, _one_of("SNOWPIPE"), "How rows travel: staged files and COPY."),
    "tasks.max": Parameter(None, _integer(1), "Accepted; Spark's master decides how much runs at a time."),
    "auto.create.tables": Parameter("auto_create_tables", _boolean, "Make a table that is absent."),
    "buffer.count.records": Parameter("file_records", _integer(1), "Records of a partition that fill a file."),
    "buffer.flush.time": Parameter("flush_seconds", _integer(1), "Seconds after which rows travel in any case."),
    "buffer.size.bytes": Parameter("file_bytes", _integer(1), "Bytes of a partition that fill a file."),
    "input.data.format": Parameter(None, _one_of("AVRO"), "Format of record values."),
    "input.key.format": Parameter(None, _one_of("STRING"), "Format of record keys."),
    "value.converter": Parameter(None, _one_of(*sorted(AVRO_CONVERTERS)), "Converter of record values."),
    "key.converter": Parameter(None, _one_of(STRING_CONVERTER), "Converter of record keys."),
    "errors.tolerance": Parameter(None, _one_of("none"), "Stop in front of a record that cannot be converted."),
    "consumer.override.auto.offset.reset": Parameter(
        "first_offset", _one_of("earliest", "latest"), "Where a sink begins that has never run."
    ),
    "firn.snowflake.warehouse": Parameter("warehouse", _text, "Warehouse that runs COPY."),
    "firn.batch.records": Parameter("batch_records", _integer(1), "Records of one batch and commit at most."),
    "firn.checkpoint.location": Parameter(
        "checkpoint_location", _text, "Where Spark keeps its plan of batches; any file system Spark knows."
    ),
}


@dataclass
class _Faults:
    where: str
    lines: list[str] = field(default_factory=list)

    def add(self, parameter: str, fault: str) -> None:
        self.lines.append(f"  {parameter}: {fault}")

    def raise_any(self) -> None:
        if self.lines:
            count = f"{len(self.lines)} fault" + ("s" if len(self.lines) > 1 else "")
            raise ConfigError(
                f"The sink's configuration has {count}:\n" + "\n".join(self.lines),
                where=self.where,
                next_step="Correct these parameters.",
            )


def load_sink_config(path: Path) -> SinkConfig:
    """Read a connector file. Raises ConfigError that lists every fault."""
    return parse_sink_config(read_connector_file(path), where=str(path))


def parse_sink_config(raw: Mapping[str, str], *, where: str) -> SinkConfig:
    """Parse flat parameters into the typed value. Raises ConfigError that lists every fault."""
    faults = _Faults(where)
    values: dict[str, Any] = {}
    for name, text in raw.items():
        parameter = PARAMETERS.get(name)
        if parameter is None:
            near = difflib.get_close_matches(name, PARAMETERS, n=1, cutoff=0.4)
            faults.add(name, "is not a known parameter" + (f"; did you mean {near[0]}?" if near else ""))
            continue
        try:
            value = parameter.read(text)
        except ValueError as error:
            shown = "(hidden)" if parameter.read is _secret else repr(text)
            faults.add(name, f"{shown} {error}")
            continue
        if parameter.target:
            values[parameter.target] = value
    for name, parameter in PARAMETERS.items():
        if parameter.required and name not in raw:
            faults.add(name, "is required")
    if ("topics" in raw) == ("topics.regex" in raw):
        faults.add("topics, topics.regex", "exactly one of the two must be given")
    faults.raise_any()
    return SinkConfig(**{"topics": (), **values})
