"""Records go from the pipe input table through a user's SELECT into the table, in one transaction or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pytest
from snowflake.connector import SnowflakeConnection

from firn.errors import ConfigError, FirnError, PrivilegeError, TerminalError, TransientError
from firn.settings import Settings
from firn.snowflake.connection import connect, execute, query
from firn.snowflake.faults import LockConflictError, MissingObjectError, QuotaError
from firn.snowflake.identifiers import Namespace
from firn.snowflake.transactions import transaction
from spark_jobs.sink.columns.staged_columns import pipe_records
from spark_jobs.sink.methods.snowpipe import pipe_input_table as module
from spark_jobs.sink.methods.snowpipe.pipe_input_table import PipeInputTable, RefusedByPipeError
from spark_jobs.sink.tables.pipe_definition import read_definition
from spark_jobs.sink.values.table_loaders import PipeLoader
from tests.support.sinks import login_of, sql

D_S = Namespace("d", "s")
LOAD = PipeLoader(True, ("D", "S", "ORDERS"), ("ID", 'who\'s "it"'), "SELECT $1:id, $1['{{x}}'] FROM {source} s")


def test_each_sink_and_table_has_a_pipe_input_table_of_its_own() -> None:
    names = {PipeInputTable(D_S, sink, table).name for sink, table in [("a", "b c"), ("a b", "c"), ("a", "b")]}
    assert len(names) == 3
    assert all(name.startswith("D.S.FIRN_LANDING_") and len(name) == len("D.S.FIRN_LANDING_") + 8 for name in names)
    assert PipeInputTable(D_S, "a", "b").name == PipeInputTable(D_S, "a", "b").name


def test_statements_are_an_insert_through_the_select_and_a_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def execute(_connection: object, statement: str) -> int:
        said.append(statement)
        return len(said) + 6

    monkeypatch.setattr(module, "execute", execute)
    waiting = PipeInputTable(D_S, "s", "orders")
    assert waiting.fill_target(None, LOAD) == 7  # type: ignore[arg-type]
    assert said == [
        f'INSERT INTO D.S.ORDERS ("ID", "who\'s ""it""") SELECT $1:id, $1[\'{{x}}\'] FROM {waiting.name} s',
        f"DELETE FROM {waiting.name}",
    ]


def fill(monkeypatch: pytest.MonkeyPatch, error: FirnError) -> None:
    """Fill the target, and get that error from Snowflake."""

    def execute(_connection: object, _statement: str) -> int:
        raise error

    monkeypatch.setattr(module, "execute", execute)
    PipeInputTable(D_S, "s", "orders").fill_target(None, LOAD)  # type: ignore[arg-type]


def test_a_value_that_the_select_cannot_take_names_the_pipe_and_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "100038 (22018): Numeric value 'abc' is not recognized"
    with pytest.raises(TerminalError, match="Numeric value 'abc' is not recognized") as raised:
        fill(monkeypatch, TerminalError(words))
    assert type(raised.value) is RefusedByPipeError
    assert raised.value.where == "pipe D.S.ORDERS"
    assert "TRY_CAST" in raised.value.next_step
    assert "Nothing was committed" in raised.value.next_step


@pytest.mark.parametrize(
    "error",
    [
        TerminalError("000904 (42000): SQL compilation error: error line 1\ninvalid identifier 'X'"),
        MissingObjectError("Table not found: 002003 (02000): Object 'X' does not exist or not authorized."),
    ],
)
def test_a_select_that_does_not_compile_is_the_pipe_s_fault(
    monkeypatch: pytest.MonkeyPatch, error: TerminalError
) -> None:
    with pytest.raises(ConfigError, match="'X'") as raised:
        fill(monkeypatch, error)
    assert raised.value.where == "pipe D.S.ORDERS"


@pytest.mark.parametrize("kind", [TransientError, LockConflictError, PrivilegeError, QuotaError])
def test_what_is_not_the_pipe_s_fault_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, kind: type[FirnError]) -> None:
    error = kind("the server's words")
    with pytest.raises(kind) as raised:
        fill(monkeypatch, error)
    assert raised.value is error


class Example(NamedTuple):
    """A table, the SELECT of its pipe, and what becomes of records."""

    columns: str
    select: str
    records: list[Any]
    rows: list[tuple[Any, ...]]
    targets: str = ""
    fields: bool = True


VISIT = {"visit_no": 71, "guest": "Ida", "bill": 12.5, "wasPaid": True}
PERSON = {
    "town": "Bergen",
    "years": 41,
    "wed": False,
    "has dog": True,
    " %~?! has Żółć": True,
    "crafts": ["sewing", "rowing"],
    "kin": {"son": "Olav", "eldest child": "Åse"},
}

