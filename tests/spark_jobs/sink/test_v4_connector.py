"""A configuration of the High Performance connector (v4) runs as it stands: the examples of its document."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from firn.connector.parse import parse_sink_config
from firn.errors import TerminalError
from firn.settings import Settings
from firn.sinks.context import resolve
from spark_jobs.sink.run import SinkRun
from spark_jobs.spark.engine import Engine
from tests.support.kafka import Topic
from tests.support.sinks import committed, sql
from tests.support.snowflake import admin_sql
from tests.support.streaming_faults import StreamingFaults

pytestmark = pytest.mark.stack

V4 = {
    "connector.class": "com.snowflake.kafka.connector.SnowflakeStreamingSinkConnector",
    "tasks.max": "2",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
WRAP = {
    "transforms": "wrapKafkaMessageContent",
    "transforms.wrapKafkaMessageContent.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.wrapKafkaMessageContent.field": "your_top_level_field_name",
}
ORDER = {"order_id": 12345, "customer_name": "John", "order_total": 100.00, "isPaid": True}
PERSON = {
    "city": "New York",
    "age": 30,
    "married": True,
    "has cat": True,
    " @&$#* has Łułósżź": True,
    "skills": ["sitting", "standing", "eating"],
    "family": {"son": "Jack", "daughter": "Anna"},
}
Start = Callable[..., SinkRun]


@pytest.fixture
def start(spark: Engine, settings: Settings) -> Start:
    """Makes a run of v4's parameters that takes what is there."""

    def make(*topics: Topic, **parameters: str) -> SinkRun:
        mapping = ",".join(f"{topic.name}:{topic.table}" for topic in topics)
        own = {"name": f"s_{topics[0].table}", "topics": ",".join(topic.name for topic in topics)}
        more = {name.replace("__", "."): value for name, value in parameters.items()}
        config = parse_sink_config(own | {"snowflake.topic2table.map": mapping} | V4 | more, where="test")
        return SinkRun(resolve(config, settings), spark, once=True, stop=threading.Event())

    return make


def send(topic: Topic, *values: Any, keys: list[str] | None = None) -> None:
    topic.send([None if value is None else json.dumps(value).encode() for value in values], keys=keys)


def test_fields_go_to_the_columns_of_their_names_in_any_case(settings: Settings, start: Start) -> None:
    topic = Topic(settings, "v4orders", partitions=1)
    columns = '"city" VARCHAR, AGE NUMBER, "Married" BOOLEAN, "has cat" BOOLEAN, SKILLS VARIANT, FAMILY VARIANT'
    sql(settings, f'CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, {columns}, " @&$#* has Łułósżź" BOOLEAN)')
    send(topic, PERSON, keys=["k"])
    start(topic).run()
    (row,) = sql(settings, f"SELECT * FROM {topic.table}")
    metadata = row.pop("RECORD_METADATA")
    assert list(row.values()) == ["New York", 30, True, True, PERSON["skills"], PERSON["family"], True]
    assert (metadata["topic"], metadata["partition"], metadata["offset"], metadata["key"]) == (topic.name, 0, 0, "k")
    assert {"CreateTime", "SnowflakeConnectorPushTime"} <= metadata.keys()


@pytest.mark.full
def test_a_pipe_of_the_tables_name_maps_the_record(settings: Settings, start: Start) -> None:
    topic = Topic(settings, "v4pipe", partitions=1)
    sql(settings, f"CREATE TABLE {topic.table} (TOPIC VARCHAR, CONTENT VARCHAR, ORDER_TOTAL VARCHAR, ISPAID VARCHAR)")
    pipe = f"{settings.snowflake_database}.{settings.snowflake_schema}.{topic.table}"
    admin_sql(
        settings,
        f"CREATE PIPE {pipe} AS COPY INTO {pipe} FROM (SELECT $1:RECORD_METADATA.topic::STRING AS TOPIC, "
        "$1:RECORD_CONTENT::STRING, CONCAT($1['order_total']::STRING, ' USD'), $1['isPaid']::STRING "
        "FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
        f"GRANT MONITOR, OPERATE ON PIPE {pipe} TO ROLE SVC_KAFKA_CONNECTOR",
    )
    send(topic, ORDER)
    start(topic).run()
    (row,) = sql(settings, f"SELECT * FROM {topic.table}")
    assert (row["TOPIC"], row["CONTENT"], row["ISPAID"]) == (topic.name, None, "true")
    assert row["ORDER_TOTAL"] in ("100 USD", "100.0 USD")


