"""DuckDB's Arrow results in the form the connector reads. fakesnow's conversion, with NULL timestamps kept NULL."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from fakesnow.arrow import to_ipc, to_sf


def encode(table: pa.Table, rowtype: list[Any]) -> str:
    """The rows as base64 of an Arrow stream."""
    table = _narrowed(table)
    converted = to_sf(table, rowtype)
    for index, field in enumerate(converted.schema):
        if pa.types.is_struct(field.type) and table.column(index).null_count:
            converted = converted.set_column(
                index, _nullable(field), _with_nulls(converted.column(index), table.column(index))
            )
    return b64encode(to_ipc(converted)).decode()


def _narrowed(table: pa.Table) -> pa.Table:
    """Whole numbers as 64 bits where all of a column fit, as Snowflake sends them: the client makes them int."""
    for index, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            with suppress(pa.ArrowInvalid):
                table = table.set_column(index, field.name, table.column(index).cast(pa.int64()))
    return table


def _nullable(field: pa.Field) -> pa.Field:
    parts = [part.with_nullable(True) for part in field.type]
    return field.with_type(pa.struct(parts))


def _with_nulls(structs: pa.ChunkedArray, original: pa.ChunkedArray) -> pa.StructArray:
    """fakesnow's (epoch, fraction) structs, null where the timestamp is: without the mask NULL reads as 1970."""
    parts = structs.combine_chunks().flatten()
    fields = [part.with_nullable(True) for part in structs.type]
    mask = pc.is_null(original).combine_chunks()
    return pa.StructArray.from_arrays([pc.fill_null(p, 0) for p in parts], fields=fields, mask=mask)
