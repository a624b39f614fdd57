"""The official connector's vectors as what Firn is given: a connector's configuration, and records as bytes in Kafka.

A key, header or value that a vector gives as a Connect value is turned into the bytes that the fitting converter reads.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from firn.connector.parse import parse_sink_config
from firn.kafka.message_columns import RECORDS
from firn.kafka.partitions import TopicPartition
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.columns.staged_columns import column_builder_for
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE, STREAMING_ZONE
from spark_jobs.sink.decode.converters import converter_for
from spark_jobs.sink.task.convert import Converted, convert
from spark_jobs.sink.values.table_loaders import VariantLoader
from tests.support.vectors import exact, vectors

Json = Any
AVRO = "io.confluent.connect.avro.AvroConverter"
SNOWFLAKE_AVRO = "com.snowflake.kafka.connector.records.SnowflakeAvroConverter"
SNOWFLAKE_JSON = "com.snowflake.kafka.connector.records.SnowflakeJsonConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
LONG = "org.apache.kafka.connect.converters.LongConverter"
# The clock of the vectors.
PUSH_TIME = 1760000099999


@dataclass(frozen=True)
class Record:
    """One record in Kafka, the configuration that reads it, and the row the official connector made of it.

    row: RECORD_CONTENT and RECORD_METADATA, None where the column is NULL.
    """

    name: str
    converter: str
    method: str
    value: bytes | None
    row: dict[str, Json]
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str = "CreateTime"
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    config: dict[str, str] = field(default_factory=dict)
    schema: Json = None
    push_time: int = PUSH_TIME

    @property
    def id(self) -> str:
        """What pytest calls the record."""
        return f"{self.name}-{self.converter.rpartition('.')[2]}-{self.method}"

    def converted(self, monkeypatch: pytest.MonkeyPatch, **more: str) -> Converted:
        """What Firn makes of the record; `more` are further parameters."""
        given = {
            "name": "official", "connector.class": "com.snowflake.kafka.connector.SnowflakeSinkConnector",
            "topics": self.topic, "snowflake.ingestion.method": self.method, "value.converter": self.converter,
        }  # fmt: skip
        if "avro" in self.converter.lower():
            given["value.converter.schema.registry.url"] = "http://registry.example.com"
        config = parse_sink_config(given | self.config | more, where=self.name)
        zone = CLASSIC_ZONE if self.method == "SNOWPIPE" else STREAMING_ZONE
        schema = RegisteredSchema("AVRO", json.dumps(self.schema))
        monkeypatch.setattr("spark_jobs.sink.task.convert.now_ms", lambda: self.push_time)
        return convert(
            config,
            TopicPartition(self.topic, self.partition),
            self._batch(),
            (
                converter_for(config.value, lambda _: schema, time_zone=zone),
                converter_for(config.key, lambda _: schema, time_zone=zone, as_key=True),
            ),
            column_builder_for(VariantLoader(), lambda _schema_id: {}, strict=True),
        )

    def _batch(self) -> pa.RecordBatch:
        columns = {
            "offset": [self.offset],
            "timestamp": [self.timestamp],
            "timestamp_type": [["CreateTime", "LogAppendTime"].index(self.timestamp_type)],
            "key": [self.key],
            "value": [self.value],
            "headers": [self.headers],
            "fault": [None],
        }
        return pa.RecordBatch.from_pydict(columns, schema=RECORDS)


def official_records() -> Iterator[Record]:
    """Every Avro, tombstone, key, header, timestamp and flag vector, once for each method it has an output for."""
    for vector in vectors("records")["vectors"]:
        given, name = vector.get("input"), vector["name"]
        prefixes = ("tombstone_", "key_", "headers_", "timestamp_log_append", "flag_")
        if given is None or not ("avro_wire_base64" in given or name.startswith(prefixes)):
            continue
        key, converter_of = _key(name, given)
        common = {name: given[name] for name in ("topic", "partition", "offset", "timestamp", "timestamp_type")}
        for converter, value in _values(vector["value_converter"], given):
            for method, row in _rows(vector["output"]):
                # Snowflake's own converters are refused with streaming, for keys too.
                key_converter = (
                    JSON if (converter_of, method) == (SNOWFLAKE_JSON, "SNOWPIPE_STREAMING") else converter_of
                )
                yield Record(
                    name, converter, method, value, row, **common,
                    key=key,
                    headers=[(each["name"], _header(each["value"])) for each in given["headers"]],
                    config=given.get("config", {}) | {"key.converter": key_converter}
                    | ({"key.converter.schemas.enable": "false"} if key_converter == JSON else {})
                    | ({"value.converter.schemas.enable": "false"} if converter == JSON else {}),
                    schema=given.get("avro_schema"),
                )  # fmt: skip


def end_to_end_records() -> Iterator[Record]:
    """The rows that the running connector wrote, and the records that were behind them."""
    schema = next(record.schema for record in official_records() if record.name.startswith("order_avro"))
    parts = {"snowpipe (SnowflakeAvroConverter)": ("SNOWPIPE", SNOWFLAKE_AVRO)}
    parts["snowpipe_streaming (AvroConverter)"] = ("SNOWPIPE_STREAMING", AVRO)
    document = vectors("end_to_end")
    assert set(document) == {"note", *parts}
    for part, (method, converter) in parts.items():
        for row in document[part]:
            metadata, content = row["RECORD_METADATA"], row["RECORD_CONTENT"]
            key = metadata.get("key")
            yield Record(
                f"end_to_end_{metadata['offset']}", converter, method, _order(schema, content), row,
                topic=metadata["topic"],
                partition=metadata["partition"],
                offset=metadata["offset"],
                timestamp=metadata["CreateTime"],
                key=key and key.encode(),
                headers=[(name, str(value).encode()) for name, value in metadata.get("headers", {}).items()],
                schema=schema,
                push_time=metadata.get("SnowflakeConnectorPushTime", PUSH_TIME),
            )  # fmt: skip


def _order(schema: Json, content: Json) -> bytes | None:
    """The value of an order; an empty content was a tombstone."""
    if not content:
        return None
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(schema), content | {"order_total": float(content["order_total"])}
    )
    return b"\0" + struct.pack(">i", 1) + out.getvalue()


def _values(converter: str, given: dict[str, Json]) -> list[tuple[str, bytes | None]]:
    """The converters that read the record's value, and its bytes."""
    if "avro_wire_base64" in given:
        return [(converter, base64.b64decode(given["avro_wire_base64"]))]
    if given["value"] is None:
        return [(AVRO, None), (JSON, None)]
    if given["value"] == "<SnowflakeRecordContent>":
        return [(SNOWFLAKE_AVRO, None), (SNOWFLAKE_JSON, None)]
    return [(JSON, json.dumps(_plain(given["value"])).encode())]


