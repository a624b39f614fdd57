"""Rows found by columns that grow: each is moved once, whatever stands at the maximum."""

from __future__ import annotations

import pytest

from firn.connector.export.config import SnapshotConfig, SourceConfig, SourceKind
from firn.exports.asking import has_data
from firn.snowflake.connection import execute

EVENTS = SourceConfig("events", SourceKind.CURSOR, ("EVENTS",), cursor_columns=("AT_TIME", "ID"))


@pytest.fixture
def events(connection, schema):
    execute(connection, "CREATE OR REPLACE TABLE EVENTS (ID NUMBER(38, 0), AT_TIME TIMESTAMP_NTZ(9), WORD VARCHAR)")


def insert(connection, *rows: str) -> None:
    execute(connection, f"INSERT INTO EVENTS VALUES {', '.join(f'({row})' for row in rows)}")


def words(export) -> list[str]:
    return [payload["WORD"] for _, _, payload in export.changes()]


def test_rows_come_in_the_order_of_the_columns_and_none_comes_twice(connection, events, new_export) -> None:
    export = new_export(EVENTS, snapshot=SnapshotConfig(shards=1))
    insert(connection, "2, '2024-01-02 00:00:00.000002', 'c'", "1, '2024-01-02 00:00:00.000001', 'a'")
    insert(connection, "10, '2024-01-02 00:00:00.000001', 'b'", "NULL, '2030-01-01', 'never'")
    assert words(export) == ["a", "b", "c"]
    assert words(export) == []
    state = export.ledger.standing(connection).sources["events"]
    assert state.cursor == ("2024-01-02T00:00:00.000002000", "2")
    insert(connection, "1, '2024-01-02 00:00:00.000002', 'below'", "3, '2024-01-02 00:00:00.000002', 'd'")
    assert words(export) == ["d"]


def test_rows_that_come_later_with_just_the_maximum_are_found_and_counted_by_their_copies(
    connection, events, new_export
) -> None:
    export = new_export(EVENTS)
    same = "1, '2024-01-02 00:00:00.5'"
    insert(connection, f"{same}, 'a'", f"{same}, 'a'")
    assert words(export) == ["a", "a"]
    insert(connection, f"{same}, 'b'", f"{same}, 'a'")
    assert sorted(words(export)) == ["a", "b"]
    assert words(export) == []
    insert(connection, "2, '2024-01-02 00:00:00.5', 'c'")
    assert words(export) == ["c"]
    insert(connection, f"{same}, 'too late'")
    assert words(export) == []


def test_a_number_of_38_digits_is_a_position_that_loses_none(connection, events, new_export) -> None:
    export = new_export(SourceConfig("events", SourceKind.CURSOR, ("EVENTS",), cursor_columns=("ID",)))
    large = 12345678901234567890123456789012345678
    insert(connection, f"{large}, NULL, 'a'")
    assert words(export) == ["a"]
    insert(connection, f"{large - 1}, NULL, 'below'", f"{large + 1}, NULL, 'b'")
    assert words(export) == ["b"]


def test_a_column_added_does_not_bring_back_what_stands_at_the_maximum(connection, events, new_export) -> None:
    export = new_export(EVENTS)
    insert(connection, "1, '2024-01-02', 'a'")
    assert words(export) == ["a"]
    execute(connection, "ALTER TABLE EVENTS ADD COLUMN NOTE VARCHAR")
    export.look()
    assert words(export) == []
    execute(connection, "INSERT INTO EVENTS VALUES (2, '2024-01-02', 'b', 'noted')")
    assert [payload for _, _, payload in export.changes()] == [
        {"ID": "2", "AT_TIME": "2024-01-02T00:00:00.000000000", "WORD": "b", "NOTE": "noted"}
    ]


def test_changes_only_begins_behind_the_rows_that_are_there(connection, events, new_export) -> None:
    export = new_export(EVENTS, snapshot=SnapshotConfig("changes only"))
    insert(connection, "1, '2024-01-02', 'there'")
    assert words(export) == []
    insert(connection, "2, '2024-01-02', 'new'")
    assert words(export) == ["new"]


def test_an_unchanged_table_is_asked_without_a_warehouse(connection, events, new_export, local) -> None:
    export = new_export(EVENTS)
    insert(connection, "1, '2024-01-02', 'a'")
    standing = has_data(connection, export.source)
    assert standing.has_data
    words(export)
    local.snowflake.account.clock.advance(3600)
    before = local.snowflake.meter.usage()
    assert not has_data(connection, export.source, standing.seen).has_data
    used = local.used(before)
    assert (used.resumes, used.seconds) == (0, 0)
    insert(connection, "2, '2024-01-02', 'b'")
    assert has_data(connection, export.source, standing.seen).has_data
