"""Result sets that a statement's family makes itself; the others are DuckDB's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

TEXT, NUMBER, TIME = "VARCHAR", "BIGINT", "TIMESTAMP WITH TIME ZONE"
_ARROW = {TEXT: pa.string(), NUMBER: pa.int64(), TIME: pa.timestamp("us", tz="UTC")}


@dataclass(frozen=True)
class ResultSet:
    """(column, DuckDB type) pairs and rows; `affected` is the row count a DML statement reports."""

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]
    affected: int | None = None

    @staticmethod
    def status(text: str = "Statement executed successfully.") -> ResultSet:
        """The one-row answer of a statement that returns no data."""
        return ResultSet([("status", TEXT)], [(text,)])

    def described(self) -> list[tuple[Any, ...]]:
        """The columns as the rows of DuckDB's DESCRIBE."""
        return [(name, kind, "YES", None, None, None) for name, kind in self.columns]

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        schema = pa.schema([(name, _ARROW[kind]) for name, kind in self.columns])
        columns = [list(c) for c in zip(*self.rows, strict=True)] or [[] for _ in self.columns]
        return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def text_columns(*names: str) -> list[tuple[str, str]]:
    """Columns of text."""
    return [(name, TEXT) for name in names]