def _rows(output: dict[str, Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    """The rows by method, from the texts, which have every digit."""
    staged = exact(output["snowpipe"]["staged_json"])
    yield "SNOWPIPE", {"RECORD_CONTENT": staged["content"], "RECORD_METADATA": staged.get("meta")}
    if "snowpipe_streaming" in output:
        row = output["snowpipe_streaming"]
        names = ("RECORD_CONTENT", "RECORD_METADATA")
        yield "SNOWPIPE_STREAMING", {name: exact(row[name]) if name in row else None for name in names}


def _key(name: str, given: dict[str, Json]) -> tuple[bytes | None, str]:
    """The bytes of the key, and the converter that reads them."""
    key, schema = given["key"], given["key_schema"]
    if key is None:
        return None, STRING
    if schema == "SnowflakeJsonSchema":
        return name.partition(" ")[2].encode(), SNOWFLAKE_JSON
    if schema is None:
        return json.dumps(_plain(key)).encode(), JSON
    if schema["type"] == "INT64":
        return struct.pack(">q", _plain(key)), LONG
    return key.encode(), STRING


def _header(value: Json) -> bytes | None:
    """The bytes that Connect's SimpleHeaderConverter writes for a header."""
    if isinstance(value, dict) and "$date_epoch_ms" in value:
        moment = datetime.fromtimestamp(value["$date_epoch_ms"] / 1000, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()
    plain = _plain(value)
    if plain is None:
        return None
    return (plain if isinstance(plain, str) else json.dumps(plain)).encode()


def _plain(value: Json) -> Json:
    """A Connect value without the names of its types."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    (name, inner), *others = value.items()
    if not name.startswith("$"):
        return {name: _plain(inner) for name, inner in value.items()}
    assert not others
    return float(inner) if name == "$double" else inner
