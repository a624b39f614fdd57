"""Tables changed as records want it, on the local Snowflake: each change once, written down before it is made."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from snowflake.connector import SnowflakeConnection

from firn.connector.config import TableConfig
from firn.errors import PrivilegeError, TerminalError, TransientError
from firn.ledger import schema_changes
from firn.settings import Settings
from firn.snowflake.columns import Columns
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace
from firn.snowflake.tables import describe
from firn.snowflake.transactions import transaction
from spark_jobs.sink.tables.evolution import Evolution, Reason, SchemaChange, merged
from spark_jobs.sink.values.reports import SchemaChangeRequest
from tests.support.sinks import login_of
from tests.support.snowflake import admin_sql, drop_schema, make_schema, own_user

EVOLUTION = "spark_jobs.sink.tables.evolution"
HISTORY = "SELECT SINK, TOPIC, TABLE_NAME, SCHEMA_ID, STATEMENT FROM {} ORDER BY CHANGED_AT"
TEXT, LONGER = "VARCHAR(16777216)", "VARCHAR(134217728)"


# ---------------------------------------------------------------- merging: no Snowflake


def test_wishes_of_partitions_and_topics_are_one_for_each_table() -> None:
    found = merged(
        [
            SchemaChangeRequest("b", 0, "T", 9, {"X": "FLOAT", "Y": TEXT}, ["N"]),
            SchemaChangeRequest("a", 1, "T", 2, {"Z": "BOOLEAN", "X": "NUMBER(38,0)"}, ["M"]),
            SchemaChangeRequest("a", 0, "T", 1, {"X": "NUMBER(38,0)"}, [], {"W": LONGER}),
            SchemaChangeRequest("c", 0, "U", None, {"X": "DATE"}),
        ]
    )
    assert list(found) == ["T", "U"]
    table = found["T"]
    assert table.by == Reason("a", 1)
    assert {name: (by, str(kind)) for name, (by, kind) in table.add.items()} == {
        "X": (Reason("a", 1), "FLOAT"),
        "Z": (Reason("a", 2), "BOOLEAN"),
        "Y": (Reason("b", 9), TEXT),
    }
    assert list(table.add) == ["X", "Z", "Y"]
    assert table.nullable == {"M": Reason("a", 2), "N": Reason("b", 9)}
    assert {name: (by, str(kind)) for name, (by, kind) in table.widen.items()} == {"W": (Reason("a", 1), LONGER)}


def test_the_order_of_reports_changes_nothing() -> None:
    wanted = [
        SchemaChangeRequest("a", 0, "T", 1, {"X": "FLOAT"}, ["N"], {"W": LONGER}),
        SchemaChangeRequest("a", 1, "T", 2, {"X": TEXT, "Y": "DATE"}, ["N"], {"W": TEXT}),
        SchemaChangeRequest("b", 0, "T", 3, {"Y": "DATE", "X": "FLOAT"}),
    ]
    expected = merged(wanted)["T"]
    assert {name: str(kind) for name, (_, kind) in expected.add.items()} == {"X": "VARIANT", "Y": "DATE"}
    assert {name: str(kind) for name, (_, kind) in expected.widen.items()} == {"W": LONGER}
    assert expected.nullable == {"N": Reason("a", 1)}
    for order in itertools.permutations(wanted):
        found = merged(order)["T"]
        assert found == expected
        assert list(found.add) == ["X", "Y"]


# ---------------------------------------------------------------- on the local Snowflake


@pytest.fixture(scope="module")
def login(settings: Settings) -> SnowflakeLogin:
    return login_of(settings)


@pytest.fixture(scope="module")
def connection(login: SnowflakeLogin) -> Iterator[SnowflakeConnection]:
    with connect(login) as opened:
        yield opened


@pytest.fixture(scope="module")
def namespace(settings: Settings, login: SnowflakeLogin) -> Iterator[Namespace]:
    schema = f"EVOLVE_{uuid.uuid4().hex[:8].upper()}"
    make_schema(settings, schema)
    yield Namespace(login.database, schema)
    drop_schema(settings, schema)


@pytest.fixture
def new_table(connection: SnowflakeConnection, namespace: Namespace) -> Callable[..., str]:
    """Makes a table of these columns; without any, a name that none has."""

    def make(columns: str = "") -> str:
        table = f"T_{uuid.uuid4().hex[:8].upper()}"
        if columns:
            execute(connection, f"CREATE TABLE {namespace.qualified(table)} ({columns})")
        return table

    return make


def columns_of(connection: SnowflakeConnection, namespace: Namespace, table: str) -> Columns | None:
    shape = describe(connection, namespace, table)
    return None if shape is None else shape.columns


def shown(columns: Columns | None) -> dict[str, str]:
    return {each.name: f"{each.type}{'' if each.nullable else ' NOT NULL'}" for each in columns or ()}


class Sink:
    """One sink's evolution, in a session."""

    def __init__(self, connection: SnowflakeConnection, namespace: Namespace, name: str = "s", **options: Any) -> None:
        self.connection, self.namespace, self.name = connection, namespace, name
        tables = options.get("tables", TableConfig())
        self.evolution = Evolution(namespace, name, tables, evolving=options.get("evolving", True))

    def apply(
        self, *wanted: SchemaChangeRequest, seen: Mapping[str, Columns | None] | None = None
    ) -> tuple[SchemaChange, ...]:
        tables = {each.table for each in wanted}
        before = seen or {table: columns_of(self.connection, self.namespace, table) for table in tables}
        return self.evolution.apply(self.connection, wanted, before)

    def shown(self, table: str) -> dict[str, str]:
        return shown(columns_of(self.connection, self.namespace, table))

    def history(self, table: str) -> list[dict[str, Any]]:
        """Rows of the table, in order."""
        rows = query(self.connection, HISTORY.format(self.namespace.qualified(schema_changes.TABLE)))
        return [row for row in rows if row["TABLE_NAME"] == table]


