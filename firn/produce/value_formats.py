"""What records carry: one class for each format of values, with its schema, its checks of rows and its bytes.

Avro, JSON Schema and Protobuf are framed with a schema id, as Confluent's serializers frame them; plain JSON is not
framed and needs no schema (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/).
Not for reading files (`rows`), nor for Avro's types (`coerce`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import fastavro
import jsonschema  # type: ignore[import-untyped]
import orjson
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from referencing import Registry

from firn.errors import ConfigError
from firn.produce.coerce import record_coercer, required_fields
from firn.produce.framing import FormatName, framed
from firn.produce.scalars import CoercionError, expected
from firn.registry.avro_schema import parse, read_schema
from firn.registry.protobuf_schema import root_file
from firn.registry.schemas import InvalidSchemaError, RegisteredSchema, SchemaKind

Row: TypeAlias = Mapping[str, Any]
Coercer: TypeAlias = Callable[[Row], dict[str, Any]]
Encoder: TypeAlias = Callable[[Any], bytes]

_FIRST_MESSAGE = b"\x00"  # message indexes of the first message of a file


class ValueFormat(Protocol):
    """How rows become values of one schema."""

    kind: SchemaKind | None
    """The registry's word for the format; None: values have no registered schema."""
    schema: str
    name: str | None
    """The name of the schema's outermost type."""

    @property
    def fields(self) -> Sequence[str] | None:
        """Names of the fields; None: any."""

    @property
    def required(self) -> Sequence[str]:
        """Names of the fields that a row must have."""

    def coercer(self, *, text: bool) -> Coercer:
        """Rows to values, which may raise CoercionError. `text`: every value of a row is text (CSV)."""

    def encoder(self, schema_id: int) -> Encoder:
        """Values to bytes, which may raise CoercionError. `schema_id` counts where values are framed."""


class AvroValues:
    """Avro. Raises ConfigError for a schema that cannot be parsed."""

    kind: SchemaKind | None = "AVRO"

    def __init__(self, schema: str, where: str) -> None:
        self.schema, self._parsed = schema, parse(schema, where=where)
        self.name: str | None = self._parsed["name"] if isinstance(self._parsed, dict) else None

    @property
    def fields(self) -> Sequence[str] | None:
        """As ValueFormat. Raises ConfigError for a schema that is not a record."""
        record_coercer(self._parsed, text=True)
        return [field["name"] for field in self._parsed["fields"]]

    @property
    def required(self) -> Sequence[str]:
        """As ValueFormat."""
        return list(required_fields(self._parsed))

    def coercer(self, *, text: bool) -> Coercer:
        """As ValueFormat."""
        return cast("Coercer", record_coercer(self._parsed, text=text))

    def encoder(self, schema_id: int) -> Encoder:
        """As ValueFormat."""
        return framed(schema_id, lambda buffer, value: fastavro.schemaless_writer(buffer, self._parsed, value))


class JsonValues:
    """JSON without a schema: rows as they are. Cells of a CSV file are texts."""

    kind: SchemaKind | None = None
    schema = ""
    name: str | None = None
    fields: Sequence[str] | None = None
    required: Sequence[str] = ()

    def coercer(self, *, text: bool) -> Coercer:  # noqa: ARG002 - a text is JSON too
        """As ValueFormat."""
        return dict

    def encoder(self, schema_id: int) -> Encoder:  # noqa: ARG002 - not framed
        """As ValueFormat."""
        return _json


class JsonSchemaValues:
    """JSON Schema, checked by jsonschema. Raises ConfigError for a schema that is none, or not of an object."""

    kind: SchemaKind | None = "JSON"

    def __init__(self, schema: str, where: str) -> None:
        self.schema = schema
        try:
            self._parsed: Any = json.loads(schema)
            checker = jsonschema.validators.validator_for(self._parsed, jsonschema.Draft7Validator)
            checker.check_schema(self._parsed)
        except (ValueError, jsonschema.SchemaError) as error:
            raise _bad_schema(f"not JSON Schema: {getattr(error, 'message', error)}", where) from None
        if not isinstance(self._parsed, dict) or not isinstance(self._parsed.get("properties"), dict):
            raise _bad_schema("not a schema of objects: it has no properties", where)
        self._check = checker(self._parsed, registry=Registry())
        self._properties: dict[str, Any] = self._parsed["properties"]
        self.name: str | None = self._parsed.get("title")

    @property
    def fields(self) -> Sequence[str] | None:
        """As ValueFormat; the schema may allow more than its properties."""
        return list(self._properties) if self._parsed.get("additionalProperties") is False else None

    @property
    def required(self) -> Sequence[str]:
        """As ValueFormat."""
        return list(self._parsed.get("required", ()))

    def coercer(self, *, text: bool) -> Coercer:
        """As ValueFormat. Cells are read as their property's type; an empty one of a type that is no text is absent."""

        def coerce(row: Row) -> dict[str, Any]:
            value: dict[str, Any] = orjson.loads(_json(dict(self._typed(row)) if text else row))
            fault = next(iter(self._check.iter_errors(value)), None)
            if fault is not None:
                path = ".".join(map(str, fault.absolute_path)) or "of the row"
                raise CoercionError(path, f"what the schema says ({fault.message[:200]})", "")
            return value

        return coerce

    def encoder(self, schema_id: int) -> Encoder:
        """As ValueFormat."""
        return framed(schema_id, lambda buffer, value: buffer.write(_json(value)))

    def _typed(self, row: Row) -> list[tuple[str, Any]]:
        cells = [(name, _cell(str(text), self._types(name))) for name, text in row.items()]
        return [(name, value) for name, value in cells if value is not _ABSENT]

    def _types(self, name: str) -> set[str]:
        types = self._properties.get(name, {}).get("type", "string")
        return {types} if isinstance(types, str) else set(types)


