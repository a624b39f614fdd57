"""A query compared with what it returned before: inserts, updates and deletes by its key."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import pytest

from firn.connector.export.config import SnapshotConfig, SourceConfig, SourceKind
from firn.errors import TerminalError, TransientError
from firn.exports.asking import has_data
from firn.exports.moves import compared
from firn.exports.moves import move as moves
from firn.exports.outbox import waiting
from firn.snowflake.connection import execute, query

SQL = "SELECT P.ID, P.NAME, SUM(O.AMOUNT) AS TOTAL FROM P JOIN O ON O.P = P.ID GROUP BY P.ID, P.NAME"
TOTALS = SourceConfig("totals", SourceKind.COMPARED, ("P", "O"), sql=SQL, key_columns=("ID",))


@pytest.fixture
def people(connection, schema):
    execute(connection, "CREATE OR REPLACE TABLE P (ID NUMBER(5, 0), NAME VARCHAR(10))")
    execute(connection, "CREATE OR REPLACE TABLE O (P NUMBER(5, 0), AMOUNT NUMBER(10, 2))")
    execute(connection, "INSERT INTO P VALUES (1, 'Ann'), (2, 'Bo')")
    execute(connection, "INSERT INTO O VALUES (1, 10), (1, 5), (2, 7)")


def changes(export) -> list[tuple[str, bool, int, str | None]]:
    return sorted((a, u, payload["ID"], payload.get("TOTAL")) for a, u, payload in export.changes())


def test_what_is_new_what_changed_and_what_is_gone(connection, people, new_export) -> None:
    export = new_export(TOTALS)
    assert changes(export) == [("INSERT", False, 1, "15.00"), ("INSERT", False, 2, "7.00")]
    assert changes(export) == []
    execute(connection, "INSERT INTO O VALUES (1, 1)")
    execute(connection, "DELETE FROM P WHERE ID = 2")
    assert changes(export) == [("DELETE", False, 2, None), ("INSERT", True, 1, "16.00")]
    assert changes(export) == []
    execute(connection, "INSERT INTO P VALUES (2, 'Bo')")
    assert changes(export) == [("INSERT", False, 2, "7.00")]


def test_a_key_with_two_rows_is_refused_and_nothing_is_moved(connection, people, new_export) -> None:
    export = new_export(TOTALS)
    changes(export)
    execute(connection, "INSERT INTO P VALUES (2, 'Bob')")
    with pytest.raises(TerminalError, match=r'not unique: \{"ID":2\}'):
        export.move()
    assert not waiting(connection, export.source).shards
    execute(connection, "DELETE FROM P WHERE NAME = 'Bob'")
    assert changes(export) == []


def test_a_plain_table_is_compared_by_its_key_and_begins_with_changes_where_that_is_wanted(
    connection, people, new_export
) -> None:
    table = SourceConfig("p", SourceKind.COMPARED, ("P",), key_columns=("ID",))
    export = new_export(table, snapshot=SnapshotConfig("changes only"))
    assert export.changes() == []
    execute(connection, "UPDATE P SET NAME = 'Anna' WHERE ID = 1")
    assert export.changes() == [("INSERT", True, {"ID": 1, "NAME": "Anna"})]


def test_the_query_runs_only_when_one_of_its_tables_changed(connection, people, new_export) -> None:
    export = new_export(TOTALS)
    standing = has_data(connection, export.source)
    assert standing.has_data
    export.move()
    assert not has_data(connection, export.source, standing.seen).has_data
    execute(connection, "INSERT INTO O VALUES (1, 1)")
    assert has_data(connection, export.source, standing.seen).has_data


@pytest.mark.parametrize("cut", ["INSERT INTO", "AS TWICE", "AS MOVED"])
def test_a_move_rolled_back_remembers_nothing(connection, people, new_export, cut: str) -> None:
    """Wherever the move ends, hashes, outbox and ledger stay as they were, and the next one finds the same."""
    export = new_export(TOTALS)
    before = changes(export)
    execute(connection, "UPDATE P SET NAME = 'Anna' WHERE ID = 1")
    state, hashes = export.ledger.standing(connection).sources["totals"], remembered(connection, export)

    def breaks(real, session, sql, *more):
        done = real(session, sql, *more)
        if cut in sql:
            raise TransientError("The line is cut.")
        return done

    with ExitStack() as patched:
        for module in (moves, compared):
            for name in ("query", "execute"):
                patched.enter_context(patch.object(module, name, partial(breaks, getattr(module, name))))
        with pytest.raises(TransientError, match="cut"):
            export.move()
    assert not waiting(connection, export.source).shards
    assert export.ledger.standing(connection).sources["totals"] == state
    assert remembered(connection, export) == hashes
    assert len(hashes) == len(before) == 2
    assert [payload["NAME"] for _, _, payload in export.changes()] == ["Anna"]
    assert remembered(connection, export) != hashes


def remembered(connection, export) -> list[tuple[str, str]]:
    """Keys and hashes of the last move."""
    rows = query(connection, f"SELECT KEY_TEXT, HASH FROM {export.source.state} ORDER BY KEY_TEXT")
    return [(row["KEY_TEXT"], row["HASH"]) for row in rows]
