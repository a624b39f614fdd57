"""Records per CPU-second of decoding and metadata alone, on small orders: `python -m benchmarks.decode [records]`.

One process, no Spark: the upper bound that these steps set for the sink. The figures go to docs/performance.md.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import time
from collections.abc import Callable, Iterable
from io import BytesIO

import fastavro
import orjson
import pyarrow as pa

from firn.connector.config import ConverterConfig, HeaderFormat, MetadataConfig
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from firn.snowflake.columns import METADATA_COLUMN, Column
from spark_jobs.sink.columns.column_mapping import ColumnMapper
from spark_jobs.sink.decode.avro.converter import avro_decoder
from spark_jobs.sink.decode.avro.schema import parse_schema
from spark_jobs.sink.decode.avro.values import ReferenceDecoder
from spark_jobs.sink.decode.base.contract import Writer
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.converters import converter_for
from spark_jobs.sink.decode.primitive.values import StringDecoder
from spark_jobs.sink.metadata.record_metadata import record_metadata
from spark_jobs.sink.values.table_loaders import ColumnsLoader

RECORDS, BATCH = 1_000_000, 10_000
STATES = ["CREATED", "CONFIRMED", "SHIPPED", "DELIVERED", "CANCELLED"]
SCHEMA = {
    "type": "record",
    "name": "OrderEvent",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "customer_id", "type": "string"},
        {"name": "order_status", "type": {"type": "enum", "name": "OrderStatus", "symbols": STATES}},
        {"name": "order_total", "type": "double"},
        {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def orders(count: int) -> pa.RecordBatch:
    """`count` orders as the reader hands them over."""
    rng, schema = random.Random(7), fastavro.parse_schema(SCHEMA)
    values, headers = [], []
    for number in range(count):
        out = BytesIO()
        order = {
            "order_id": 1_000_000 + number,
            "customer_id": f"CUST-{rng.randrange(100_000):05d}",
            "order_status": rng.choice(STATES),
            "order_total": rng.randrange(100, 100_000) / 100,
            "created_at": 1_760_000_000_000 + number,
        }
        fastavro.schemaless_writer(out, schema, order)
        values.append(b"\0" + struct.pack(">i", 1) + out.getvalue())
        headers.append([("trace-id", rng.randbytes(16).hex().encode()), ("attempt", b"%d" % rng.randrange(9))])
    columns = {
        "value": pa.array(values, pa.binary()),
        "key": pa.array([str(1_000_000 + number).encode() for number in range(count)], pa.binary()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array(range(1_760_000_000_000, 1_760_000_000_000 + count), pa.int64()),
        "headers": pa.array(headers, HEADERS),
    }
    return pa.record_batch(columns)


def metadata(batch: pa.RecordBatch, *, with_headers: bool) -> pa.StringArray:
    """The metadata of one batch."""
    return record_metadata(
        topic="order-events",
        partition=1,
        offsets=batch.column("offset"),
        timestamps=batch.column("timestamp"),
        timestamp_types=0,
        keys=StringDecoder().decode(batch.column("key")).content,
        schema_ids=pa.array([1], pa.int32()).take(pa.array([0] * batch.num_rows)),
        key_schema_ids=None,
        headers=batch.column("headers") if with_headers else None,
        header_format=HeaderFormat.SIMPLE,
        push_time=1_760_000_099_999,
        fields=MetadataConfig(),
    )


def steps() -> dict[str, Callable[[pa.RecordBatch], object]]:
    """What is measured, by name."""
    text = json.dumps(SCHEMA)
    schema = RegisteredSchema("AVRO", text)
    vector, reference = avro_decoder(lambda _: schema), ReferenceDecoder(parse_schema(text), CLASSIC_ZONE)
    parsed = fastavro.parse_schema(SCHEMA)

    def plain(value: bytes) -> bytes:
        return orjson.dumps(fastavro.schemaless_reader(BytesIO(value[5:]), parsed, None), default=str)

    def both(batch: pa.RecordBatch) -> None:
        vector.decode(batch.column("value"))
        metadata(batch, with_headers=True)

    def typed(batch: pa.RecordBatch) -> None:
        decoded = vector.decode(batch.column("value"))
        ColumnMapper(load, lambda _: types, strict=True).map(decoded.content, decoded.schema_ids, fields=decoded.fields)

    types = converter_for(ConverterConfig(Format.AVRO), lambda _: schema).types_of(Writer(1)).columns
    columns = (METADATA_COLUMN, *(Column(name.upper(), type_) for name, type_ in types.items()))
    load = ColumnsLoader(columns, exists=True, grow=True)
    return {
        "fastavro + orjson, for comparison": lambda batch: [plain(each) for each in batch.column("value").to_pylist()],
        "reference decoder": lambda batch: [reference.decode(each, 5) for each in batch.column("value").to_pylist()],
        "vector decoder": lambda batch: vector.decode(batch.column("value")),
        "metadata without headers": lambda batch: metadata(batch, with_headers=False),
        "metadata with 2 headers": lambda batch: metadata(batch, with_headers=True),
        "vector decoder + metadata with 2 headers": both,
        "vector decoder + typed columns": typed,
    }


def records_per_cpu_second(step: Callable[[pa.RecordBatch], object], batches: Iterable[pa.RecordBatch]) -> float:
    """The rate over all batches, CPU time of every thread counted."""
    records, start = 0, time.process_time()
    for batch in batches:
        step(batch)
        records += batch.num_rows
    return records / (time.process_time() - start)


def main() -> None:
    """Measure every step once, after one batch to warm up, and print a table."""
    whole = orders(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
    batches = [whole.slice(start, BATCH) for start in range(0, whole.num_rows, BATCH)]
    print(f"{whole.num_rows:,} orders in batches of {BATCH:,}; records per CPU-second")
    for name, step in steps().items():
        step(batches[0])
        print(f"{name:42s}{records_per_cpu_second(step, batches):12,.0f}")


if __name__ == "__main__":
    main()