@pytest.fixture
def sink(connection: SnowflakeConnection, namespace: Namespace) -> Sink:
    return Sink(connection, namespace)


@pytest.mark.stack
def test_columns_are_added_made_nullable_and_widened_in_one_go(sink: Sink, new_table: Callable[..., str]) -> None:
    table = new_table("RECORD_METADATA VARIANT, ID NUMBER(10,0) NOT NULL, NAME VARCHAR(10)")
    done = sink.apply(
        SchemaChangeRequest("orders", 0, table, 7, {"DISCOUNT": "FLOAT", "tags": "ARRAY"}, ["ID"], {"NAME": TEXT}),
        SchemaChangeRequest("orders", 1, table, 8, {"DISCOUNT": "FLOAT"}, ["ID"], {"ID": "NUMBER(38,0)"}),
    )
    assert sink.shown(table) == {
        "RECORD_METADATA": "VARIANT",
        "ID": "NUMBER(38,0)",
        "NAME": TEXT,
        "DISCOUNT": "FLOAT",
        "tags": "ARRAY",
    }
    full = sink.namespace.qualified(table)
    comment = "COMMENT 'Added by Firn from topic orders'"
    assert [each.statement for each in done] == [
        f'ALTER TABLE {full} ADD COLUMN IF NOT EXISTS "DISCOUNT" FLOAT {comment}',
        f'ALTER TABLE {full} ADD COLUMN IF NOT EXISTS "tags" ARRAY {comment}',
        f'ALTER TABLE {full} ALTER COLUMN "ID" DROP NOT NULL',
        f'ALTER TABLE {full} ALTER COLUMN "NAME" SET DATA TYPE {TEXT}',
        f'ALTER TABLE {full} ALTER COLUMN "ID" SET DATA TYPE NUMBER(38,0)',
    ]
    assert [(each.table, each.topic, each.schema_id) for each in done] == [(table, "orders", 7)] * 4 + [
        (table, "orders", 8)
    ]
    assert [(row["SINK"], row["TOPIC"], row["SCHEMA_ID"], row["STATEMENT"]) for row in sink.history(table)] == [
        ("s", each.topic, each.schema_id, each.statement) for each in done
    ]


