"""Avro with its schema in each record: every value or key is an Avro object container of its own.

The JSON is that of framed Avro, since the same reference decoder reads the data. A value that holds several data
becomes several rows, one that holds none no row, as SnowflakeAvroConverterWithoutSchemaRegistry does; a key must stay
one, so with `as_key` several data, or none, become one JSON array. A null is a null: Snowflake's converters know no
defaults.
Not for: the container's own bytes (`container`), or data without a schema beside them (`avro`).
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pyarrow as pa

from spark_jobs.sink.decode import records
from spark_jobs.sink.decode.capacity import string_array
from spark_jobs.sink.decode.container import Container
from spark_jobs.sink.decode.records import Decoded, Decoder, InvalidSchemaError, MalformedError
from spark_jobs.sink.decode.reference import ReferenceDecoder
from spark_jobs.sink.decode.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.schema import parse_schema
from spark_jobs.sink.decode.shapes import Shapes
from spark_jobs.sink.decode.wire import MAX_EMPTY_ITEMS, too_large
from spark_jobs.sink.values.bad_records import INVALID_SCHEMA, MALFORMED_CONTAINER, TRAILING_BYTES, BadRecord

# Every producer has a few schemas; a producer that changes its schema with every record must not fill the memory.
MAX_SCHEMAS = 64
MAX_SCHEMA_BYTES = 1 << 20
"""Bytes of one schema, and of all that are kept: a compiled one takes many times its text."""


def avro_file_decoder(time_zone: str = CLASSIC_ZONE, *, as_key: bool = False) -> Decoder:
    """The decoder of object containers; `time_zone` ends a time of day, `as_key` keeps one text per record."""
    return _AvroFileDecoder(time_zone, as_key)


class _AvroFileDecoder:
    def __init__(self, time_zone: str, as_key: bool) -> None:
        self._time_zone, self._as_key = time_zone, as_key
        self._bodies: OrderedDict[bytes, _Body | InvalidSchemaError] = OrderedDict()

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """JSON text per datum; `origin` where not every record has exactly one."""
        texts: list[str | None] = []
        origin: list[int] = []
        bad: list[BadRecord] = []
        for row, value in enumerate(values.to_pylist()):
            try:
                found = [None] if value is None else self._texts(value)
            except MalformedError as error:
                found = [None]
                bad.append(BadRecord(row, error.reason, error.detail))
            texts += found
            origin += [row] * len(found)
        content = string_array(texts)
        rows = None if origin == [*range(len(values))] else np.array(origin, np.int64)
        return Decoded(content, pa.nulls(len(content), pa.int32()), tuple(bad), rows)

    def _texts(self, value: bytes) -> list[str | None]:
        container = Container.of(value)
        body = self._body(container.schema)
        if isinstance(body, InvalidSchemaError):
            raise MalformedError(INVALID_SCHEMA, f"the schema in the container cannot be used: {body}")
        texts = body.texts(container)
        if self._as_key and len(texts) != 1:
            return [f"[{','.join('null' if text is None else text for text in texts)}]"]
        return texts

    def _body(self, schema: bytes) -> _Body | InvalidSchemaError:
        """What reads data of `schema`; those used last are kept."""
        if len(schema) > MAX_SCHEMA_BYTES:
            return InvalidSchemaError(f"it has {len(schema)} bytes, more than {MAX_SCHEMA_BYTES}")
        found = self._bodies.pop(schema, None) or self._compile(schema)
        self._bodies[schema] = found
        while len(self._bodies) > MAX_SCHEMAS or sum(map(len, self._bodies)) > MAX_SCHEMA_BYTES:
            self._bodies.popitem(last=False)
        return found

    def _compile(self, schema: bytes) -> _Body | InvalidSchemaError:
        try:
            return _Body(schema.decode(), self._time_zone)
        except UnicodeDecodeError:
            return InvalidSchemaError("it is not UTF-8")
        except RecursionError:
            return InvalidSchemaError("it is nested too deeply")
        except InvalidSchemaError as error:
            return error


class _Body:
    """Reads the data of containers of one schema. Raises InvalidSchemaError."""

    def __init__(self, schema: str, time_zone: str) -> None:
        node = parse_schema(schema)
        self._reference = ReferenceDecoder(node, time_zone, null_defaults=False)
        self._empty = Shapes().takes_none(node)

    def texts(self, container: Container) -> list[str | None]:
        """The JSON text of each datum, None for a null one. Raises MalformedError."""
        texts: list[str | None] = []
        room = records.MAX_TEXT
        for count, block in container.blocks():
            most = MAX_EMPTY_ITEMS - len(texts) if self._empty else len(block)
            if not 0 <= count <= most:
                raise MalformedError(MALFORMED_CONTAINER, f"a block of {count} data in {len(block)} bytes")
            pos = 0
            for _ in range(count):
                text, pos = self._reference.decode_next(block, pos)
                texts.append(text)
                room -= len(text or "")
                if room < 0:
                    raise too_large(f"the container has more than {records.MAX_TEXT} characters of JSON")
            if pos != len(block):
                raise MalformedError(TRAILING_BYTES, f"{len(block) - pos} bytes follow the {count} data of a block")
        return texts
