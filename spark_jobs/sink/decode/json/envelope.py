"""JSON with its schema: Connect's JsonConverter with schemas.enable=true, {"schema": ..., "payload": ...}.

Writers put the same schema in front of every payload, so a known beginning is not parsed again.
Source: org.apache.kafka.connect.json.JsonConverter of Kafka 4.1. Not for what schema and payload mean
(`connect_json`).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.base import json_text
from spark_jobs.sink.decode.base.contract import Decoded, MalformedError
from spark_jobs.sink.decode.base.rows import Budget, RowDecoder
from spark_jobs.sink.decode.connect.schema import Schema, Type, without_defaults
from spark_jobs.sink.decode.connect.values import writer
from spark_jobs.sink.decode.json.connect_json import connect_schema, has_decimals, reader
from spark_jobs.sink.decode.json.vector import Field, ObjectVectors, plain_type
from spark_jobs.sink.values.bad_records import INVALID_JSON, SCHEMA_MISMATCH

MAX_SCHEMAS = 1_000  # JsonConverter's schemas.cache.size
MAX_BEGINNINGS = 8
_FIELDS = {"schema", "payload"}
_PAYLOAD = b'"payload":'
_BLANKS = b" \t\r\n"


def json_envelope_decoder(time_zone: str, null_defaults: bool = True) -> EnvelopeDecoder:
    """The decoder of envelopes; `time_zone` is what a time of day ends with.

    null_defaults: whether the default of a schema stands for a null (replace.null.with.default); otherwise a schema
    that is not optional refuses a null, as JsonConverter does.
    """
    return EnvelopeDecoder(_Envelopes(time_zone, null_defaults))


class EnvelopeDecoder:
    """Decodes envelopes: the payloads behind a known beginning all at once, the other records one by one."""

    def __init__(self, envelopes: _Envelopes) -> None:
        self._envelopes, self._rows = envelopes, RowDecoder(envelopes.convert, INVALID_JSON)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows in, n out; null stays null). Raises OutputTooLargeError."""
        if values.null_count < len(values):
            self._envelopes.meet(values.drop_null()[0].as_py())
        content = pa.nulls(len(values), pa.string())
        for beginning, payloads in self._envelopes.beginnings:
            content = _behind(beginning, payloads, values, content)
            if content.null_count == values.null_count:
                break
        return self._rows.complete(values, content)


def _behind(beginning: bytes, payloads: _Payloads, values: pa.BinaryArray, content: pa.StringArray) -> pa.StringArray:
    """`content` with the texts of the payloads behind `beginning`, where vectors are sure of them."""
    if payloads.vectors is None:
        return content
    here = pc.and_(pc.starts_with(values, beginning), pc.ends_with(values, b"}"))
    here = pc.fill_null(pc.and_(here, content.is_null()), fill_value=False)
    rows = here.true_count
    if not rows:
        return content
    found = values if rows == len(values) else values.filter(here)
    texts = payloads.vectors.texts(pc.binary_slice(found, len(beginning), -1))
    return texts if rows == len(values) else pc.replace_with_mask(content, here, texts)