@pytest.mark.stack
def test_a_table_is_made_with_its_first_columns(sink: Sink, new_table: Callable[..., str]) -> None:
    table = new_table()
    done = sink.apply(
        SchemaChangeRequest("b", 0, table, None, {"ID": "NUMBER(38,0)", "b c": "DATE"}),
        SchemaChangeRequest("a", 0, table, 3, {"ID": "NUMBER(38,0)", "NAME": TEXT}),
    )
    assert list(sink.shown(table).items()) == [
        ("RECORD_METADATA", "VARIANT"),
        ("ID", "NUMBER(38,0)"),
        ("NAME", TEXT),
        ("b c", "DATE"),
    ]
    (change,) = done
    assert (change.table, change.topic, change.schema_id) == (table, "a", 3)
    assert change.statement.startswith("CREATE TABLE IF NOT EXISTS")
    assert "ENABLE_SCHEMA_EVOLUTION = TRUE" in change.statement
    assert [row["STATEMENT"] for row in sink.history(table)] == [change.statement]


@pytest.mark.stack
def test_a_table_that_must_not_evolve_is_made_without_it(
    connection: SnowflakeConnection, namespace: Namespace, new_table: Callable[..., str]
) -> None:
    (change,) = Sink(connection, namespace, evolving=False).apply(
        SchemaChangeRequest("a", 0, new_table(), None, {"X": "DATE"})
    )
    assert "ENABLE_SCHEMA_EVOLUTION" not in change.statement


@pytest.mark.stack
def test_a_table_without_fields_has_its_metadata(sink: Sink, new_table: Callable[..., str]) -> None:
    table = new_table()
    sink.apply(SchemaChangeRequest("a", 0, table, None, {"RECORD_METADATA": "NUMBER(38,0)"}))
    assert sink.shown(table) == {"RECORD_METADATA": "VARIANT"}


@pytest.mark.stack
def test_what_is_so_already_is_not_done_again(sink: Sink, new_table: Callable[..., str]) -> None:
    table = new_table("RECORD_METADATA VARIANT, ID NUMBER(10,0) NOT NULL, NAME VARCHAR(10)")
    wanted = SchemaChangeRequest("orders", 0, table, 7, {"DISCOUNT": "FLOAT"}, ["ID"], {"NAME": TEXT})
    seen = {table: columns_of(sink.connection, sink.namespace, table)}
    assert len(sink.apply(wanted, seen=seen)) == 3
    assert sink.apply(wanted, seen=seen) == ()
    assert len(sink.history(table)) == 3


