"""A stream's changes on their way into the outbox and out of it."""

from __future__ import annotations

import pytest

from firn.connector.export.config import SnapshotConfig, SourceConfig, SourceKind
from firn.exports.asking import has_data
from firn.exports.history import read_history
from firn.exports.outbox import waiting
from firn.snowflake.connection import execute

ORDERS = SourceConfig("orders", SourceKind.STREAM, ("ORDERS_CHANGES",), key_columns=("ID",), order_columns=("CHANGED",))


@pytest.fixture
def orders(connection, schema):
    execute(connection, "CREATE TABLE ORDERS (ID NUMBER(10, 0) NOT NULL, STATUS VARCHAR(20), CHANGED TIMESTAMP_NTZ(9))")
    execute(connection, "CREATE STREAM ORDERS_CHANGES ON TABLE ORDERS")


def insert(connection, *rows: tuple[int, str]) -> None:
    values = ", ".join(f"({number}, '{status}', '2024-01-02 03:04:05.123456')" for number, status in rows)
    execute(connection, f"INSERT INTO ORDERS VALUES {values}")


def test_inserts_travel_from_the_stream_through_the_outbox_into_the_history(connection, orders, new_export) -> None:
    export = new_export(ORDERS, snapshot=SnapshotConfig(shards=1))
    assert not has_data(connection, export.source).has_data
    insert(connection, (1, "new"), (2, "new"))
    assert has_data(connection, export.source).has_data

    moved = export.move()
    assert (moved.rows, moved.shards, moved.state.snapshot) == (2, 1, False)
    assert not has_data(connection, export.source).has_data
    rows = export.settle()
    assert [(row["ACTION"], row["ISUPDATE"], row["KEY"]) for row in rows] == [
        ("INSERT", False, {"ID": 1}),
        ("INSERT", False, {"ID": 2}),
    ]
    assert rows[0]["PAYLOAD"] == {"ID": 1, "STATUS": "new", "CHANGED": "2024-01-02T03:04:05.123456000"}
    assert not waiting(connection, export.source).shards
    (kept,) = read_history(connection, export.namespace, "orders")
    assert (kept["SOURCE"], kept["BATCH"], kept["ROW_COUNT"]) == ("orders", moved.first_batch, 2)
