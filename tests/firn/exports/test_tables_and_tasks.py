"""Tables by pattern with streams of their own, and a task that fills the outbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.connector.export.config import SnapshotConfig, SnowflakeTaskConfig, SourceConfig, SourceKind
from firn.exports.asking import has_data, outbox_has_data
from firn.exports.made_objects import find_made, remove_made
from firn.exports.streams import find_stream
from firn.exports.tasks import ensure_task, task_name
from firn.snowflake.connection import execute, query
from firn.snowflake.identifiers import written
from tests.firn.exports.conftest import Export

ONE = SnapshotConfig(shards=1)


@pytest.fixture
def tables(connection, schema):
    for name in ("FOLLOWED_A", "FOLLOWED_B", "OTHER"):
        execute(connection, f"CREATE OR REPLACE TABLE {name} (ID NUMBER(5, 0), WORD VARCHAR)")
        execute(connection, f"INSERT INTO {name} VALUES (1, 'first')")


def test_each_table_that_a_pattern_matches_gets_a_stream_that_begins_with_its_rows(
    connection, tables, new_export
) -> None:
    followed = SourceConfig(
        "all", SourceKind.TABLES, patterns=(r".*\.followed_.*",), topic="{table}", key_columns=("ID",)
    )
    export = new_export(followed, snapshot=ONE)
    assert [source.topic for source in export.sources] == ["FOLLOWED_A", "FOLLOWED_B"]
    first = export.sources[0]
    assert find_stream(connection, first.stream) is not None
    assert export.changes(first) == [("INSERT", False, {"ID": 1, "WORD": "first"})]
    execute(connection, "UPDATE FOLLOWED_A SET WORD = 'second'")
    assert export.changes(first) == [("INSERT", True, {"ID": 1, "WORD": "second"})]
    made = find_made(connection, export.namespace, export.config.name, [first.name])
    assert sorted(each.kind for each in made) == ["STREAM", "TABLE"]
    remove_made(connection, made)
    assert find_stream(connection, first.stream) is None
    assert not find_made(connection, export.namespace, export.config.name, [first.name])


def test_a_table_name_that_is_a_stream_s_is_that_stream_and_stays(connection, tables, new_export) -> None:
    execute(connection, "CREATE OR REPLACE STREAM MY_TABLE_STREAM ON TABLE OTHER")
    export = new_export(SourceConfig("s", SourceKind.TABLES, ("MY_TABLE_STREAM",)))
    execute(connection, "INSERT INTO OTHER VALUES (2, 'new')")
    assert export.changes() == [("INSERT", False, {"ID": 2, "WORD": "new"})]
    made = find_made(connection, export.namespace, export.config.name, [export.source.name])
    assert [each.kind for each in made] == ["TABLE"]
    remove_made(connection, made)
    assert find_stream(connection, export.source.stream) is not None


def test_sql_over_a_stream_filters_and_computes_what_is_published(connection, tables, new_export) -> None:
    execute(connection, "CREATE OR REPLACE STREAM OTHER_CHANGES ON TABLE OTHER")
    sql = "SELECT ID, UPPER(WORD) AS LOUD FROM OTHER_CHANGES WHERE METADATA$ACTION = 'INSERT' AND ID > 1"
    export = new_export(SourceConfig("q", SourceKind.QUERY, ("OTHER_CHANGES",), sql=sql, key_columns=("ID",)))
    execute(connection, "INSERT INTO OTHER VALUES (0, 'left out'), (2, 'new')")
    assert export.changes() == [("INSERT", False, {"ID": 2, "LOUD": "NEW"})]
    assert not has_data(connection, export.source).has_data


def test_a_task_moves_changes_while_no_exporter_runs(connection, tables, new_export) -> None:
    execute(connection, "CREATE OR REPLACE STREAM OTHER_CHANGES ON TABLE OTHER")
    config = SourceConfig("t", SourceKind.STREAM, ("OTHER_CHANGES",), key_columns=("ID",))
    export = new_export(config, task=SnowflakeTaskConfig("60 MINUTE", "WH"))
    state = export.move().state
    assert ensure_task(connection, export.ledger, export.config, export.source, state)
    assert not ensure_task(connection, export.ledger, export.config, export.source, state)

    seen = outbox_has_data(connection, export.source).seen
    execute(connection, "INSERT INTO OTHER VALUES (2, 'new')")
    name = written(task_name(export.ledger, export.source))
    execute(connection, f"EXECUTE TASK {name}")
    while query(connection, "SELECT SYSTEM$STREAM_HAS_DATA('OTHER_CHANGES') AS A")[0]["A"]:
        pass  # the task runs in the server's own thread
    assert outbox_has_data(connection, export.source, seen).has_data
    (row,) = export.rows()
    assert (row["PAYLOAD"]["WORD"], row["COLUMNS_VERSION"], row["BATCH"] > state.last_batch) == ("new", 1, True)
    assert export.ledger.standing(connection).sources["t"].last_batch == row["BATCH"]
    export.look()
    assert tasks_of(export) == ["TASK"]
    export.config = replace(export.config, task=None)
    export.look()
    assert tasks_of(export) == [], "the configuration no longer asks for the task, and nobody would replace it"


def tasks_of(export: Export) -> list[str]:
    made = find_made(export.connection, export.namespace, export.config.name, [export.source.name])
    return [each.kind for each in made if each.kind == "TASK"]
