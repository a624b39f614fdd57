"""A stream's changes on their way into the outbox and out of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from unittest.mock import patch

import pytest

from firn.connector.export.config import (
    BatchConfig,
    Envelope,
    QualityCheck,
    SnapshotConfig,
    SourceConfig,
    SourceKind,
)
from firn.errors import ClaimAgainError, FencedError, TransientError
from firn.exports.asking import has_data
from firn.exports.checks import QualityError, read_checks
from firn.exports.history import read_history
from firn.exports.moves import move as moves
from firn.exports.outbox import settle, waiting
from firn.exports.published import PublishedBatch
from firn.snowflake.connection import connect, execute, query
from tests.firn.exports.conftest import Export

ORDERS = SourceConfig("orders", SourceKind.STREAM, ("ORDERS_CHANGES",), key_columns=("ID",), order_columns=("CHANGED",))
ONE = SnapshotConfig(shards=1)


@pytest.fixture
def orders(connection, schema):
    execute(
        connection,
        "CREATE OR REPLACE TABLE ORDERS (ID NUMBER(10, 0) NOT NULL, STATUS VARCHAR, CHANGED TIMESTAMP_NTZ(9))",
    )
    execute(connection, "CREATE OR REPLACE STREAM ORDERS_CHANGES ON TABLE ORDERS")


def insert(connection, *rows: tuple[int, str]) -> None:
    values = ", ".join(f"({number}, '{status}', '2024-01-02 03:04:05.123456')" for number, status in rows)
    execute(connection, f"INSERT INTO ORDERS VALUES {values}")


def begun(export: Export) -> Export:
    """An export that has had its first rows: from here on there are changes only, in shard 0."""
    export.move()
    export.settle()
    return export


def test_inserts_travel_from_the_stream_through_the_outbox_into_the_history(connection, orders, new_export) -> None:
    export = new_export(ORDERS, snapshot=ONE)
    assert not has_data(connection, export.source).has_data
    insert(connection, (1, "new"), (2, "new"))
    assert has_data(connection, export.source).has_data

    moved = export.move()
    assert (moved.rows, moved.shards, moved.state.snapshot, moved.new_columns) == (2, 1, False, True)
    assert not has_data(connection, export.source).has_data
    rows = export.settle()
    assert [(row["ACTION"], row["ISUPDATE"], row["KEY"]) for row in rows] == [
        ("INSERT", False, {"ID": 1}),
        ("INSERT", False, {"ID": 2}),
    ]
    assert rows[0]["PAYLOAD"] == {"ID": 1, "STATUS": "new", "CHANGED": "2024-01-02T03:04:05.123456000"}
    assert not waiting(connection, export.source).shards
    (kept,) = read_history(connection, export.namespace, export.config.name)
    assert (kept["SOURCE"], kept["BATCH"], kept["ROW_COUNT"]) == ("orders", moved.first_batch, 2)


def test_an_update_is_one_row_that_carries_the_old_one_and_a_delete_has_the_row_that_went(
    connection, orders, new_export
) -> None:
    export = begun(new_export(ORDERS))
    insert(connection, (1, "new"), (2, "new"))
    export.changes()
    execute(connection, "UPDATE ORDERS SET STATUS = 'sent' WHERE ID = 1")
    execute(connection, "DELETE FROM ORDERS WHERE ID = 2")
    export.move()
    update, delete = export.settle()
    assert (update["ACTION"], update["ISUPDATE"], update["PAYLOAD"]["STATUS"]) == ("INSERT", True, "sent")
    assert update["BEFORE"]["STATUS"] == "new"
    assert (delete["ACTION"], delete["ISUPDATE"], delete["BEFORE"]) == ("DELETE", False, None)
    assert delete["PAYLOAD"]["ID"] == 2


def test_an_update_of_the_key_is_a_delete_of_the_old_key_and_an_insert_of_the_new_one(
    connection, orders, new_export
) -> None:
    export = begun(new_export(ORDERS))
    insert(connection, (1, "new"))
    export.changes()
    execute(connection, "UPDATE ORDERS SET ID = 7 WHERE ID = 1")
    export.move()
    rows = export.settle()
    assert [(row["ACTION"], row["ISUPDATE"], row["KEY"]["ID"]) for row in rows] == [
        ("DELETE", True, 1),
        ("INSERT", True, 7),
    ]
    assert rows[1]["BEFORE"]["ID"] == 1


def test_the_change_envelope_gets_each_row_of_the_stream_as_it_is(connection, orders, new_export) -> None:
    export = begun(new_export(ORDERS, envelope=Envelope.CHANGE))
    insert(connection, (1, "new"))
    export.changes()
    execute(connection, "UPDATE ORDERS SET STATUS = 'sent'")
    assert [(action, is_update) for action, is_update, _ in export.changes()] == [("DELETE", True), ("INSERT", True)]


def test_a_delete_comes_before_the_insert_of_its_key_then_rows_by_their_order_column(
    connection, orders, new_export
) -> None:
    export = begun(new_export(ORDERS))
    insert(connection, (2, "old"), (1, "old"))
    export.changes()
    execute(connection, "DELETE FROM ORDERS")
    for second in (30, 10, 20):
        execute(connection, f"INSERT INTO ORDERS VALUES (1, 'at {second}', '2024-01-02 00:00:{second}')")
    execute(connection, "INSERT INTO ORDERS VALUES (2, 'back', '2024-01-02')")
    export.move()
    assert [(row["KEY"]["ID"], row["ACTION"], row["PAYLOAD"]["STATUS"]) for row in export.settle()] == [
        (1, "DELETE", "old"),
        (1, "INSERT", "at 10"),
        (1, "INSERT", "at 20"),
        (1, "INSERT", "at 30"),
        (2, "DELETE", "old"),
        (2, "INSERT", "back"),
    ]


def test_of_two_exporters_the_newer_one_wins_and_the_older_one_takes_nothing(connection, orders, new_export) -> None:
    older, newer = new_export(ORDERS, snapshot=ONE), new_export(ORDERS, snapshot=ONE)
    assert (newer.claimed.id, newer.claimed.epoch) == (older.claimed.id, older.claimed.epoch + 1)
    insert(connection, (1, "new"))
    with pytest.raises(FencedError, match="belongs to a newer run"):
        older.move()
    assert has_data(connection, older.source).has_data
    assert newer.move().rows == 1
    (row,) = newer.rows()
    with pytest.raises(FencedError):
        settle(connection, older.ledger, older.claimed, older.source, 1, [PublishedBatch(row["BATCH"], 1, 1)])
    older.ledger.check_epoch(connection, newer.claimed.epoch)
    with pytest.raises(FencedError):
        older.ledger.check_epoch(connection, older.claimed.epoch)
    assert len(newer.settle()) == 1


def test_a_claim_in_the_middle_of_a_move_waits_for_its_end(connection, orders, new_export, local) -> None:
    """Who moves holds the row that a claim raises: the change is moved once, by whoever began."""
    older = new_export(ORDERS, snapshot=ONE)
    insert(connection, (1, "new"))
    with connect(local.login) as second:
        execute(second, "ALTER SESSION SET LOCK_TIMEOUT = 0")
        newer = Export(second, older.namespace, older.config)

        def claims_before_it_advances(*arguments):
            with pytest.raises(ClaimAgainError):
                newer.start()
            return advance(*arguments)

        advance = older.ledger.advance
        with patch.object(older.ledger, "advance", claims_before_it_advances):
            assert older.move().rows == 1
        assert newer.start().move().rows == 0
        assert [row["KEY"]["ID"] for row in newer.rows()] == [1]


@pytest.mark.parametrize("where", ["query", "execute"])
def test_a_move_that_fails_halfway_leaves_stream_and_outbox_as_they_were(
    connection, orders, new_export, where: str
) -> None:
    export = new_export(ORDERS, snapshot=ONE)
    insert(connection, (1, "new"))
    real = {"query": query, "execute": execute}[where]

    def breaks(session, sql, *more):
        done = real(session, sql, *more)
        if "INSERT INTO" in sql or "AS MOVED" in sql:
            raise TransientError("The line is cut.")
        return done

    with patch.object(moves, where, breaks), pytest.raises(TransientError, match="cut"):
        export.move()
    assert has_data(connection, export.source).has_data
    assert not waiting(connection, export.source).shards
    assert export.ledger.standing(connection).sources["orders"].last_batch == 0
    assert export.move().rows == 1


def test_a_move_without_rows_still_advances_the_stream(connection, orders, new_export) -> None:
    export = begun(new_export(ORDERS))
    insert(connection, (1, "new"))
    execute(connection, "DELETE FROM ORDERS")
    assert has_data(connection, export.source).has_data
    moved = export.move()
    assert (moved.rows, moved.first_batch) == (0, moved.last_batch)
    assert not has_data(connection, export.source).has_data


def test_batches_are_bounded_by_rows_and_by_bytes_and_their_numbers_never_fall(connection, orders, new_export) -> None:
    export = new_export(ORDERS, snapshot=ONE, batch=BatchConfig(rows=3, bytes=400))
    insert(connection, *((number, "x" * (300 if number in (4, 5) else 1)) for number in range(10)))
    first = export.move()
    insert(connection, (10, "y"))
    second = export.move()
    assert second.first_batch > first.last_batch
    rows = export.rows()
    numbers = [row["BATCH"] for row in rows if row["SHARD"] == 1]
    assert numbers == sorted(numbers)
    assert [row["KEY"]["ID"] for row in rows if row["SHARD"] == 1] == list(range(10))
    for batch in set(numbers):
        inside = [len(str(row["PAYLOAD"]["STATUS"])) for row in rows if row["BATCH"] == batch]
        assert len(inside) <= 3
        assert sum(inside[:-1]) <= 400
    assert (first.first_batch, first.last_batch) == (numbers[0], numbers[-1])


def test_first_rows_are_shared_out_by_key_and_changes_follow_behind_them(connection, orders, new_export) -> None:
    export = new_export(ORDERS, snapshot=SnapshotConfig(shards=3))
    insert(connection, *((number, "new") for number in range(30)))
    assert export.move().shards == 3
    insert(connection, (30, "later"))
    assert export.move().shards == 0
    now = waiting(connection, export.source)
    assert [each.shard for each in now.shards] == [0, 1, 2, 3]
    assert [each.shard for each in now.next] == [1, 2, 3]
    assert all(each.last < now.shards[0].first for each in now.next)
    rows = export.settle()
    assert sorted(row["KEY"]["ID"] for row in rows if row["SHARD"]) == list(range(30))
    assert [row["KEY"]["ID"] for row in rows if not row["SHARD"]] == [30]


def test_a_settled_batch_is_settled_once_whatever_is_repeated(connection, orders, new_export) -> None:
    export = new_export(ORDERS, snapshot=ONE)
    insert(connection, (1, "new"))
    moved = export.move()
    offsets = {"order-status": {0: (4, 5)}}
    done = PublishedBatch(moved.first_batch, 1, 1, bytes=9, offsets=offsets)
    for _ in range(2):
        settle(connection, export.ledger, export.claimed, export.source, 1, [done])
    (kept,) = read_history(connection, export.namespace, export.config.name)
    assert (kept["BYTES"], kept["OFFSETS"]) == (9, {"order-status": {"0": [4, 5]}})


def test_a_new_column_is_moved_under_a_new_version_while_older_rows_wait(connection, orders, new_export) -> None:
    export = begun(new_export(ORDERS))
    insert(connection, (1, "old"))
    export.move()
    execute(connection, "ALTER TABLE ORDERS ADD COLUMN NOTE VARCHAR(5)")
    execute(connection, "INSERT INTO ORDERS VALUES (2, 'new', NULL, 'hello')")
    (source,) = export.look()
    moved = export.move(source)
    assert moved.new_columns
    old, new = export.rows()
    assert ("NOTE" in old["PAYLOAD"], new["PAYLOAD"]["NOTE"]) == (False, "hello")
    versions = export.ledger.standing(connection).sources["orders"].columns
    assert [column.name for column in versions[old["COLUMNS_VERSION"]]] == ["ID", "STATUS", "CHANGED"]
    assert versions[new["COLUMNS_VERSION"]][-1].type == "VARCHAR(5)"
    assert not export.move(source).new_columns


def test_columns_are_left_out_but_never_those_of_the_key(connection, orders, new_export) -> None:
    export = new_export(replace(ORDERS, exclude=("ID", r".*\.ORDERS\.changed")), snapshot=ONE)
    insert(connection, (1, "new"))
    ((_, _, payload),) = export.changes()
    assert payload == {"ID": 1, "STATUS": "new"}


def test_a_check_that_stops_leaves_the_stream_as_it_is_and_is_written_down(connection, orders, new_export) -> None:
    known = QualityCheck("known", "STATUS IN ('new', 'sent')", "stop")
    warned = QualityCheck("short", "LENGTH(STATUS) < 4", "warn")
    export = new_export(replace(ORDERS, checks=(known, warned)), snapshot=ONE)
    insert(connection, (1, "new"), (2, "lost"))
    with pytest.raises(QualityError, match=r"known \(1 of 2\)"):
        export.move()
    assert has_data(connection, export.source).has_data
    assert not waiting(connection, export.source).shards
    results = read_checks(connection, export.namespace, export.config.name)
    assert [(row["CHECK_NAME"], row["ROW_COUNT"], row["FAILED"]) for row in results] == [
        ("known", 2, 1),
        ("short", 2, 1),
    ]

    execute(connection, "UPDATE ORDERS SET STATUS = 'sent' WHERE ID = 2")
    assert export.move().rows == 2
    assert [row["FAILED"] for row in export.rows()] == [[], ["short"]]


def test_a_check_that_cannot_be_told_is_not_met_and_deletes_are_not_checked(connection, orders, new_export) -> None:
    letters = QualityCheck("has status", "LENGTH(STATUS) > 0", "dead letter")
    export = begun(new_export(replace(ORDERS, checks=(letters,))))
    execute(connection, "INSERT INTO ORDERS (ID) VALUES (1)")
    export.move()
    assert [row["FAILED"] for row in export.settle()] == [["has status"]]
    execute(connection, "DELETE FROM ORDERS")
    export.move()
    assert [row["FAILED"] for row in export.settle()] == [[]]


def test_an_export_with_nothing_to_send_keeps_no_warehouse_awake(connection, orders, new_export, local) -> None:
    export = begun(new_export(ORDERS))
    local.snowflake.account.clock.advance(3600)
    before = local.snowflake.meter.usage()
    for _ in range(3):
        export.look()
        assert not has_data(connection, export.source).has_data
    used = local.used(before)
    assert (used.resumes, used.seconds) == (0, 0)


def test_every_type_arrives_exactly(connection, schema, new_export) -> None:
    execute(
        connection,
        "CREATE OR REPLACE TABLE EVERY (ID NUMBER(38, 0), P NUMBER(12, 2), N NUMBER(15, 0), F FLOAT, B BINARY, "
        "BO BOOLEAN, D DATE, TM TIME(9), TS TIMESTAMP_NTZ(9), TZ TIMESTAMP_TZ(9), V VARIANT, A ARRAY, O OBJECT, "
        "T VARCHAR)",
    )
    execute(connection, "CREATE OR REPLACE STREAM EVERY_CHANGES ON TABLE EVERY")
    export = new_export(SourceConfig("every", SourceKind.STREAM, ("EVERY_CHANGES",)))
    execute(
        connection,
        "INSERT INTO EVERY SELECT 12345678901234567890123456789012345678, 10.50, 999999999999999, 0.1, "
        "TO_BINARY('00ff', 'HEX'), TRUE, '2024-01-02', '03:04:05.000001', '2024-01-02 03:04:05.123456', "
        "'2024-01-02 03:04:05+02:00', PARSE_JSON('{\"a\": null}'), ARRAY_CONSTRUCT(1, 'x'), OBJECT_CONSTRUCT('k', 1), "
        "'a\"\\\\ é'",
    )
    execute(connection, "INSERT INTO EVERY (ID) VALUES (1)")
    export.move()
    full, empty = sorted((row["PAYLOAD"] for row in export.settle()), key=lambda row: row["T"] is None)
    assert full == {
        "ID": "12345678901234567890123456789012345678",
        "P": "10.50",
        "N": 999999999999999,
        "F": "0.1",
        "B": "00FF",
        "BO": True,
        "D": "2024-01-02",
        "TM": "03:04:05.000001000",
        "TS": "2024-01-02T03:04:05.123456000",
        "TZ": "2024-01-02T01:04:05.000000000+00:00",
        "V": {"a": None},
        "A": [1, "x"],
        "O": {"k": 1},
        "T": 'a"\\ é',
    }
    assert {name: value for name, value in empty.items() if value is not None} == {"ID": "1"}
    assert Decimal(full["P"]) == Decimal("10.50")
