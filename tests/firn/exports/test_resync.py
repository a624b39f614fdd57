"""A source that is published again: all its rows come once more, and no change beside them is missed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from firn.connector.export.config import SnapshotConfig, SourceConfig, SourceKind
from firn.exports.moves import move as moves
from firn.exports.outbox import waiting
from firn.exports.resync import is_stale, resync
from firn.snowflake.connection import connect, execute
from tests.firn.exports.conftest import Export

STREAM = SourceConfig("r", SourceKind.STREAM, ("WORDS_CHANGES",), key_columns=("ID",))
TABLE = SourceConfig("r", SourceKind.TABLES, ("WORDS",), key_columns=("ID",))
CURSOR = SourceConfig("r", SourceKind.CURSOR, ("WORDS",), key_columns=("ID",), cursor_columns=("ID",))
COMPARED = SourceConfig("r", SourceKind.COMPARED, ("WORDS",), key_columns=("ID",))
SQL = "SELECT ID, WORD, METADATA$ACTION, METADATA$ISUPDATE, METADATA$ROW_ID FROM WORDS_CHANGES"
QUERY = SourceConfig("r", SourceKind.QUERY, ("WORDS_CHANGES",), sql=SQL, key_columns=("ID",))


@pytest.fixture
def words(connection, schema):
    execute(connection, "CREATE OR REPLACE TABLE WORDS (ID NUMBER(5, 0), WORD VARCHAR)")
    execute(connection, "CREATE OR REPLACE STREAM WORDS_CHANGES ON TABLE WORDS")
    execute(connection, "INSERT INTO WORDS VALUES (1, 'first')")


def again(export: Export) -> None:
    """Re-sync the source, as the command does: with a claim of its own, before a run claims."""
    export.start()
    resync(export.connection, export.ledger, export.claimed, export.source, export.config)
    export.start()


def ids(export: Export) -> list[tuple[str, int]]:
    return sorted((action, payload["ID"]) for action, _, payload in export.changes())


@pytest.mark.parametrize("initial", ["rows", "changes only"])
@pytest.mark.parametrize("source", [STREAM, TABLE, CURSOR, COMPARED, QUERY], ids=lambda each: each.kind.value)
def test_all_rows_come_once_more_then_changes_go_on(
    connection, words, new_export: Callable[..., Export], source: SourceConfig, initial: Any
) -> None:
    export = new_export(source, snapshot=SnapshotConfig(initial, 2))
    export.changes()
    execute(connection, "INSERT INTO WORDS VALUES (2, 'second')")
    export.changes()
    again(export)
    assert ids(export) == [("INSERT", 1), ("INSERT", 2)]
    execute(connection, "INSERT INTO WORDS VALUES (3, 'third')")
    assert ids(export) == [("INSERT", 3)]


def test_what_is_deleted_while_the_rows_are_taken_is_told_of(connection, words, new_export, local) -> None:
    """Between the statement that consumes the stream and the one that takes the rows, others go on writing."""
    export = new_export(STREAM)
    execute(connection, "INSERT INTO WORDS VALUES (2, 'second')")
    export.changes()
    again(export)
    execute(connection, "UPDATE WORDS SET WORD = 'changed' WHERE ID = 1")

    def others_write(session, sql, *more):
        done = execute(session, sql, *more)
        if "INSERT INTO" in sql and "WORDS_CHANGES" in sql:
            with connect(local.login) as second:
                execute(second, f"DELETE FROM {export.namespace.qualified('WORDS')} WHERE ID = 2")
                execute(second, f"INSERT INTO {export.namespace.qualified('WORDS')} VALUES (3, 'third')")
        return done

    with patch.object(moves, "execute", others_write):
        export.move()
    rows = export.rows()
    assert [(row["SHARD"] > 0, row["ISUPDATE"], row["KEY"]["ID"]) for row in rows if not row["SHARD"]] == [
        (False, True, 1)
    ]
    assert sorted(row["KEY"]["ID"] for row in rows if row["SHARD"]) == [1, 3]
    export.settle()
    assert ids(export) == [("DELETE", 2), ("INSERT", 3)]


def test_changes_that_wait_are_published_before_the_rows(connection, words, new_export) -> None:
    export = new_export(STREAM, snapshot=SnapshotConfig(shards=2))
    export.changes()
    execute(connection, "UPDATE WORDS SET WORD = 'waits'")
    again(export)
    export.move()
    (first,) = waiting(connection, export.source).next
    assert first.shard == 0
    assert {each.shard for each in waiting(connection, export.source).shards} > {0}
    assert all(each.first > first.last for each in waiting(connection, export.source).shards if each.shard)


def test_a_stale_stream_is_made_again_with_the_rows_of_now(connection, words, new_export, local) -> None:
    export = new_export(STREAM)
    export.changes()
    execute(connection, "INSERT INTO WORDS VALUES (2, 'lost')")
    local.snowflake.account.clock.advance(40 * 86400)
    assert is_stale(connection, export.source)
    again(export)
    assert not is_stale(connection, export.source)
    assert ids(export) == [("INSERT", 1), ("INSERT", 2)]
    execute(connection, "DELETE FROM WORDS WHERE ID = 1")
    assert ids(export) == [("DELETE", 1)]