class ProtobufValues:
    """The first message of a .proto file. Raises ConfigError for a file that protoc refuses or that has no message."""

    kind: SchemaKind | None = "PROTOBUF"

    def __init__(self, schema: str, where: str) -> None:
        self.schema = schema
        try:
            messages = list(root_file(RegisteredSchema("PROTOBUF", schema)).message_types_by_name.values())
        except InvalidSchemaError as error:
            raise _bad_schema(f"not a Protobuf schema: {error}", where) from None
        if not messages:
            raise _bad_schema("a Protobuf schema without a message", where)
        self._message = messages[0]
        self.name: str | None = self._message.full_name

    @property
    def fields(self) -> Sequence[str] | None:
        """As ValueFormat."""
        return [field.name for field in self._message.fields]

    @property
    def required(self) -> Sequence[str]:
        """As ValueFormat; only proto2 has such fields."""
        return [field.name for field in self._message.fields if field.is_required]

    def coercer(self, *, text: bool) -> Coercer:
        """As ValueFormat. An empty cell of a field that is no text is absent."""
        return self._typed if text else dict

    def encoder(self, schema_id: int) -> Encoder:
        """As ValueFormat. Values are read as Protobuf's JSON (https://protobuf.dev/programming-guides/json/)."""
        message = GetMessageClass(self._message)

        def body(value: Any) -> bytes:
            try:
                read = json_format.ParseDict(orjson.loads(_json(value)), message())
                return _FIRST_MESSAGE + read.SerializeToString(deterministic=True)
            except Exception as error:  # ParseError, EncodeError, ValueError, ...: all of them of the value
                raise CoercionError("of the row", f"a message {self.name} ({str(error)[:200]})", "") from None

        return framed(schema_id, lambda buffer, value: buffer.write(body(value)))

    def _typed(self, row: Row) -> dict[str, Any]:
        kinds = {field.name: _protobuf_types(field) for field in self._message.fields}
        cells = {name: _cell(str(text), kinds.get(name, {"string"})) for name, text in row.items()}
        return {name: value for name, value in cells.items() if value is not _ABSENT}


def value_format(name: FormatName, schema: str, where: str) -> ValueFormat:
    """The format of this name for the text of a schema, which plain JSON has not. Raises ConfigError."""
    if name == "json":
        return JsonValues()
    formats: dict[str, Callable[[str, str], ValueFormat]] = {
        "avro": AvroValues,
        "json-schema": JsonSchemaValues,
        "protobuf": ProtobufValues,
    }
    return formats[name](schema, where)


def read_format(name: FormatName, file: Path | None) -> ValueFormat:
    """The format with the schema of a file. Raises ConfigError for a file that is absent, superfluous or malformed."""
    if name == "json":
        if file is not None:
            raise ConfigError(
                "Plain JSON has no schema.", where=str(file), next_step="Omit --schema, or give --format json-schema."
            )
        return JsonValues()
    if file is None:
        raise ConfigError(f"A file in format {name} needs a schema.", next_step="Also give --schema FILE.")
    if name == "avro":
        return AvroValues(read_schema(file), str(file))
    try:
        return value_format(name, file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The schema cannot be read ({error}).", where=str(file), next_step="Check the path and the file's text."
        ) from None


_ABSENT = object()
_PARSED_TEXT = "a text that Protobuf's JSON reads"


def _protobuf_types(field: Any) -> set[str]:
    if field.is_repeated or (field.cpp_type == field.CPPTYPE_MESSAGE and not _is_text(field.message_type)):
        return {"object"}
    if field.cpp_type == field.CPPTYPE_BOOL:
        return {"boolean"}
    return {"string"} if field.type == field.TYPE_STRING else {_PARSED_TEXT}


def _is_text(message: Any) -> bool:
    """Whether a message is a text in Protobuf's JSON."""
    return message.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration", "google.protobuf.FieldMask")


def _cell(text: str, types: set[str]) -> Any:
    """The value of a CSV cell. Raises CoercionError for a text that is none of `types`."""
    if "string" in types and (text or len(types) == 1):
        return text
    if not text:
        return None if "null" in types else _ABSENT
    if _PARSED_TEXT in types:
        return text
    try:
        return orjson.loads(text.lower() if text.lower() in ("true", "false") else text)
    except orjson.JSONDecodeError:
        raise expected(" or ".join(sorted(types)), text) from None


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_PASSTHROUGH_DATETIME)
    except TypeError as error:
        raise CoercionError("of the row", f"values for JSON ({error})", "") from None


def _plain(value: Any) -> Any:
    """What JSON has no type for (values of Parquet): times as RFC 3339, decimals as text, bytes in base64."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


def _bad_schema(what: str, where: str) -> ConfigError:
    return ConfigError(f"The schema is {what[:500]}.", where=where, next_step="Correct the schema.")
