"""Records per CPU-second of every converter, on the same small orders: `python -m benchmarks.converters [records]`.

One process, no Spark, no registry: each converter as `converter_for` makes it, in batches as Spark hands them over. The
figures go to docs/performance.md; `benchmarks.decode` has those of Avro step by step.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import orjson
import pyarrow as pa

from benchmarks.decode import BATCH, SCHEMA, orders, records_per_cpu_second
from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.converters import converter_for

RECORDS = 200_000
FRAME = b"\0" + struct.pack(">i", 1)
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer"},
        "customer_id": {"type": "string"},
        "order_status": {"type": "string"},
        "order_total": {"type": "number"},
        "created_at": {"type": "integer"},
    },
}
ENVELOPE_SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "order_id", "type": "int64"},
        {"field": "customer_id", "type": "string"},
        {"field": "order_status", "type": "string"},
        {"field": "order_total", "type": "double"},
        {"field": "created_at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
    ],
}
PROTO = """
syntax = "proto3";
message OrderEvent {
  int64 order_id = 1; string customer_id = 2; string order_status = 3; double order_total = 4; int64 created_at = 5;
}
"""


def read_orders(values: list[bytes]) -> list[dict[str, Any]]:
    """The orders of `benchmarks.decode` as Python values; times as numbers."""
    fields: Any = SCHEMA["fields"]
    parsed = fastavro.parse_schema({**SCHEMA, "fields": [*fields[:-1], {"name": "created_at", "type": "long"}]})
    return [fastavro.schemaless_reader(BytesIO(value[5:]), parsed, None) for value in values]  # type: ignore[misc]


def protobuf(order: dict[str, Any]) -> bytes:
    """One order as a framed message: tags and lengths of the wire format."""
    texts = b"".join(
        bytes([tag]) + varint(len(text)) + text
        for tag, text in ((0x12, order["customer_id"].encode()), (0x1A, order["order_status"].encode()))
    )
    number = b"\x08" + varint(order["order_id"])
    total, created = b"\x21" + struct.pack("<d", order["order_total"]), b"\x28" + varint(order["created_at"])
    return FRAME + b"\0" + number + texts + total + created


def varint(number: int) -> bytes:
    """Base 128, least significant group first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def contestants(values: list[bytes]) -> dict[str, tuple[ConverterConfig, RegisteredSchema | None, list[bytes]]]:
    """Name -> configuration, schema of id 1, wire bytes."""
    records = read_orders(values)
    compact = [orjson.dumps(record) for record in records]
    envelope = orjson.dumps(ENVELOPE_SCHEMA)
    return {
        "Avro": (ConverterConfig(Format.AVRO), RegisteredSchema("AVRO", json.dumps(SCHEMA)), values),
        "JSON, compact": (ConverterConfig(Format.JSON), None, compact),
        "JSON, with blanks": (ConverterConfig(Format.JSON), None, [json.dumps(each).encode() for each in records]),
        "JSON with Connect's envelope": (
            ConverterConfig(Format.JSON_ENVELOPE),
            None,
            [b'{"schema":' + envelope + b',"payload":' + each + b"}" for each in compact],
        ),
        "JSON Schema": (
            ConverterConfig(Format.JSON_SCHEMA),
            RegisteredSchema("JSON", json.dumps(JSON_SCHEMA)),
            [FRAME + each for each in compact],
        ),
        "Protobuf": (
            ConverterConfig(Format.PROTOBUF),
            RegisteredSchema("PROTOBUF", PROTO),
            [protobuf(each) for each in records],
        ),
        "String": (ConverterConfig(Format.STRING), None, compact),
        "ByteArray": (ConverterConfig(Format.BYTES), None, compact),
    }


def rate(config: ConverterConfig, schema: RegisteredSchema | None, values: list[bytes]) -> float:
    """Records per CPU-second after one batch to warm up. Raises ValueError where a record is bad."""

    def schema_of(_schema_id: int) -> RegisteredSchema:
        if schema is None:
            raise ValueError("this converter has no schema")
        return schema

    converter = converter_for(config, schema_of)
    batches = [
        pa.record_batch({"value": pa.array(values[start : start + BATCH])}) for start in range(0, len(values), BATCH)
    ]
    step: Callable[[pa.RecordBatch], object] = lambda batch: converter.decode(batch.column("value"))  # noqa: E731
    if converter.decode(batches[0].column("value")).bad:
        raise ValueError(f"{config.format}: the benchmark's own records are bad")
    return records_per_cpu_second(step, batches)


def main() -> None:
    """Measure every converter and print a table."""
    values = orders(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS).column("value").to_pylist()
    print(f"{len(values):,} orders in batches of {BATCH:,}; records per CPU-second")
    for name, (config, schema, wire) in contestants(values).items():
        print(f"{name:42s}{rate(config, schema, wire):12,.0f}")


if __name__ == "__main__":
    main()