@pytest.mark.stack
def test_a_table_that_another_sink_made_meanwhile_gets_what_it_lacks(
    sink: Sink, new_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table()
    looks: list[object] = []

    def first_look_is_too_early(*args: Any) -> Any:
        looks.append(args)
        if len(looks) > 1:
            return describe(*args)
        execute(sink.connection, f"CREATE TABLE {sink.namespace.qualified(table)} (RECORD_METADATA VARIANT, X DATE)")
        return None

    monkeypatch.setattr(f"{EVOLUTION}.describe", first_look_is_too_early)
    sink.apply(SchemaChangeRequest("a", 0, table, None, {"X": "FLOAT", "Y": "FLOAT"}), seen={table: None})
    assert sink.shown(table) == {"RECORD_METADATA": "VARIANT", "X": "DATE", "Y": "FLOAT"}


@pytest.mark.stack
def test_a_column_that_another_sink_made_with_another_type_is_no_error(
    sink: Sink, new_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table("RECORD_METADATA VARIANT")
    old = describe(sink.connection, sink.namespace, table)
    execute(sink.connection, f"ALTER TABLE {sink.namespace.qualified(table)} ADD COLUMN X DATE")
    monkeypatch.setattr(f"{EVOLUTION}.describe", lambda *_: old)
    (change,) = sink.apply(SchemaChangeRequest("a", 0, table, None, {"X": "FLOAT"}))
    assert "IF NOT EXISTS" in change.statement
    assert sink.shown(table) == {"RECORD_METADATA": "VARIANT", "X": "DATE"}


@pytest.mark.stack
def test_a_column_that_another_sink_made_wider_meanwhile_is_no_error(
    sink: Sink, new_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table("RECORD_METADATA VARIANT, NAME VARCHAR(10)")
    looks = [describe(sink.connection, sink.namespace, table)]
    execute(sink.connection, f"ALTER TABLE {sink.namespace.qualified(table)} ALTER COLUMN NAME SET DATA TYPE {LONGER}")
    monkeypatch.setattr(f"{EVOLUTION}.describe", lambda *args: looks.pop() if looks else describe(*args))
    seen = {table: columns_of(sink.connection, sink.namespace, table)}
    (change,) = sink.apply(SchemaChangeRequest("a", 0, table, None, {"X": "FLOAT"}, widen={"NAME": TEXT}), seen=seen)
    assert "ADD COLUMN" in change.statement
    assert sink.shown(table) == {"RECORD_METADATA": "VARIANT", "NAME": LONGER, "X": "FLOAT"}


@pytest.mark.stack
def test_not_null_dropped_twice_and_a_type_set_twice_are_no_errors(
    sink: Sink, new_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table("RECORD_METADATA VARIANT, ID NUMBER(10,0) NOT NULL")
    old = describe(sink.connection, sink.namespace, table)
    monkeypatch.setattr(f"{EVOLUTION}.describe", lambda *_: old)
    wanted = SchemaChangeRequest("a", 0, table, None, {}, ["ID"], {"ID": "NUMBER(38,0)"})
    assert sink.apply(wanted) == sink.apply(wanted)
    assert sink.shown(table) == {"RECORD_METADATA": "VARIANT", "ID": "NUMBER(38,0)"}


@pytest.mark.stack
@pytest.mark.parametrize("there", ["NUMBER(38,2)", "FLOAT", "NUMBER(38,0)"])
def test_a_column_is_not_widened_that_is_of_another_kind_by_now(
    sink: Sink, new_table: Callable[..., str], there: str
) -> None:
    table = new_table(f"RECORD_METADATA VARIANT, ID {there}")
    assert (
        sink.apply(
            SchemaChangeRequest("a", 0, table, None, widen={"ID": "NUMBER(38,0)", "GONE": TEXT}, nullable=["GONE"])
        )
        == ()
    )
    assert sink.shown(table)["ID"] == there


@pytest.mark.stack
def test_two_sinks_change_one_table_at_once(
    login: SnowflakeLogin, namespace: Namespace, new_table: Callable[..., str]
) -> None:
    table = new_table()
    names = [f"C{at}" for at in range(8)]

    def run(name: str, order: Sequence[str]) -> int:
        with connect(login) as own:
            sink = Sink(own, namespace, name)
            seen: dict[str, Columns | None] = {table: None}
            return sum(len(sink.apply(SchemaChangeRequest(name, 0, table, 1, {c: "FLOAT"}), seen=seen)) for c in order)

    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(run, ("one", "two"), (names, names[::-1])))
    with connect(login) as looking:
        sink = Sink(looking, namespace)
        assert sink.shown(table) == {"RECORD_METADATA": "VARIANT", **dict.fromkeys(names, "FLOAT")}
        assert len(sink.history(table)) == sum(counts) >= len(names)


@pytest.mark.stack
def test_names_and_topics_with_quotes_do_no_harm(sink: Sink, new_table: Callable[..., str]) -> None:
    table = new_table("RECORD_METADATA VARIANT")
    name = 'it\'s "odd" ? {x} %s; --'
    sink.apply(SchemaChangeRequest("to'p\\ic", 0, table, None, {name: "FLOAT"}))
    assert sink.shown(table) == {"RECORD_METADATA": "VARIANT", name: "FLOAT"}
    rows = query(sink.connection, f"DESCRIBE TABLE {sink.namespace.qualified(table)}")
    assert [row["comment"] for row in rows if row["name"] == name] == ["Added by Firn from topic to'p\\ic"]


@pytest.mark.stack
def test_no_transaction_is_open_afterwards(sink: Sink, new_table: Callable[..., str]) -> None:
    table = new_table("RECORD_METADATA VARIANT")
    sink.apply(SchemaChangeRequest("a", 0, table, None, {"X": "FLOAT"}))
    assert query(sink.connection, "SELECT CURRENT_TRANSACTION() AS ID")[0]["ID"] is None
    with transaction(sink.connection):
        execute(sink.connection, f"INSERT INTO {sink.namespace.qualified(table)} (X) SELECT 0.5")
    assert query(sink.connection, f"SELECT X FROM {sink.namespace.qualified(table)}") == [{"X": 0.5}]


@pytest.mark.stack
def test_each_change_is_told_in_one_line(
    sink: Sink, new_table: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table()
    with caplog.at_level(logging.INFO, EVOLUTION):
        sink.apply(SchemaChangeRequest("a", 0, table, None, {"X": "FLOAT"}))
        sink.apply(SchemaChangeRequest("a", 0, table, None, {"Y": "FLOAT"}))
    lines = [each.getMessage() for each in caplog.records]
    assert [line.split(":")[0] for line in lines] == [f"table {table}"] * 2
    assert all("\n" not in line for line in lines)
    assert 'ADD COLUMN IF NOT EXISTS "Y" FLOAT' in lines[1]


# ---------------------------------------------------------------- what Snowflake refuses


@pytest.mark.stack
def test_a_role_that_does_not_own_the_table_is_told_what_to_grant(settings: Settings, namespace: Namespace) -> None:
    table, schema = f"T_{uuid.uuid4().hex[:8].upper()}", f"{namespace.database}.{namespace.schema}"
    full = namespace.qualified(table)
    admin_sql(settings, f"CREATE TABLE {full} (RECORD_METADATA VARIANT)")
    grants = (
        f"GRANT USAGE ON DATABASE {namespace.database} TO ROLE {{role}}",
        f"GRANT USAGE, CREATE TABLE ON SCHEMA {schema} TO ROLE {{role}}",
        f"GRANT SELECT, INSERT ON TABLE {full} TO ROLE {{role}}",
    )
    history = namespace.qualified(schema_changes.TABLE)
    admin_sql(settings, f"DROP TABLE IF EXISTS {history}")
    with own_user(settings, *grants) as user:
        with connect(login_of(user.settings)) as own, pytest.raises(PrivilegeError) as refused:
            Sink(own, namespace).apply(SchemaChangeRequest("orders", 0, table, 7, {"X": "FLOAT"}))
        error = refused.value
        assert error.where == f"table {full}, wanted by topic orders, schema id 7"
        assert f'ALTER TABLE {full} ADD COLUMN IF NOT EXISTS "X" FLOAT' in error.next_step
        assert f"GRANT OWNERSHIP ON TABLE {full} TO ROLE {user.name} COPY CURRENT GRANTS" in error.next_step
        assert [row["TABLE_NAME"] for row in admin_sql(settings, f"SELECT TABLE_NAME FROM {history}")] == [table]
        admin_sql(settings, f"DROP TABLE {history}")


@pytest.mark.stack
def test_a_role_that_may_not_make_tables_is_told_what_to_grant(settings: Settings, namespace: Namespace) -> None:
    schema = f"{namespace.database}.{namespace.schema}"
    with connect(login_of(settings)) as writer:
        Sink(writer, namespace).apply(SchemaChangeRequest("a", 0, f"T_{uuid.uuid4().hex[:8].upper()}", None))
    grants = (
        f"GRANT USAGE ON DATABASE {namespace.database} TO ROLE {{role}}",
        f"GRANT USAGE ON SCHEMA {schema} TO ROLE {{role}}",
        f"GRANT SELECT, INSERT ON TABLE {namespace.qualified(schema_changes.TABLE)} TO ROLE {{role}}",
    )
    with own_user(settings, *grants) as user:
        with connect(login_of(user.settings)) as own, pytest.raises(PrivilegeError) as refused:
            Sink(own, namespace).apply(SchemaChangeRequest("orders", 0, "T_NEW", None, {"X": "FLOAT"}))
        assert "GRANT CREATE TABLE ON SCHEMA" in refused.value.next_step


@pytest.mark.stack
def test_what_snowflake_cannot_do_is_told_with_the_statement(
    sink: Sink, new_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table("RECORD_METADATA VARIANT, NAME VARCHAR(10)")

    def refuse(connection: SnowflakeConnection, statement: str) -> int:
        if "SET DATA TYPE" in statement:
            raise TerminalError("cannot change column NAME: it is part of a clustering key", where="statement")
        return execute(connection, statement)

    monkeypatch.setattr(f"{EVOLUTION}.execute", refuse)
    with pytest.raises(TerminalError) as refused:
        sink.apply(SchemaChangeRequest("orders", 0, table, None, {"X": "FLOAT"}, widen={"NAME": TEXT}))
    error, full = refused.value, sink.namespace.qualified(table)
    assert "clustering key" in error.what
    assert error.where == f"table {full}, wanted by topic orders"
    assert f'ALTER TABLE {full} ALTER COLUMN "NAME" SET DATA TYPE {TEXT};' in error.next_step
    assert sink.shown(table) == {"RECORD_METADATA": "VARIANT", "NAME": "VARCHAR(10)", "X": "FLOAT"}
    monkeypatch.undo()
    assert len(sink.apply(SchemaChangeRequest("orders", 0, table, None, {"X": "FLOAT"}, widen={"NAME": TEXT}))) == 1


@pytest.mark.stack
def test_a_change_is_written_down_before_it_is_made(
    sink: Sink, new_table: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table("RECORD_METADATA VARIANT")

    def lost(_connection: SnowflakeConnection, _statement: str) -> int:
        raise TransientError("Snowflake does not answer")

    monkeypatch.setattr(f"{EVOLUTION}.execute", lost)
    with pytest.raises(TransientError):
        sink.apply(SchemaChangeRequest("orders", 0, table, 4, {"X": "FLOAT"}))
    assert [(row["TOPIC"], row["SCHEMA_ID"]) for row in sink.history(table)] == [("orders", 4)]


@pytest.mark.stack
def test_a_table_that_was_dropped_meanwhile_is_not_made_anew(sink: Sink, new_table: Callable[..., str]) -> None:
    table = new_table("RECORD_METADATA VARIANT")
    seen = {table: columns_of(sink.connection, sink.namespace, table)}
    execute(sink.connection, f"DROP TABLE {sink.namespace.qualified(table)}")
    with pytest.raises(MissingObjectError):
        sink.apply(SchemaChangeRequest("a", 0, table, None, {"X": "FLOAT"}), seen=seen)
    assert columns_of(sink.connection, sink.namespace, table) is None


@pytest.mark.stack
def test_the_history_has_a_column_for_each_thing_it_tells(sink: Sink, new_table: Callable[..., str]) -> None:
    sink.apply(SchemaChangeRequest("a", 0, new_table(), None, {"X": "FLOAT"}))
    assert sink.shown(schema_changes.TABLE) == {
        "CHANGED_AT": "TIMESTAMP_LTZ(9)",
        "SINK": TEXT,
        "TOPIC": TEXT,
        "TABLE_NAME": TEXT,
        "SCHEMA_ID": "NUMBER(38,0)",
        "STATEMENT": TEXT,
    }
