"""A pipe with the table's own name is found and used, and what is wrong with it is said before the first record."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.errors import ConfigError, PrivilegeError
from firn.settings import Settings
from firn.snowflake.connection import connect, execute, query
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.snowpipe.pipe_input_table import PipeInputTable, check_pipe
from spark_jobs.sink.privileges import check_rights
from spark_jobs.sink.tables import pipes
from spark_jobs.sink.tables.pipes import user_pipe
from spark_jobs.sink.values.table_loaders import PipeLoader
from tests.support.sinks import login_of
from tests.support.snowflake import admin_sql

D_S = Namespace("d", "s")
SOURCE = "TABLE(DATA_SOURCE(TYPE => 'STREAMING'))"


def found(
    monkeypatch: pytest.MonkeyPatch, definition: str, *, table: str = "orders", name: str = "ORDERS"
) -> PipeLoader | None:
    """What is made of a pipe that SHOW PIPES lists, beside others."""
    said: list[str] = []

    def query(_connection: object, statement: str) -> list[dict[str, Any]]:
        said.append(statement)
        others = [{"name": other, "definition": "not to be read"} for other in ("ORDERS-STREAMING", "orders", "ORDER_")]
        return [*others, {"name": name, "definition": definition}]

    monkeypatch.setattr(pipes, "query", query)
    load = user_pipe(None, D_S, table, fields=True)  # type: ignore[arg-type]
    assert len(said) == 1
    return load


@pytest.mark.parametrize("written", ["orders", "ORDERS", "s.orders", 'D."S"."ORDERS"'])
def test_the_pipe_of_the_table_s_own_name(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    text = f"COPY INTO {written} (id) FROM (SELECT $1:id FROM {SOURCE})"
    assert found(monkeypatch, text) == PipeLoader(True, ("D", "S", "ORDERS"), ("ID",), "SELECT $1:id FROM {source}")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("orders_table", ("D", "S", "ORDERS_TABLE")),
        ('"orders"', ("D", "S", "orders")),
        ('x."y.z"', ("D", "X", "y.z")),
        ("other.x.orders", ("OTHER", "X", "ORDERS")),
    ],
)
def test_the_pipe_of_the_table_s_own_name_may_fill_another_table(
    monkeypatch: pytest.MonkeyPatch, written: str, name: tuple[str, str, str]
) -> None:
    load = found(monkeypatch, f"COPY INTO {written} FROM (SELECT $1:id FROM {SOURCE})")
    assert load == PipeLoader(True, name, (), "SELECT $1:id FROM {source}")


def test_names_that_only_look_alike_are_not_the_table_s(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"COPY INTO orders FROM (SELECT $1:id FROM {SOURCE})"
    assert found(monkeypatch, text, name="ORDERS_2") is None
    assert found(monkeypatch, text, name="Orders") is None


def test_a_name_with_wildcards_and_quotes_is_found_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'COPY INTO "it\'s_50%" FROM (SELECT $1:id FROM {SOURCE})'
    assert found(monkeypatch, text, table="it's_50%", name="it's_50%") == PipeLoader(
        True, ("D", "S", "it's_50%"), (), "SELECT $1:id FROM {source}"
    )
    assert found(monkeypatch, text, table="it's_50%", name="itas_50x") is None


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("COPY INTO orders FROM @stage", "does not read"),
        (f"COPY INTO orders FROM {SOURCE} MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE", "has no SELECT"),
    ],
)
def test_a_pipe_that_changes_nothing_is_left_alone_and_mentioned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, definition: str, why: str
) -> None:
    with caplog.at_level(logging.INFO):
        assert found(monkeypatch, definition) is None
    assert f"pipe D.S.ORDERS {why}" in caplog.text


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        (f"COPY INTO orders FROM (SELECT a.$1 FROM {SOURCE} a, {SOURCE} b)", "DATA_SOURCE more than once"),
        (f"COPY INTO orders FROM {SOURCE}", "neither a SELECT nor MATCH_BY_COLUMN_NAME"),
    ],
)
def test_a_pipe_that_cannot_be_run_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, definition: str, fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault) as raised:
        found(monkeypatch, definition)
    assert raised.value.where == "pipe D.S.ORDERS"
    assert "CREATE OR REPLACE PIPE D.S.ORDERS AS COPY INTO D.S.ORDERS FROM (SELECT" in raised.value.next_step


def test_a_pipe_without_a_select_fills_the_table_of_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"goes into D\.S\.OTHER, and it has no SELECT") as raised:
        found(monkeypatch, f"COPY INTO other FROM {SOURCE} MATCH_BY_COLUMN_NAME = CASE_SENSITIVE")
    assert raised.value.where == "pipe D.S.ORDERS"
    assert "snowflake.topic2table.map name table D.S.OTHER" in raised.value.next_step


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[SnowflakeConnection]:
    with connect(login_of(settings)) as connection:
        yield connection


@pytest.fixture
def namespace(settings: Settings) -> Namespace:
    return Namespace(settings.snowflake_database, settings.snowflake_schema)


def made(connection: SnowflakeConnection, namespace: Namespace, columns: str, table: str = "") -> str:
    """A table with these columns."""
    table = table or f"PIPED_{uuid4().hex[:8]}".upper()
    execute(connection, f"CREATE TABLE {namespace.qualified(table)} ({columns})")
    return table


def fault(connection: SnowflakeConnection, namespace: Namespace, table: str, load: PipeLoader) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        check_pipe(connection, namespace, table, load)
    return raised.value


@pytest.mark.stack
@pytest.mark.parametrize("form", ["PIPED_{}", "piped{}", "piped 5%_{}"])
def test_a_real_pipe_is_found_by_who_may_see_it_and_runs(
    settings: Settings, connection: SnowflakeConnection, namespace: Namespace, form: str
) -> None:
    table = made(connection, namespace, "id NUMBER, who VARCHAR", form.format(uuid4().hex[:8]))
    name = namespace.qualified(table)
    select = f"SELECT $1:id::NUMBER, $1['{{who}}'] FROM {SOURCE} s"
    admin_sql(settings, f"CREATE PIPE {name} AS COPY INTO {name} FROM ({select})")
    assert user_pipe(connection, namespace, table, fields=True) is None
    admin_sql(settings, f"GRANT MONITOR ON PIPE {name} TO ROLE {connection.role}")
    load = user_pipe(connection, namespace, table, fields=True)
    assert load == PipeLoader(
        True, namespace.full_name(table), (), "SELECT $1:id::NUMBER, $1['{{who}}'] FROM {source} s"
    )
    check_pipe(connection, namespace, table, load)
    waiting = PipeInputTable(namespace, "s", table)
    waiting.prepare(connection)
    execute(connection, f"INSERT INTO {waiting.name} SELECT PARSE_JSON(?)", ['{"id": 3, "{who}": "Ida"}'])
    assert waiting.fill_target(connection, load) == 1
    assert query(connection, f"SELECT * FROM {name}") == [{"ID": 3, "WHO": "Ida"}]


@pytest.mark.stack
def test_a_pipe_fills_a_table_that_is_there(connection: SnowflakeConnection, namespace: Namespace) -> None:
    load = PipeLoader(True, namespace.full_name("NO_SUCH_ONE"), (), "SELECT $1 FROM {source}")
    error = fault(connection, namespace, "SOME_PIPE", load)
    name = namespace.qualified("NO_SUCH_ONE")
    assert error.what == f"Table not found: {name}."
    assert error.where == f"pipe {namespace.qualified('SOME_PIPE')}"
    assert "makes none for a pipe" in error.next_step
    assert query(connection, f"SHOW TABLES LIKE 'NO_SUCH_ONE' IN SCHEMA {name.rpartition('.')[0]}") == []


@pytest.mark.stack
def test_rights_are_asked_for_on_the_table_that_the_pipe_fills(
    settings: Settings, connection: SnowflakeConnection, namespace: Namespace
) -> None:
    pipe, filled = f"PIPED_{uuid4().hex[:8]}".upper(), namespace.qualified(f"FILLED_{uuid4().hex[:8]}".upper())
    admin_sql(
        settings,
        f"CREATE TABLE {filled} (id NUMBER)",
        f"GRANT SELECT ON TABLE {filled} TO ROLE {connection.role}",
        f"CREATE PIPE {namespace.qualified(pipe)} AS COPY INTO {filled} FROM (SELECT $1:id::NUMBER FROM {SOURCE})",
        f"GRANT MONITOR ON PIPE {namespace.qualified(pipe)} TO ROLE {connection.role}",
    )
    with pytest.raises(PrivilegeError) as raised:
        check_rights(connection, SinkConfig("s"), login_of(settings), [pipe])
    assert f"GRANT INSERT ON TABLE {filled} TO ROLE {connection.role};" in raised.value.next_step
    assert raised.value.what.count("INSERT on table") == 1
    admin_sql(settings, f"GRANT INSERT ON TABLE {filled} TO ROLE {connection.role}")
    check_rights(connection, SinkConfig("s"), login_of(settings), [pipe])


@pytest.mark.stack
@pytest.mark.parametrize(
    ("targets", "select", "said"),
    [
        ((), "SELECT $1:id FROM {source}", ["1 column", "2 (ID, WHO)"]),
        (("ID",), "SELECT $1:id, $1:who FROM {source}", ["2 columns", "1 (ID)"]),
        (("ID", "NAME"), "SELECT $1:id, $1:who FROM {source}", ["NAME", "missing"]),
        (("WHO",), "SELECT $1:who FROM {source}", ["ID", "NOT NULL"]),
        ((), "SELECT $1:id, nowhere FROM {source}", ["NOWHERE"]),
        ((), "SELECT $1:id, n.who FROM {source} s JOIN nowhere n ON n.id = s.$1:id", ["NOWHERE"]),
        ((), "SELECT $1:id, NO_SUCH_FUNCTION($1) FROM {source}", ["no_such_function"]),
    ],
)
def test_what_does_not_fit_is_said_before_the_first_record(
    connection: SnowflakeConnection, namespace: Namespace, targets: tuple[str, ...], select: str, said: list[str]
) -> None:
    table = made(connection, namespace, "id NUMBER NOT NULL, who VARCHAR")
    error = fault(connection, namespace, table, PipeLoader(True, namespace.full_name(table), targets, select))
    assert all(part.lower() in str(error).lower() for part in (*said, table)), str(error)
    assert error.next_step


@pytest.mark.stack
def test_a_check_leaves_nothing_behind(
    settings: Settings, connection: SnowflakeConnection, namespace: Namespace
) -> None:
    table = made(connection, namespace, "n NUMBER")
    schema = namespace.qualified(table).rpartition(".")[0]
    load = PipeLoader(True, namespace.full_name(table), (), "SELECT COUNT(*) FROM {source}")
    check_pipe(connection, namespace, table, load)
    assert query(connection, "SELECT CURRENT_TRANSACTION() AS ID") == [{"ID": None}]
    with connect(login_of(settings)) as other:
        assert query(other, f"SELECT * FROM {namespace.qualified(table)}") == []
        names = {str(row["name"]) for row in query(other, f"SHOW TABLES IN SCHEMA {schema}")}
    assert PipeInputTable(namespace, "", table).name.rpartition(".")[2] not in names