@pytest.mark.full
def test_an_interactive_table_has_its_transformation_in_its_definition(settings: Settings, start: Start) -> None:
    topic = Topic(settings, "v4metrics", partitions=1)
    sql(
        settings,
        f"CREATE INTERACTIVE TABLE {topic.table} (METRIC_NAME VARCHAR, METRIC_VALUE NUMBER, SOURCE_TOPIC VARCHAR, "
        "TIMESTAMP TIMESTAMP_NTZ) AS (SELECT $1:M_NAME::VARCHAR, $1:M_VALUE::NUMBER, "
        "$1:RECORD_METADATA.topic::VARCHAR, $1:RECORD_METADATA.timestamp::TIMESTAMP_NTZ "
        "FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
    )
    send(topic, {"M_NAME": "load", "M_VALUE": 3})
    start(topic).run()
    (row,) = sql(settings, f"SELECT * FROM {topic.table}")
    assert row == {"METRIC_NAME": "load", "METRIC_VALUE": 3, "SOURCE_TOPIC": topic.name, "TIMESTAMP": None}


@pytest.mark.full
def test_the_whole_content_is_one_column_by_hoisting(settings: Settings, start: Start) -> None:
    topic = Topic(settings, "v4hoist", partitions=1)
    sql(settings, f"CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, YOUR_TOP_LEVEL_FIELD_NAME VARIANT)")
    send(topic, PERSON, None)
    start(topic, behavior__on__null__values="IGNORE", **{k.replace(".", "__"): v for k, v in WRAP.items()}).run()
    rows = sql(
        settings, f"SELECT YOUR_TOP_LEVEL_FIELD_NAME AS C FROM {topic.table} ORDER BY RECORD_METADATA:offset::INT"
    )
    assert rows == [{"C": PERSON}, {"C": None}]  # the transform comes first, and wraps a tombstone too


@pytest.mark.full
def test_tombstones_are_rows_without_values_unless_they_are_ignored(settings: Settings, start: Start) -> None:
    topic = Topic(settings, "v4null", partitions=1)
    sql(settings, f"CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, ORDER_ID NUMBER DEFAULT 7)")
    send(topic, {"order_id": 1}, None)
    start(topic).run()
    rows = sql(settings, f"SELECT ORDER_ID FROM {topic.table} ORDER BY RECORD_METADATA:offset::INT")
    assert [row["ORDER_ID"] for row in rows] == [1, None]  # a default pipe fills in no defaults


@pytest.mark.full
def test_many_topics_share_a_table_and_flags_shorten_the_metadata(settings: Settings, start: Start) -> None:
    cats, dogs = (Topic(settings, f"v4{name}", partitions=1) for name in ("cat", "dog"))
    sql(settings, f"CREATE TABLE {cats.table} (RECORD_METADATA VARIANT, NAME VARCHAR)")
    send(cats, {"name": "Tom"})
    send(dogs, {"NAME": "Rex"})
    shared = {"snowflake__topic2table__map": f"v4(cat|dog)-.*:{cats.table}"}
    flags = {"snowflake__metadata__offset__and__partition": "false", "snowflake__metadata__createtime": "false"}
    start(cats, dogs, **shared, **flags).run()
    rows = sql(settings, f"SELECT NAME, RECORD_METADATA AS M FROM {cats.table} ORDER BY NAME")
    assert [(row["NAME"], row["M"]["topic"]) for row in rows] == [("Rex", dogs.name), ("Tom", cats.name)]
    assert not {"offset", "partition", "CreateTime"} & rows[0]["M"].keys()


@pytest.mark.full
def test_a_row_that_snowflake_rejects_is_error_5030(settings: Settings, start: Start) -> None:
    topic = Topic(settings, "v4bad", partitions=1)
    sql(settings, f"CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, ORDER_ID NUMBER)")
    faults = StreamingFaults(settings, f"{topic.table}-STREAMING")
    faults.reject("$.RECORD_METADATA.topic", topic.name)
    try:
        send(topic, {"order_id": 1})
        with pytest.raises(TerminalError, match="5030"):
            start(topic).run()
        assert committed(settings, topic)[0] == 0
    finally:
        faults.clear()