EXAMPLES = {
    "casts to text": Example(
        "visit_no VARCHAR, guest VARCHAR, bill VARCHAR, waspaid VARCHAR",
        "$1:visit_no::STRING, $1:guest, $1:bill::STRING, $1:wasPaid::STRING FROM {}",
        [VISIT],
        [("71", "Ida", "12.5", "true")],
    ),
    "metadata, brackets and an expression": Example(
        "topic VARCHAR, partition VARCHAR, visit_no VARCHAR, guest VARCHAR, bill VARCHAR, waspaid VARCHAR",
        "$1:RECORD_METADATA.topic::STRING AS topic, $1:RECORD_METADATA.partition::STRING AS partition, "
        "$1['visit_no']::STRING AS visit_no, $1['guest']::STRING as guest, "
        "CONCAT($1['bill']::STRING, ' NOK') AS bill, $1['wasPaid']::STRING AS waspaid FROM {}",
        [VISIT],
        [("visits", "2", "71", "Ida", "12.5 NOK", "true")],
    ),
    "numbers of the metadata": Example(
        "visit_no NUMBER, guest VARCHAR, bill FLOAT, came_from VARCHAR, at_offset NUMBER, pushed NUMBER",
        "$1:visit_no::NUMBER, $1:guest, $1:bill, $1:RECORD_METADATA.topic AS came_from, "
        "$1:RECORD_METADATA.offset::NUMBER AS at_offset, "
        "$1:RECORD_METADATA.SnowflakeConnectorPushTime::BIGINT AS pushed FROM {}",
        [VISIT, VISIT],
        [(71, "Ida", 12.5, "visits", 0, 1_760_000_099_999), (71, "Ida", 12.5, "visits", 1, 1_760_000_099_999)],
    ),
    "a timestamp": Example(
        "visit_no NUMBER, arrival TIMESTAMP_NTZ, came_from VARCHAR",
        "$1:visit_no::NUMBER, $1:arrival::TIMESTAMP_NTZ, $1:RECORD_METADATA.topic FROM {}",
        [{"visit_no": 1, "arrival": "2026-02-03T04:05:06"}, {"visit_no": 2}],
        [(1, "2026-02-03 04:05:06", "visits"), (2, None, "visits")],
    ),
    "keys that are no names": Example(
        "town VARCHAR, years NUMBER, wed BOOLEAN, has_dog BOOLEAN, odd BOOLEAN, crafts VARIANT, kin VARIANT",
        "$1:town, $1:years, $1:wed, $1['has dog'] AS has_dog, $1[' %~?! has Żółć'] AS odd, $1:crafts, $1:kin FROM {}",
        [PERSON],
        [("Bergen", 41, False, True, True, PERSON["crafts"], PERSON["kin"])],
    ),
    "nested paths": Example(
        "son VARCHAR, eldest VARCHAR, first_craft VARCHAR",
        "$1:kin.son::STRING, $1:kin['eldest child']::STRING, $1:crafts[0]::STRING FROM {}",
        [PERSON, {"kin": None}],
        [("Olav", "Åse", "sewing"), (None, None, None)],
    ),
    "the whole content, hoisted into a field": Example(
        "everything VARIANT", "$1:everything FROM {}", [{"everything": VISIT}], [(VISIT,)]
    ),
    "the whole content, without schematization": Example(
        "meta VARIANT, content VARIANT",
        "$1:RECORD_METADATA, $1:RECORD_CONTENT FROM {}",
        [[1, 2]],
        [({"topic": "visits", "partition": 2, "offset": 0, "SnowflakeConnectorPushTime": 1_760_000_099_999}, [1, 2])],
        fields=False,
    ),
    "a filter, an alias, and columns by name": Example(
        "bill NUMBER, note VARCHAR DEFAULT 'none', guest VARCHAR NOT NULL",
        "v.$1:guest, TRY_CAST(v.$1:bill::STRING AS NUMBER) FROM {} AS v "
        "WHERE v.$1:guest IS NOT NULL AND v.$1:visit_no > 1",
        [VISIT, VISIT | {"guest": "Per", "bill": "a lot"}, {"visit_no": 3}, VISIT | {"visit_no": 1}],
        [(13, "none", "Ida"), (None, "none", "Per")],
        targets="(guest, bill)",
    ),
    "braces and brackets in texts": Example(
        "guest VARCHAR", "CONCAT('{', $1:guest::STRING, '}) --') FROM {}", [VISIT], [("{Ida}) --",)]
    ),
}


