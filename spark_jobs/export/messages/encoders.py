"""Records as bytes, a format each: schemas are registered once, when an encoder is made.

Framing: 0x00, the schema's id in 4 bytes, the body (Confluent's wire format,
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format).
Subjects are named after the topic: `<topic>-key`, `<topic>-value`.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import fastavro
import orjson

from firn.connector.export.config import MessageFormat
from firn.errors import ConfigError
from firn.registry.schemas import SchemaKind, find_id, latest_text, register
from spark_jobs.export.messages.avro_schema import avro_schema, evolved
from spark_jobs.export.messages.json_schema import connect_schema, json_schema
from spark_jobs.export.messages.schema import Record, avro_names
from spark_jobs.export.messages.types import Form, Scalar
from spark_jobs.export.messages.values import (
    Convert,
    avro_converter,
    connect_converter,
    json_converter,
    text_converter,
)
from spark_jobs.export.messages.writer_schemas import WriterSchemas

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

Side = Literal["key", "value"]
Values = Mapping[str, Any]
"""Converted values by the names of their fields, as the encoder's `row` gives them."""


class Encoder(Protocol):
    """How one side of a topic's messages is written, for one version of the columns."""

    def row(self, values: Mapping[str, Any]) -> Any:
        """Values of a row, or of a key, converted to what `encode` takes as a record. Raises ValueError."""
        ...

    def encode(self, record: Any) -> bytes:
        """The bytes of a message. record: of `row`, or an envelope around it."""
        ...


@dataclass(frozen=True)
class Subjects:
    """The registry that a side's schemas go to. register: whether absent ones are registered, or are an error."""

    client: SchemaRegistryClient
    register: bool = True


def encoder_for(
    chosen: MessageFormat, side: Side, topic: str, row: Record, message: Record, subjects: Subjects | None
) -> Encoder:
    """The encoder of a format. row: the columns; message: what a message is, the row itself or an envelope around it.

    Raises IncompatibleSchemaError and others of `registry.schemas`; ConfigError for a schema that is to be registered
    by somebody else.
    """
    match chosen:
        case MessageFormat.AVRO:
            return AvroEncoder(row, message, f"{topic}-{side}", _needed(subjects, side))
        case MessageFormat.JSON_SCHEMA:
            return JsonSchemaEncoder(row, message, f"{topic}-{side}", _needed(subjects, side))
        case MessageFormat.JSON:
            return JsonEncoder(row)
        case MessageFormat.JSON_ENVELOPE:
            return ConnectJsonEncoder(row, message)
        case MessageFormat.STRING:
            return TextEncoder(row)


def nested_in(chosen: MessageFormat, row: Record) -> Callable[[Any], Any]:
    """How a row that `Encoder.row` converted stands in a field that may be null.

    To fastavro by its name: it is then found at once, and not by trying all branches of the union.
    """
    if chosen is MessageFormat.AVRO:
        return lambda record: (row.full_name, record)
    return lambda record: record


class _Rows:
    """Converts the values of a row, field by field; `names` are what the format calls them."""

    def __init__(self, row: Record, names: list[str], converter: Callable[[Scalar], Convert | None]) -> None:
        self._fields = [
            (field.name, name, converter(field.type), field.nullable)
            for field, name in zip(row.fields, names, strict=True)
            if isinstance(field.type, Scalar)
        ]
        self._known = {field.name for field in row.fields}

    def row(self, values: Mapping[str, Any]) -> Any:
        """As `Encoder.row`."""
        converted: dict[str, Any] = {}
        for column, name, convert, nullable in self._fields:
            value = values.get(column)
            if value is None:
                if not nullable:
                    raise ValueError(f"{column} is null, and its field may not be")
                converted[name] = None
                continue
            try:
                converted[name] = value if convert is None else convert(value)
            except ValueError as error:
                raise ValueError(f"{column}: {error}") from None
        if len(values) > len(self._known) and (unknown := sorted(values.keys() - self._known)):
            raise ValueError(f"{unknown[0]} is no column of the source, and the schema has no field for it")
        return converted


