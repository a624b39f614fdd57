"""The yardstick: what a careful engineer writes in an afternoon, one process, without Spark.

confluent-kafka reads, fastavro decodes, orjson writes both JSON columns, pyarrow writes Parquet, PUT and COPY load it.
It lands the same rows as the sink (without its ledger), so the two can be compared.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Message, TopicPartition
from snowflake.connector import SnowflakeConnection

from firn.errors import FirnError
from firn.registry.login import registry_client
from firn.registry.schemas import registered_schema
from firn.sinks.context import SinkContext
from firn.snowflake.connection import connect, execute, query

FILE_RECORDS = 400_000


class PlainLoop:
    """Loads one topic into one table, file by file."""

    def __init__(self, context: SinkContext, client: dict[str, str], table: str) -> None:
        self._context, self._client, self._table = context, client, table
        if context.value_registry is None:
            raise FirnError("The plain loop reads Avro with a registry.")
        self._registry = registry_client(context.value_registry)
        self._schemas: dict[int, Any] = {}

    def run(self, ends: dict[tuple[str, int], int]) -> int:
        """Load everything below the given end offsets; returns the number of rows."""
        consumer = Consumer(
            {
                **self._client,
                "group.id": f"plain-{self._table}",
                "enable.auto.commit": False,
                "queued.min.messages": 1_000_000,
                "fetch.queue.backoff.ms": 5,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in ends])
        total, rows = sum(ends.values()), 0
        metadata: list[bytes] = []
        content: list[bytes] = []
        with connect(self._context.login) as connection, tempfile.TemporaryDirectory() as folder:
            while rows + len(content) < total:
                for message in consumer.consume(10_000, timeout=1.0):
                    self._convert(message, metadata, content)
                if len(content) >= FILE_RECORDS or rows + len(content) >= total:
                    rows += self._load(connection, Path(folder), metadata, content)
                    metadata, content = [], []
        consumer.close()
        return rows

    def _convert(self, message: Message, metadata: list[bytes], content: list[bytes]) -> None:
        value = message.value() or b""
        schema_id = int.from_bytes(value[1:5], "big")
        schema = self._schemas.get(schema_id)
        if schema is None:
            text = registered_schema(self._registry, schema_id).text
            schema = self._schemas[schema_id] = fastavro.parse_schema(json.loads(text))
        record = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
        content.append(orjson.dumps(record))
        key: bytes | None = message.key()
        headers: Any = message.headers() or []
        metadata.append(
            orjson.dumps(
                {
                    "topic": message.topic(),
                    "offset": message.offset(),
                    "partition": message.partition(),
                    "CreateTime": message.timestamp()[1],
                    "schema_id": schema_id,
                    "SnowflakeConnectorPushTime": time.time_ns() // 1_000_000,
                    "key": key.decode() if key else None,
                    "headers": {name: header.decode() for name, header in headers},
                }
            )
        )

    def _load(self, connection: SnowflakeConnection, folder: Path, metadata: list[bytes], content: list[bytes]) -> int:
        file = folder / f"{time.time_ns()}.parquet"
        columns = {
            "M": pa.array(metadata, pa.binary()).cast(pa.string()),
            "C": pa.array(content, pa.binary()).cast(pa.string()),
        }
        pq.write_table(pa.table(columns), file)
        query(connection, f"PUT 'file://{file}' @FIRN_STAGE/plain/ AUTO_COMPRESS = FALSE SOURCE_COMPRESSION = NONE")
        execute(
            connection,
            f"COPY INTO {self._table} (RECORD_METADATA, RECORD_CONTENT) "
            "FROM (SELECT PARSE_JSON($1:M), PARSE_JSON($1:C) FROM @FIRN_STAGE/plain/) "
            f"FILES = ('{file.name}') FILE_FORMAT = (TYPE = PARQUET)",
        )
        file.unlink()
        return len(content)
