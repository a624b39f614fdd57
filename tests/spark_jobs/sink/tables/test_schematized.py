"""Typed columns end to end: what lands where, and tables that change while records flow."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from firn.errors import BadRecordError, ConfigError
from firn.settings import Settings
from firn.snowflake.identifiers import stored, table_for
from spark_jobs.sink.run import SinkRun
from tests.spark_jobs.sink.test_run import running
from tests.support.kafka import Topic, framed
from tests.support.sinks import JSON, committed, landed, sql, wait_until
from tests.support.snowflake import admin_sql

pytestmark = pytest.mark.stack
NewRun = Callable[..., SinkRun]
TYPED = JSON | {"snowflake__enable__schematization": "true"}
EVOLVING = TYPED | {"auto__evolve": "true"}
V1 = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}, {"name": "Note", "type": "string"}]}
V2 = {
    **V1,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}]},
        {"name": "at", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    ],
}


def records(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


def rows(settings: Settings, topic: Topic, columns: str) -> list[tuple[Any, ...]]:
    found = sql(settings, f"SELECT {columns} FROM {topic.table} ORDER BY RECORD_METADATA:offset::INT")
    return [tuple(row.values()) for row in found]


def shape(settings: Settings, table: str) -> dict[str, tuple[str, str]]:
    return {row["name"]: (row["type"], row["null?"]) for row in sql(settings, f"DESCRIBE TABLE {table}")}


def history(settings: Settings, topic: Topic) -> list[tuple[Any, ...]]:
    statement = f"SELECT SCHEMA_ID, STATEMENT FROM FIRN_SCHEMA_CHANGES WHERE TOPIC = '{topic.name}' ORDER BY CHANGED_AT"
    return [tuple(row.values()) for row in sql(settings, statement)]


@pytest.mark.both_methods
def test_a_table_is_made_and_changed_as_the_schemas_of_its_records_say(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "typed")
    first = topic.register(V1)
    topic.send(framed(first, V1, [{"id": 1, "Note": "a"}, {"id": 2**40, "Note": "b"}]))
    stop = threading.Event()
    parameters = {"snowflake__enable__schematization": "true", "buffer__count__records": "1"}
    run = new_run(topic, once=False, stop=stop, **parameters)
    with running(run, stop) as done:
        wait_until(lambda: run.report.records == 2, what="first schema committed")
        epoch = run.report.epoch
        second = topic.register(V2)
        topic.send(framed(second, V2, [{"id": 3, "price": None, "at": None}]), partition=1)
        topic.send(framed(first, V1, [{"id": 4, "Note": "c"}]))
        wait_until(lambda: run.report.records == 4, what="second schema committed")
        stop.set()
        assert done.result(60).epoch == epoch
    assert shape(settings, topic.table) == {
        "RECORD_METADATA": ("VARIANT", "Y"),
        "ID": ("NUMBER(38,0)", "Y"),
        "NOTE": ("VARCHAR(16777216)", "Y"),
        "PRICE": ("NUMBER(38,2)", "Y"),
        "AT": ("DATE", "Y"),
    }
    found = sql(settings, f'SELECT ID, NOTE, PRICE, "AT" FROM {topic.table} ORDER BY ID')
    assert [tuple(row.values()) for row in found] == [
        (1, "a", None, None), (3, None, None, None), (4, "c", None, None), (2**40, "b", None, None),
    ]  # fmt: skip
    changes = history(settings, topic)
    assert [schema_id for schema_id, _ in changes] == [first, second, second]
    assert changes[0][1].startswith("CREATE TABLE IF NOT EXISTS")
    assert all("ADD COLUMN IF NOT EXISTS" in statement for _, statement in changes[1:])


@pytest.mark.both_methods(quick=True)
def test_each_value_lands_where_it_belongs_and_a_default_where_there_is_none(
    settings: Settings, new_run: NewRun
) -> None:
    topic = Topic(settings, "exact")
    sql(
        settings,
        f'CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, CITY VARCHAR, AGE NUMBER(5,1), "has cat" BOOLEAN, '
        "SKILLS VARIANT, TAGS ARRAY, BORN DATE, SEEN TIMESTAMP_NTZ, RAW BINARY, ORIGIN VARCHAR DEFAULT 'kafka')",
    )
    topic.send(
        records(
            {"city": "Oslo", "age": 30, "has cat": True, "Skills": ["sit", {"a": 1.50}], "tags": ["x"]},
            {"born": "2020-02-29", "seen": "2020-02-29T12:30:00.25Z", "raw": "AP8=", "age": "12.25", "origin": "me"},
            {},
        )
    )
    assert new_run(topic, **TYPED).run().records == 3
    columns = 'CITY, AGE::FLOAT, "has cat", SKILLS, TAGS, BORN::VARCHAR, SEEN::VARCHAR, HEX_ENCODE(RAW), ORIGIN'
    first, second, third = rows(settings, topic, columns)
    assert first == ("Oslo", 30.0, True, ["sit", {"a": 1.5}], ["x"], None, None, None, "kafka")
    assert second[1:] == (12.3, None, None, None, "2020-02-29", "2020-02-29 12:30:00.25", "00FF", "me")
    assert third == (*[None] * 8, "kafka")


@pytest.mark.both_methods
def test_fields_without_a_column_stop_a_sink_that_may_not_add_it(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "strict")
    sql(settings, f"CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, ID NUMBER)")
    topic.send(records({"id": 1}, {"id": 2, "extra": "x"}, {"id": 3}))
    with pytest.raises(BadRecordError, match=r"offset 1: unknown_field: .*'extra'"):
        new_run(topic, **TYPED).run()
    assert committed(settings, topic)[0] == 1
    assert new_run(topic, **TYPED, errors__tolerance="all").run().reasons == {"unknown_field": 1}
    assert landed(settings, topic) == [(0, 0), (0, 2)]


@pytest.mark.both_methods
def test_a_table_that_asks_for_it_evolves_and_what_contradicts_it_is_left_out(
    settings: Settings, new_run: NewRun
) -> None:
    topic = Topic(settings, "asks")
    sql(
        settings,
        f"CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, ID NUMBER(2,0) NOT NULL, CODE VARCHAR(3)) "
        "ENABLE_SCHEMA_EVOLUTION = TRUE",
    )
    topic.send(records({"id": 1, "code": "abc"}, {"code": "abcd"}, {"id": 12345}, {"id": "zz"}, {"id": 5, "New": 1.5}))
    report = new_run(topic, **TYPED, errors__tolerance="all").run()
    assert report.reasons == {"unfitting_value": 1}
    assert rows(settings, topic, "ID, CODE, NEW") == [
        (1, "abc", None), (None, "abcd", None), (12345, None, None), (5, None, 1.5),
    ]  # fmt: skip
    assert shape(settings, topic.table)["ID"] == ("NUMBER(38,0)", "Y")
    statements = [statement for _, statement in history(settings, topic)]
    assert sorted(statement.split("COLUMN")[0].split()[-1] for statement in statements) == [
        "ADD",
        "ALTER",
        "ALTER",
        "ALTER",
    ]


@pytest.mark.both_methods
@pytest.mark.full
def test_what_a_person_does_to_the_table_counts_from_the_next_record_on(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "altered", partitions=1)
    table = stored(table_for(topic.name, ()))
    sql(settings, f"CREATE TABLE {table} (RECORD_METADATA VARIANT, ID NUMBER)")
    stop = threading.Event()
    parameters = TYPED | {"errors__tolerance": "all", "buffer__count__records": "1", "auto__evolve": "false"}
    run = new_run(topic, once=False, stop=stop, snowflake__topic2table__map=None, **parameters)
    with running(run, stop) as done:
        topic.send(records({"id": 1}))
        wait_until(lambda: run.report.records == 1, what="the first record")
        epoch = run.report.epoch
        sql(settings, f"ALTER TABLE {table} ADD COLUMN EXTRA VARCHAR")
        topic.send(records({"id": 2, "extra": "x"}))
        wait_until(lambda: run.report.records + run.report.bad_records == 2, what="the new field")
        topic.send(records({"id": "three"}))
        wait_until(lambda: run.report.records + run.report.bad_records == 3, what="a record without a place")
        sql(settings, f"CREATE OR REPLACE TABLE {table} (RECORD_METADATA VARIANT, ID VARCHAR)")
        topic.send(records({"id": "four"}))
        wait_until(lambda: run.report.records + run.report.bad_records == 4, what="the new type")
        stop.set()
        report = done.result(60)
    assert (report.epoch, report.records, report.reasons) == (epoch, 3, {"unfitting_value": 1})
    assert [tuple(row.values()) for row in sql(settings, f"SELECT ID FROM {table}")] == [("four",)]
    assert {each.table for each in report.partitions} == {table}


@pytest.mark.both_methods
def test_two_sinks_change_one_table_at_once(settings: Settings, new_run: NewRun) -> None:
    one, two = Topic(settings, "both"), Topic(settings, "both")
    shared = {"firn__share__target": "true", "snowflake__topic2table__map": f"both-.*:{one.table}"} | EVOLVING
    fields = [f"f{number}" for number in range(6)]
    for topic in (one, two):
        topic.send(records(*({field: topic.name} for field in fields)))
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(new_run(topic, **shared, firn__batch__records="2").run) for topic in (one, two)]
        assert [run.result(120).records for run in runs] == [6, 6]
    for field in fields:
        found = sql(settings, f"SELECT {field} FROM {one.table} WHERE {field} IS NOT NULL ORDER BY 1")
        assert [row[field.upper()] for row in found] == sorted([one.name, two.name])


@pytest.mark.both_methods
def test_a_table_must_be_there_where_the_sink_may_not_make_it(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "absent")
    topic.send(records({"id": 1}))
    with pytest.raises(ConfigError, match=f"Table not found.*{topic.table}"):
        new_run(topic, **EVOLVING, auto__create__tables="false").run()
    assert committed(settings, topic)[0] == 0


@pytest.mark.both_methods
def test_a_users_pipe_maps_filters_and_casts(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "piped")
    filled = f"{topic.table}_TABLE"
    sql(settings, f"CREATE TABLE {filled} (NUMBER_OF NUMBER, WHO VARCHAR, TOTAL VARCHAR, SOURCE VARCHAR)")
    pipe = f"{settings.snowflake_database}.{settings.snowflake_schema}.{topic.table}"
    admin_sql(
        settings,
        f"CREATE PIPE {pipe} AS COPY INTO {filled} (NUMBER_OF, WHO, TOTAL, SOURCE) FROM ("
        "SELECT $1:order_id::NUMBER, $1['customer name'], CONCAT($1:total::STRING, ' USD'), "
        "$1:RECORD_METADATA.topic::STRING "
        "FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')) WHERE $1:total > 1)",
        f"GRANT MONITOR ON PIPE {pipe} TO ROLE SVC_KAFKA_CONNECTOR",
    )
    topic.send(
        records(
            {"order_id": 1, "customer name": "Ann", "total": 2.5},
            {"order_id": 2, "customer name": "Bob", "total": 1},
            {"order_id": 3, "total": 9, "unknown": [1]},
        )
    )
    assert new_run(topic, **TYPED).run().records == 3
    found = sql(settings, f"SELECT * FROM {filled} ORDER BY NUMBER_OF")
    assert [tuple(row.values()) for row in found] == [(1, "Ann", "2.5 USD", topic.name), (3, None, "9 USD", topic.name)]
    assert committed(settings, topic)[0] == 3


def test_names_that_are_data_give_a_table_no_end_of_columns(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "wide")
    names = [f'x"; DROP {number}' for number in range(20_000)]
    limits = {"firn__table__max__columns": "200", "errors__tolerance": "all"}
    topic.send(records({"id": 1}, dict.fromkeys(names, 1), {names[0]: 2}, *({name: 3} for name in names[1:1000])))
    report = new_run(topic, **EVOLVING, **limits).run()
    assert len(shape(settings, topic.table)) == 200
    assert (report.records, report.bad_records) == (199, 803)
    assert committed(settings, topic)[0] == 1002