class AvroEncoder(_Rows):
    """Avro in Confluent's framing."""

    def __init__(self, row: Record, message: Record, subject: str, subjects: Subjects) -> None:
        super().__init__(row, avro_names(field.name for field in row.fields), avro_converter)
        schema = avro_schema(message)
        schema_id, text = _registered(subjects, subject, "AVRO", schema, lambda latest: evolved(schema, latest))
        self._frame = struct.pack(">bI", 0, schema_id)
        self._schemas = WriterSchemas(json.loads(text))

    def encode(self, record: Any) -> bytes:
        """As `Encoder.encode`."""
        body = io.BytesIO(self._frame)
        body.seek(len(self._frame))
        fastavro.schemaless_writer(body, self._schemas.of(record), record)
        return body.getvalue()


class JsonSchemaEncoder(_Rows):
    """JSON in Confluent's framing, with its schema in the registry."""

    def __init__(self, row: Record, message: Record, subject: str, subjects: Subjects) -> None:
        super().__init__(row, [field.name for field in row.fields], json_converter)
        schema_id, _ = _registered(
            subjects, subject, "JSON", json_schema(message), lambda latest: json_schema(message, latest)
        )
        self._frame = struct.pack(">bI", 0, schema_id)

    def encode(self, record: Any) -> bytes:
        """As `Encoder.encode`."""
        return self._frame + orjson.dumps(record)


class JsonEncoder(_Rows):
    """Plain JSON. A row function may add fields."""

    def __init__(self, row: Record) -> None:
        super().__init__(row, [field.name for field in row.fields], json_converter)

    def row(self, values: Mapping[str, Any]) -> Any:
        """As `Encoder.row`."""
        if len(values) <= len(self._known):
            return super().row(values)
        own = {name: value for name, value in values.items() if name in self._known}
        added = {name: value for name, value in values.items() if name not in self._known}
        return super().row(own) | {name: _any_json(value) for name, value in added.items()}

    def encode(self, record: Any) -> bytes:
        """As `Encoder.encode`."""
        return orjson.dumps(record)


class ConnectJsonEncoder(_Rows):
    """JSON with its schema in each message, as Connect's JsonConverter writes it."""

    def __init__(self, row: Record, message: Record) -> None:
        super().__init__(row, [field.name for field in row.fields], connect_converter)
        self._schema = orjson.Fragment(orjson.dumps(connect_schema(message)))

    def encode(self, record: Any) -> bytes:
        """As `Encoder.encode`."""
        return orjson.dumps({"schema": self._schema, "payload": record})


class TextEncoder(_Rows):
    """Keys alone: the text of one column, or several with `|` between them."""

    def __init__(self, row: Record) -> None:
        super().__init__(row, [field.name for field in row.fields], text_converter)

    def encode(self, record: Any) -> bytes:
        """As `Encoder.encode`."""
        return "|".join([value or "" for value in record.values()]).encode()


_any_json = json_converter(Scalar(Form.JSON))


def _needed(subjects: Subjects | None, side: Side) -> Subjects:
    if subjects is None:
        raise ConfigError(
            f"The {side}'s format needs a schema registry, and none is known.",
            where=f"{side}.converter",
            next_step=f"Name it in {side}.converter.schema.registry.url, or in the registry's secret.",
        )
    return subjects


def _registered(
    subjects: Subjects,
    subject: str,
    kind: SchemaKind,
    schema: dict[str, Any],
    following: Callable[[Any], dict[str, Any]],
) -> tuple[int, str]:
    """(id, text) of this schema, or of the one that follows the newest of its subject.

    A schema that the subject has stays as it is, also where it is not the newest: rows that wait have the columns of
    when they were moved.
    """
    text = _text(schema)
    if (found := find_id(subjects.client, subject, text, kind)) is not None:
        return found, text
    if (latest := latest_text(subjects.client, subject)) is not None:
        text = _text(following(json.loads(latest)))
        if (found := find_id(subjects.client, subject, text, kind)) is not None:
            return found, text
    if not subjects.register:
        raise ConfigError(
            f"Subject {subject} has no version with this schema: {text}",
            where="the schema registry",
            next_step="Register it there, or set value.converter.auto.register.schemas=true (key. for keys).",
        )
    return register(subjects.client, subject, text, kind), text


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
