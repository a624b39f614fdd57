"""Records of one partition to rows: keys, values, metadata, and what becomes of tombstones and bad records.

Not for single formats (`decode`) or for where rows go (`files`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.config import SinkConfig
from firn.kafka.partitions import TopicPartition
from spark_jobs.sink.columns.staged_columns import ColumnBuilder
from spark_jobs.sink.decode.base.contract import MAX_TEXT, Decoded, Decoder, Part
from spark_jobs.sink.decode.base.field_columns import RecordFields
from spark_jobs.sink.metadata.record_metadata import record_metadata
from spark_jobs.sink.task.worker import now_ms
from spark_jobs.sink.values.bad_records import REJECTED, TOO_LARGE, UNREADABLE_HEADER, BadRecord

TOMBSTONE, TOMBSTONE_SCHEMA_ID = "{}", 0


@dataclass(frozen=True)
class Converted:
    """Rows in order of their offsets, without the bad records, which `bad` names in order of their row in the batch.

    columns: those of the staged file (`staged_columns.file_columns`). schema_ids: of their values, each once. With
    errors.tolerance=none there are no rows behind the first bad record, and `bad` has that one only.
    """

    offsets: npt.NDArray[np.int64]
    columns: tuple[pa.StringArray, ...]
    bad: tuple[BadRecord, ...]
    schema_ids: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Rows:
    """Decoded values (see `Decoded`) and the row of the batch that each belongs to; None: row by row.

    fields: only of all values of a batch, and as long as they are those.
    """

    content: pa.StringArray
    schema_ids: pa.Int32Array
    parts: Sequence[Part] | None
    of: npt.NDArray[np.int64] | None
    fields: RecordFields | None = None

    @classmethod
    def decoded(cls, values: Decoded) -> _Rows:
        """All values of a batch."""
        fields = values.fields if values.fields and values.fields.content is values.content else None
        return cls(values.content, values.schema_ids, values.parts, values.origin, fields)

    def only(self, rows: npt.NDArray[np.int64]) -> _Rows:
        """Some of them, by position."""
        at = pa.array(rows)
        parts = None if self.parts is None else [self.parts[row] for row in rows.tolist()]
        return _Rows(self.content.take(at), self.schema_ids.take(at), parts, rows if self.of is None else self.of[rows])

    def before(self, row: int) -> _Rows:
        """What was decoded from the rows of the batch in front of `row`."""
        count = row if self.of is None else int(np.searchsorted(self.of, row))
        parts = None if self.parts is None else self.parts[:count]
        of = None if self.of is None else self.of[:count]
        return _Rows(self.content.slice(0, count), self.schema_ids.slice(0, count), parts, of)


def convert(
    config: SinkConfig,
    where: TopicPartition,
    batch: pa.RecordBatch,
    decoders: tuple[Decoder, Decoder],
    builder: ColumnBuilder,
    rejected: Mapping[int, str] | None = None,
) -> Converted:
    """The rows of `batch` (`firn.kafka.message_columns.RECORDS`, of one partition, offsets rising).

    decoders: of value and key. builder: of the table that the topic goes to. rejected: by offset, why Snowflake refused
    the row of a record before: it is bad.
    """
    value, key = decoders
    values, keys = value.decode(batch.column("value")), key.decode(batch.column("key"))
    bad = _bad_rows(values, keys, [*_oversized(values), *_unreadable(batch), *_rejected(batch, rejected)])
    strict = config.errors.tolerance == "none"
    if bad and strict:
        bad = bad[:1]
        rows = _Rows.decoded(values).before(bad[0].row)
    else:
        rows = _without(_Rows.decoded(values), bad)
    rows = _tombstones(rows, ignore=config.null_values == "ignore")
    picked = batch.slice(0, len(rows.content)) if rows.of is None else batch.take(pa.array(rows.of))
    offsets = picked.column("offset")
    metadata = record_metadata(
        topic=where.topic,
        partition=where.partition,
        offsets=offsets,
        timestamps=picked.column("timestamp"),
        timestamp_types=picked.column("timestamp_type"),
        keys=_along(keys.content, rows),
        schema_ids=rows.schema_ids,
        key_schema_ids=_along(keys.schema_ids, rows),
        headers=picked.column("headers"),
        header_format=config.headers,
        push_time=now_ms(),
        fields=config.metadata,
    )
    built = builder.build(rows.content, metadata, rows.schema_ids, rows.parts, rows.fields)
    converted = Converted(offsets.to_numpy(), built.columns, bad, _seen(rows.schema_ids))
    return _without_refused(converted, rows, built.bad, strict=strict) if built.bad else converted


def _without_refused(converted: Converted, rows: _Rows, refused: tuple[BadRecord, ...], *, strict: bool) -> Converted:
    """Take out the rows that have no place in the table; `refused` names them by their place among the rows."""
    of = np.arange(len(converted.offsets)) if rows.of is None else rows.of
    faults = {int(of[each.row]): replace(each, row=int(of[each.row])) for each in reversed(refused)}
    if strict:  # all rows stand in front of what else is bad
        first = min(faults)
        count = int(np.searchsorted(of, first))
        columns = tuple(column.slice(0, count) for column in converted.columns)
        return replace(converted, offsets=converted.offsets[:count], columns=columns, bad=(faults[first],))
    faults |= {each.row: each for each in converted.bad}
    left = np.flatnonzero(~np.isin(of, list(faults)))
    columns = tuple(column.take(pa.array(left)) for column in converted.columns)
    bad = tuple(faults[row] for row in sorted(faults))
    return replace(converted, offsets=converted.offsets[left], columns=columns, bad=bad)


def _seen(schema_ids: pa.Int32Array) -> frozenset[int]:
    """Each schema id once; a tombstone's is none."""
    return frozenset(pc.unique(schema_ids).drop_null().to_pylist()) - {TOMBSTONE_SCHEMA_ID}


