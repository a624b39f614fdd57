"""Values of the export for tests: sources, columns and rows of an outbox, with what a test says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from firn.connector.export.config import ExportConfig, MessageConfig, MessageFormat, SourceConfig, SourceKind
from firn.exports.columns import SourceColumn, SourceColumns
from firn.exports.source import Source
from spark_jobs.export.messages.envelopes import Change

ORDERS = (
    SourceColumn("ID", "NUMBER(18,0)", nullable=False, comment="order number"),
    SourceColumn("STATUS", "VARCHAR(20)"),
    SourceColumn("AMOUNT", "NUMBER(12,2)"),
)
JSON_FORMAT = MessageConfig(MessageFormat.JSON)
PLAIN = ExportConfig(name="orders-out", sources=(), value=JSON_FORMAT)


def source_of(columns: SourceColumns = ORDERS, *, topic: str = "order-status", **config: Any) -> Source:
    """A source of table DB.SHOP.ORDERS; config: of `SourceConfig`."""
    keys = config.pop("key_columns", (columns[0].name,))
    own = SourceConfig(name="orders", kind=SourceKind.STREAM, key_columns=keys, topic=topic, **config)
    return Source(
        name="orders",
        export="orders-out",
        config=own,
        relation="DB.SHOP.ORDERS_STREAM",
        base=("DB", "SHOP", "ORDERS"),
        stream=("DB", "SHOP", "ORDERS_STREAM"),
        asked=(("DB", "SHOP", "ORDERS_STREAM"),),
        columns=columns,
        all_columns=columns,
        key_names=own.key_columns,
        outbox="DB.SHOP.OUTBOX",
        state="",
        topic=topic,
    )


def change(
    row: Mapping[str, Any],
    action: str = "INSERT",
    *,
    before: Mapping[str, Any] | None = None,
    is_update: bool = False,
    version: int = 1,
    failed: list[str] | None = None,
    snapshot: bool = False,
) -> Change:
    """One row of an outbox, as it is read."""
    return Change(
        batch=7,
        action=action,
        is_update=is_update,
        row_id="r1",
        payload=json.dumps(row),
        before=None if before is None else json.dumps(before),
        version=version,
        failed=None if failed is None else json.dumps(failed),
        moved_ms=1_700_000_000_000,
        snapshot=snapshot,
    )
