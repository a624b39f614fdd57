"""What a value holds: the row, Debezium's before and after, or each row of the stream as it is.

Debezium's envelope has `op` c, u, d and r (rows of a snapshot); an update that changes the key is d, tombstone, c, as
in https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-primary-key-updates. CHANGE
is what a plain loop over a stream writes: `timestamp`, `action`, `is_update`, `data`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from firn.connector.export.config import Envelope
from firn.exports.source import Source
from spark_jobs.export.messages.schema import Field, Record
from spark_jobs.export.messages.types import Form, Scalar

_TEXT, _LONG = Scalar(Form.STRING), Scalar(Form.LONG)


class Change(NamedTuple):
    """One row of an outbox. payload, before: JSON texts; failed: names of quality checks that it does not meet.

    moved_ms: when it was moved, in Unix milliseconds. snapshot: whether it is one of the first rows.
    """

    batch: int
    action: str
    is_update: bool
    row_id: str | None
    payload: str
    before: str | None
    version: int
    failed: str | None
    moved_ms: int
    snapshot: bool

    @property
    def deleted(self) -> bool:
        """Whether the row is gone."""
        return self.action == "DELETE"


class Images(NamedTuple):
    """The rows of a change as an encoder converted them; before: the old row of an update that keeps its key."""

    row: Any
    before: Any = None


class RowEnvelope:
    """The row itself; of a deleted one nothing, where tombstones are wanted and the message has a key."""

    def __init__(self, row: Record, *, tombstones: bool) -> None:
        self.message, self._tombstones = row, tombstones

    def values(self, change: Change, images: Images, *, keyed: bool) -> list[Any]:
        """The records of the messages, in order; None is a tombstone."""
        return [None] if change.deleted and self._tombstones and keyed else [images.row]


class DebeziumEnvelope:
    """before, after, source, op, ts_ms."""

    def __init__(self, row: Record, source: Source, nested: Callable[[Any], Any], *, tombstones: bool) -> None:
        self._nested, self._tombstones = nested, tombstones
        database, schema, table = source.base or ("", "", source.name)
        self._source = {"connector": "firn", "name": source.export, "db": database, "schema": schema, "table": table}
        about = (
            *(Field(name, _TEXT) for name in self._source),
            Field("ts_ms", _LONG),
            Field("snapshot", _TEXT),
            Field("batch", _LONG),
            Field("row_id", _TEXT, nullable=True),
        )
        fields = (
            Field("before", row, nullable=True),
            Field("after", row, nullable=True),
            Field("source", Record("Source", row.namespace, about)),
            Field("op", _TEXT),
            Field("ts_ms", _LONG),
        )
        self.message = Record("Envelope", row.namespace, fields)

    def values(self, change: Change, images: Images, *, keyed: bool) -> list[Any]:
        """As `RowEnvelope.values`."""
        row, before = self._nested(images.row), None
        if images.before is not None:
            before = self._nested(images.before)
        value = {
            "before": row if change.deleted else before,
            "after": None if change.deleted else row,
            "source": self._about(change),
            "op": _operation(change, updated=before is not None),
            "ts_ms": time.time_ns() // 1_000_000,
        }
        return [value, None] if change.deleted and self._tombstones and keyed else [value]

    def _about(self, change: Change) -> Mapping[str, Any]:
        return {
            **self._source,
            "ts_ms": change.moved_ms,
            "snapshot": "true" if change.snapshot else "false",
            "batch": change.batch,
            "row_id": change.row_id,
        }


class ChangeEnvelope:
    """timestamp, action, is_update, data."""

    def __init__(self, row: Record, *, tombstones: bool) -> None:
        self._tombstones = tombstones
        fields = (
            Field("timestamp", _TEXT),
            Field("action", _TEXT),
            Field("is_update", Scalar(Form.BOOLEAN)),
            Field("data", row),
        )
        self.message = Record("Change", row.namespace, fields)

    def values(self, change: Change, images: Images, *, keyed: bool) -> list[Any]:
        """As `RowEnvelope.values`."""
        value = {
            "timestamp": datetime.fromtimestamp(change.moved_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "action": change.action,
            "is_update": change.is_update,
            "data": images.row,
        }
        gone = change.deleted and not change.is_update
        return [value, None] if gone and self._tombstones and keyed else [value]


AnyEnvelope = RowEnvelope | DebeziumEnvelope | ChangeEnvelope


def envelope_for(
    chosen: Envelope, row: Record, source: Source, nested: Callable[[Any], Any], *, tombstones: bool
) -> AnyEnvelope:
    """The envelope of a source's messages. nested: how the value's format writes a record that may be null."""
    match chosen:
        case Envelope.ROW:
            return RowEnvelope(row, tombstones=tombstones)
        case Envelope.DEBEZIUM:
            return DebeziumEnvelope(row, source, nested, tombstones=tombstones)
        case Envelope.CHANGE:
            return ChangeEnvelope(row, tombstones=tombstones)


def _operation(change: Change, *, updated: bool) -> str:
    if change.deleted:
        return "d"
    if updated:
        return "u"
    return "r" if change.snapshot else "c"
