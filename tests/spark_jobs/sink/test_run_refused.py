"""What a run refuses before it claims: nothing is read, nothing is made, and a sink that runs is not ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from firn.connector.parse import parse_sink_config
from firn.errors import ConfigError, PrivilegeError
from firn.settings import Settings
from firn.sinks.context import resolve
from spark_jobs.sink.run import SinkRun
from spark_jobs.spark.engine import Engine
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, connector
from tests.support.snowflake import WRITER, admin_sql, drop_schema, make_schema, own_user

pytestmark = pytest.mark.stack

NewRun = Callable[..., SinkRun]


def test_a_topic_that_two_expressions_match(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "twice")
    both = f"{topic.name[:-1]}.:FIRST_TABLE,.{topic.name[1:]}:SECOND_TABLE"
    topic.send([b"{}"])
    with pytest.raises(ConfigError) as raised:
        new_run(topic, snowflake__topic2table__map=both, **JSON).run()
    assert f"{topic.name}: {topic.name[:-1]}. (table FIRST_TABLE), " in raised.value.what
    assert committed(settings, topic) == {}


def test_a_role_without_its_rights(settings: Settings, spark: Engine) -> None:
    with own_user(settings, f"GRANT ROLE {WRITER} TO ROLE {{role}}") as user:
        make_schema(settings, user.name)
        own = user.settings.model_copy(update={"snowflake_schema": user.name})
        topic = Topic(own, "rightless")
        table = f"{settings.snowflake_database}.{user.name}.{topic.table}"
        try:
            topic.send([b"{}"])
            admin_sql(
                settings,
                f"CREATE TABLE {table} (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)",
                f"GRANT SELECT ON TABLE {table} TO ROLE {user.name}",
            )
            config = parse_sink_config(connector(topic, **JSON), where="test")
            with pytest.raises(PrivilegeError) as raised:
                SinkRun(resolve(config, own), spark, once=True, stop=threading.Event()).run()
            assert f"GRANT INSERT ON TABLE {table} TO ROLE {user.name};" in raised.value.next_step
            assert committed(own, topic) == {}
        finally:
            drop_schema(settings, user.name)
