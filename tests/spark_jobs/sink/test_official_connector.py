"""The rows that the official connector 2.5.0 produced (AvroConverter, StringConverter) come out the same here."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firn.registry import RegisteredSchema
from spark_jobs.sink.decode import avro_decoder
from spark_jobs.sink.decode.scalars import CLASSIC_ZONE, STREAMING_ZONE
from spark_jobs.sink.metadata import MetadataFields, record_metadata

ROWS = json.loads((Path(__file__).parent / "official_connector.json").read_text())["rows"]
AVRO = [row for row in ROWS if "wire" in row]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PUSH_TIME = 1760000099999


def exact(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def written(row: dict[str, Any], name: str) -> bool:
    return str(row["config"].get(name, "true")) == "true"


@pytest.mark.parametrize("row", AVRO, ids=[row["name"] for row in AVRO])
@pytest.mark.parametrize(("zone", "field"), [(CLASSIC_ZONE, "content"), (STREAMING_ZONE, "content_streaming")])
def test_content(row: dict[str, Any], zone: str, field: str) -> None:
    values = pa.array([base64.b64decode(row["wire"])], pa.binary())
    decoded = avro_decoder(lambda _: RegisteredSchema("AVRO", json.dumps(row["avro_schema"])), zone).decode(values)
    assert not decoded.bad
    assert decoded.schema_ids.to_pylist() == [row["schema_id"]]
    assert exact(decoded.content[0].as_py()) == exact(row[field])


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_metadata(row: dict[str, Any]) -> None:
    push_time = PUSH_TIME if written(row, "snowflake.streaming.metadata.connectorPushTime") else None
    metadata = record_metadata(
        topic=row["topic"],
        partition=row["partition"],
        offsets=pa.array([row["offset"]], pa.int64()),
        timestamps=pa.array([row["timestamp"]], pa.int64()),
        timestamp_types=["CreateTime", "LogAppendTime"].index(row["timestamp_type"]),
        keys=pa.array([row["key"] and row["key"].encode()], pa.binary()),
        schema_ids=pa.array([row.get("schema_id")], pa.int32()),
        headers=pa.array([[(name, value.encode()) for name, value in row["headers"]]], HEADERS),
        push_time=push_time,
        fields=MetadataFields(
            offset_and_partition=written(row, "snowflake.metadata.offset.and.partition"),
            create_time=written(row, "snowflake.metadata.createtime"),
        ),
    )
    # Firn gives the schema id always; the official connector with its own converter and for tombstones only.
    expected = {"schema_id": row.get("schema_id", 0)} | json.loads(row["metadata"])
    assert json.loads(metadata[0].as_py()) == expected