class _Payloads:
    """The payloads of one schema."""

    def __init__(self, schema: Schema, time_zone: str) -> None:
        self._budget, self._default = Budget(), schema.default
        self._read = reader(schema, "payload")
        self._write = writer(schema, time_zone, "payload", self._budget)
        self._exact = has_decimals(schema)
        self.vectors = ObjectVectors.of(self._fields(schema, time_zone)) if schema.type is Type.STRUCT else None

    def _fields(self, schema: Schema, time_zone: str) -> list[Field]:
        """The fields of a struct's payloads, as `vector` takes them."""

        def field(name: str, child: Schema) -> Field:
            path = f"payload.{name}"
            read, write = reader(child, path), writer(child, time_zone, path, self._budget)

            def text(value: Any) -> str:
                self._budget.reset()
                return write(read(value))

            plain = plain_type(child) if child.default is None else None
            return Field(name, text, plain, required=not child.optional and child.default is None)

        return [field(name, child) for name, child in schema.fields]

    def text(self, payload: Any) -> str | None:
        """The JSON text of a parsed payload; None where it is null. Raises MalformedError."""
        self._budget.reset()
        value = self._read(payload)
        return None if value is None and self._default is None else self._write(value)

    def text_at(self, end: bytes) -> str | None:
        """`text` of the payload at the `end` of an envelope. Raises MalformedError or ValueError, whatever is wrong.

        The quick parser cuts numbers to doubles, of which no integer is read: the exact one has another look at those.
        """
        end = end.rstrip(_BLANKS)
        if end[-1:] != b"}":
            raise ValueError
        payload = end[:-1]
        if not self._exact:
            try:
                return self.text(orjson.loads(payload))
            except (ValueError, MalformedError):
                pass
        return self.text(json_text.parse(payload.decode()))


class _Envelopes:
    def __init__(self, time_zone: str, null_defaults: bool) -> None:
        self._time_zone, self._null_defaults = time_zone, null_defaults
        self._schemas: OrderedDict[str, _Payloads] = OrderedDict()
        self.beginnings: list[tuple[bytes, _Payloads]] = []

    def meet(self, value: bytes) -> None:
        """Learn the beginning of a record's envelope, if it is new and the record a good one."""
        if not any(value.startswith(beginning) for beginning, _ in self.beginnings):
            try:
                self._whole(value)
            except (MalformedError, RecursionError, MemoryError):
                return  # all records are judged later

    def convert(self, value: bytes) -> str | None:
        """The content of one record. Raises MalformedError."""
        for beginning, payloads in self.beginnings:
            if value.startswith(beginning):
                try:
                    return payloads.text_at(value[len(beginning) :])
                except (ValueError, MalformedError):
                    break  # all of it tells what is wrong
        return self._whole(value)

    def _whole(self, value: bytes) -> str | None:
        text = json_text.utf8(value)
        envelope = _envelope(text)
        if envelope["schema"] is None:
            payload = json_text.exact(text)["payload"]
            return None if payload is None else json_text.printed(payload)
        payloads = self._payloads(envelope["schema"])
        self._learn(value, payloads)
        return payloads.text(envelope["payload"])

    def _payloads(self, schema: Any) -> _Payloads:
        found = self._schemas.pop(repr(schema), None) or self._compiled(schema)
        self._schemas[repr(schema)] = found
        if len(self._schemas) > MAX_SCHEMAS:
            self._schemas.popitem(last=False)
        return found

    def _compiled(self, schema: Any) -> _Payloads:
        connect = connect_schema(schema)
        return _Payloads(connect if self._null_defaults else without_defaults(connect), self._time_zone)

    def _learn(self, value: bytes, payloads: _Payloads) -> None:
        """Remember what stands in front of the payload, if the schema stands there and is complete."""
        beginning = b"".join(value.partition(_PAYLOAD)[:2])
        if any(beginning == known for known, _ in self.beginnings):
            return
        try:
            schema = _envelope(json_text.utf8(beginning + b"null}"))["schema"]
        except MalformedError:
            return
        if schema is not None and self._payloads(schema) is payloads:
            self.beginnings = [(beginning, payloads), *self.beginnings[: MAX_BEGINNINGS - 1]]


def _envelope(text: str) -> dict[str, Any]:
    found = None if json_text.is_blank(text) else json_text.parse(text)
    if not isinstance(found, dict) or found.keys() != _FIELDS:
        names = f"the fields {', '.join(sorted(found))[:80]}" if isinstance(found, dict) else "no object"
        raise MalformedError(
            SCHEMA_MISMATCH,
            f"an envelope has exactly the fields schema and payload, this is {names};"
            " JSON without an envelope is read with schemas.enable=false",
        )
    return found