def _oversized(values: Decoded) -> list[BadRecord]:
    """Texts that are longer in bytes than decoders count in characters, and than a VARIANT takes."""
    if values.content.nbytes <= MAX_TEXT:
        return []
    sizes = pc.binary_length(values.content).fill_null(0).to_numpy()
    of = np.arange(len(sizes)) if values.origin is None else values.origin
    return [
        BadRecord(int(of[at]), TOO_LARGE, f"its JSON has {sizes[at]} bytes, a VARIANT takes {MAX_TEXT}")
        for at in np.flatnonzero(sizes > MAX_TEXT)
    ]


def _unreadable(batch: pa.RecordBatch) -> list[BadRecord]:
    """Records that the reader could not read whole."""
    faults = batch.column("fault")
    if faults.null_count == len(faults):
        return []
    return [BadRecord(row, UNREADABLE_HEADER, text) for row, text in enumerate(faults.to_pylist()) if text]


def _rejected(batch: pa.RecordBatch, rejected: Mapping[int, str] | None) -> list[BadRecord]:
    """Records whose rows Snowflake refused."""
    if not rejected:
        return []
    offsets = batch.column("offset").to_numpy()
    rows = np.flatnonzero(np.isin(offsets, list(rejected))).tolist()
    return [BadRecord(row, REJECTED, rejected[int(offsets[row])]) for row in rows]


def _bad_rows(values: Decoded, keys: Decoded, oversized: list[BadRecord]) -> tuple[BadRecord, ...]:
    """One fault a record: its value's, where both are bad."""
    of_keys = (replace(bad, detail=f"in the key: {bad.detail}", in_key=True) for bad in keys.bad)
    faults = {bad.row: bad for bad in (*of_keys, *oversized, *values.bad)}
    return tuple(faults[row] for row in sorted(faults))


def _without(rows: _Rows, bad: tuple[BadRecord, ...]) -> _Rows:
    """All rows but those of bad records."""
    if not bad:
        return rows
    of = np.arange(len(rows.content)) if rows.of is None else rows.of
    return rows.only(np.flatnonzero(~np.isin(of, [each.row for each in bad])))


def _tombstones(rows: _Rows, *, ignore: bool) -> _Rows:
    """Records without a value: left out, or empty objects as the official connector writes them."""
    if rows.content.null_count == 0:
        return rows
    if ignore:
        return rows.only(np.flatnonzero(rows.content.is_valid()))
    schema_ids = pc.if_else(rows.content.is_null(), TOMBSTONE_SCHEMA_ID, rows.schema_ids)
    content = pc.fill_null(rows.content, TOMBSTONE)
    return replace(rows, content=content, schema_ids=schema_ids.cast(pa.int32()), fields=None)


def _along(column: pa.Array, rows: _Rows) -> pa.Array:
    """A column of the batch, row for row beside `rows`."""
    return column.slice(0, len(rows.content)) if rows.of is None else column.take(pa.array(rows.of))
