"""A team brings the connector file it runs today, and finds the rows that the official connector wrote for it."""

from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from firn.secrets import RegistrySecret, SnowflakeSecret, read_secret
from tests.support.commands import run_here
from tests.support.kafka import Topic
from tests.support.sinks import sql
from tests.support.vectors import vectors

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("sinks_here")]

CONNECTOR = """\
# as it lay in the Kafka Connect cluster
name=orders_from_connect
connector.class=com.snowflake.kafka.connector.SnowflakeSinkConnector
tasks.max=8
topics={topic}
snowflake.topic2table.map={topic}:{table}
buffer.count.records=10000
buffer.flush.time=60
buffer.size.bytes=5000000
snowflake.url.name={url}
snowflake.user.name={user}
snowflake.role.name={user}
snowflake.private.key=${{secretsmanager:snowflake/svc-kafka-connector:private_key}}
snowflake.database.name=STREAMING
snowflake.schema.name=PUBLIC
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=com.snowflake.kafka.connector.records.SnowflakeAvroConverter
value.converter.schema.registry.url={registry}
value.converter.basic.auth.credentials.source=USER_INFO
value.converter.basic.auth.user.info=${{env:REGISTRY_USER}}:${{secretsmanager:confluent/schema-registry:api_secret}}
"""
ROWS = vectors("end_to_end")["snowpipe (SnowflakeAvroConverter)"]


def produced(topic: Topic) -> int:
    """Send the records of the official run; returns the schema id."""
    (order, *_) = (row for row in vectors("records")["vectors"] if row["name"].startswith("order_avro"))
    schema = order["input"]["avro_schema"]
    schema_id = topic.register(schema)
    for row in ROWS:
        meta = row["RECORD_METADATA"]
        body = io.BytesIO()
        if row["RECORD_CONTENT"]:
            fastavro.schemaless_writer(body, schema, row["RECORD_CONTENT"])
        value = struct.pack(">bI", 0, schema_id) + body.getvalue() if row["RECORD_CONTENT"] else None
        headers = [(name, str(header).encode()) for name, header in meta.get("headers", {}).items()]
        topic.send([value], keys=[meta.get("key")], headers=headers, timestamp=meta["CreateTime"])
    return schema_id


def expected(row: dict[str, Any], topic: str, schema_id: int) -> dict[str, Any]:
    """The official row with this run's topic and schema id; a tombstone's id is 0 everywhere."""
    meta = row["RECORD_METADATA"]
    here = {"topic": topic, "schema_id": schema_id if meta["schema_id"] else 0}
    content = {name: float(v) if isinstance(v, Decimal) else v for name, v in row["RECORD_CONTENT"].items()}
    return {"RECORD_METADATA": meta | here, "RECORD_CONTENT": content}


def test_the_connectors_own_file_gives_the_same_rows(stack, tmp_path: Path) -> None:
    settings = stack.settings
    # The official records are from 2025: a broker that looks at their age would delete them.
    topic = Topic(settings, "connect", partitions=1)
    schema_id = produced(topic)
    registry = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    snowflake = read_secret(settings, settings.snowflake_secret_id, SnowflakeSecret)
    file = tmp_path / "connect.properties"
    file.write_text(
        CONNECTOR.format(
            topic=topic.name, table=topic.table, url=snowflake.url, user=snowflake.user, registry=registry.url
        )
    )
    env = {"REGISTRY_USER": registry.api_key.get_secret_value()}
    checked = run_here(stack.home, "sink", "validate", file, "--live", "--json", env=env)
    document = json.loads(checked.stdout)
    assert (document["valid"], document["faults"]) == (True, [])
    assert {check["state"] for check in document["live"]} == {"ok"}, document["live"]
    ran = run_here(stack.home, "sink", "run", file, "--once", env=env)
    rows = sql(settings, f"SELECT * FROM {topic.table} ORDER BY RECORD_METADATA:offset")
    for row in rows:
        assert row["RECORD_METADATA"].pop("SnowflakeConnectorPushTime") > 0  # Firn gives it with both methods
    assert rows == [expected(row, topic.name, schema_id) for row in ROWS]
    secrets = (registry.api_secret, registry.api_key, snowflake.private_key)
    shown = checked.stdout + checked.stderr + ran.stdout + ran.stderr
    assert not any(secret.get_secret_value() in shown for secret in secrets)