@pytest.fixture(scope="module")
def connection(settings: Settings) -> Iterator[SnowflakeConnection]:
    with connect(login_of(settings)) as connection:
        yield connection


@pytest.fixture
def namespace(settings: Settings) -> Namespace:
    return Namespace(settings.snowflake_database, settings.snowflake_schema)


Land = Callable[[PipeInputTable, list[Any]], None]


@pytest.fixture
def land(connection: SnowflakeConnection) -> Land:
    """Puts records where a COPY of staged files would put them."""

    def into(waiting: PipeInputTable, records: list[Any], *, fields: bool = True) -> None:
        beside = {"topic": "visits", "partition": 2, "SnowflakeConnectorPushTime": 1_760_000_099_999}
        metadata = [json.dumps(beside | {"offset": offset}) for offset in range(len(records))]
        content = pa.array([json.dumps(record, ensure_ascii=False) for record in records], pa.string())
        texts, refused = pipe_records(content, pa.array(metadata, pa.string()), fields=fields)
        assert refused == ()
        for text in texts.to_pylist():
            execute(connection, f"INSERT INTO {waiting.name} SELECT PARSE_JSON(?)", [text])

    return into


def loader_of(example: Example, namespace: Namespace, table: str) -> PipeLoader:
    source = "TABLE(DATA_SOURCE(TYPE => 'STREAMING'))"
    select = example.select.replace("FROM {}", f"FROM {source}")
    found = read_definition(f"COPY INTO {table} {example.targets} FROM (SELECT {select})")
    assert found is not None
    assert found.select is not None
    return PipeLoader(example.fields, namespace.full_name(table), found.targets, found.select)


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        return value if value is None or isinstance(value, bool | int | float | list | dict | str) else str(value)

    return sorted((tuple(plain(value) for value in row.values()) for row in rows), key=str)


@pytest.mark.stack
@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_examples(
    example: Example, settings: Settings, connection: SnowflakeConnection, namespace: Namespace, land: Any
) -> None:
    table = f"VISITS_{uuid4().hex[:8]}".upper()
    execute(connection, f"CREATE TABLE {namespace.qualified(table)} ({example.columns})")
    waiting = PipeInputTable(namespace, "s", table)
    waiting.prepare(connection)
    with transaction(connection):  # which would say so if it was committed in between
        land(waiting, example.records, fields=example.fields)
        assert waiting.fill_target(connection, loader_of(example, namespace, table)) == len(example.rows)
    assert shown(sql(settings, f"SELECT * FROM {table}")) == sorted(example.rows, key=str)
    assert query(connection, f"SELECT * FROM {waiting.name}") == []


@pytest.mark.stack
def test_what_cannot_be_cast_leaves_nothing_in_either_table(
    connection: SnowflakeConnection, namespace: Namespace, land: Any
) -> None:
    table = f"VISITS_{uuid4().hex[:8]}".upper()
    execute(connection, f"CREATE TABLE {namespace.qualified(table)} (bill NUMBER)")
    waiting = PipeInputTable(namespace, "s", table)
    waiting.prepare(connection)
    load = loader_of(Example("", "$1:bill::NUMBER FROM {}", [], []), namespace, table)

    def batch() -> None:
        with transaction(connection):
            land(waiting, [VISIT, VISIT | {"bill": "a lot"}])
            waiting.fill_target(connection, load)

    with pytest.raises(TerminalError, match="a lot") as raised:
        batch()
    assert raised.value.where == f"pipe {namespace.qualified(table)}"
    for name in (namespace.qualified(table), waiting.name):
        assert query(connection, f"SELECT * FROM {name}") == []


@pytest.mark.stack
def test_each_batch_begins_with_an_empty_pipe_input_table(
    settings: Settings, connection: SnowflakeConnection, namespace: Namespace, land: Any
) -> None:
    table = f"VISITS_{uuid4().hex[:8]}".upper()
    execute(connection, f"CREATE TABLE {namespace.qualified(table)} (no NUMBER)")
    waiting = PipeInputTable(namespace, "s", table)
    waiting.prepare(connection)
    example = Example("", "i.value FROM {} s, LATERAL FLATTEN(input => s.$1:items) i", [], [])
    load = loader_of(example, namespace, table)
    for items in ([1, 2], [], [3]):
        with transaction(connection):
            land(waiting, [{"items": items}])
            assert waiting.fill_target(connection, load) == len(items)
    assert shown(sql(settings, f"SELECT * FROM {table}")) == [(1,), (2,), (3,)]
