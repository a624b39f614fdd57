"""Records per CPU-second of every converter, on the same small orders: `python -m benchmarks.converters [records]`.

One process, no Spark, no registry: each converter as `converter_for` makes it, in batches as tasks read them, without
garbage collection, as in a worker; to JSON text, and for formats with a schema id to typed columns as well. The figures
go to `benchmarks/results` and docs/performance.md; `benchmarks.decode` has those of Avro step by step.
"""

from __future__ import annotations

import gc
import json
import statistics
import struct
import sys
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import orjson
import pyarrow as pa

from benchmarks.decode import BATCH, SCHEMA, orders, records_per_cpu_second
from benchmarks.results import write_results
from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from firn.snowflake.columns import METADATA_COLUMN, Column
from spark_jobs.sink.columns.column_mapping import ColumnMapper
from spark_jobs.sink.decode.base.contract import Converter, Writer
from spark_jobs.sink.decode.converters import converter_for
from spark_jobs.sink.values.table_loaders import ColumnsLoader

RECORDS, TURNS = 100_000, 5
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


def rates(config: ConverterConfig, schema: RegisteredSchema | None, values: list[bytes]) -> dict[str, float]:
    """Records per CPU-second by step: medians after one batch to warm up. Raises ValueError where a record is bad."""

    def schema_of(_schema_id: int) -> RegisteredSchema:
        if schema is None:
            raise ValueError("this converter has no schema")
        return schema

    converter = converter_for(config, schema_of)
    batches = [
        pa.record_batch({"value": pa.array(values[start : start + BATCH])}) for start in range(0, len(values), BATCH)
    ]
    if converter.decode(batches[0].column("value")).bad:
        raise ValueError(f"{config.format}: the benchmark's own records are bad")
    steps: dict[str, Callable[[pa.RecordBatch], object]] = {
        "JSON text": lambda batch: converter.decode(batch.column("value"))
    }
    if schema is not None:
        steps["typed columns"] = typed(converter)
    return {
        name: statistics.median(records_per_cpu_second(step, batches) for _ in range(TURNS))
        for name, step in steps.items()
    }


def typed(converter: Converter) -> Callable[[pa.RecordBatch], object]:
    """Decodes batches into columns of the types that their schema asks for."""
    types = converter.types_of(Writer(1)).columns
    columns = (METADATA_COLUMN, *(Column(name.upper(), type_) for name, type_ in types.items()))
    load = ColumnsLoader(columns, exists=True, grow=True)

    def step(batch: pa.RecordBatch) -> None:
        decoded = converter.decode(batch.column("value"))
        mapper = ColumnMapper(load, lambda _: types, strict=True)
        mapper.map(decoded.content, decoded.schema_ids, decoded.parts, decoded.fields)
        if mapper.required_changes.any:
            raise ValueError("the benchmark's own table lacks something")

    return step


def main() -> None:
    """Measure every converter, print a table and write the results."""
    gc.disable()
    values = orders(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS).column("value").to_pylist()
    print(f"{len(values):,} orders in batches of {BATCH:,}; records per CPU-second, medians of {TURNS} turns")
    found: dict[str, dict[str, float]] = {}
    for name, contestant in contestants(values).items():
        found[name] = rates(*contestant)
        print(f"{name:42s}" + "".join(f"{rate:12,.0f} {step}" for step, rate in found[name].items()))
    rounded = {name: {step: round(rate, -3) for step, rate in each.items()} for name, each in found.items()}
    print(write_results("converters", {"records": len(values), "records_per_cpu_second": rounded}))


if __name__ == "__main__":
    main()
