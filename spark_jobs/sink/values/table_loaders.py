"""How the records of a topic become rows of its table: the ways that a sink has. No logic.

Which one a table gets is decided by `tables.loaders`; how it travels is the method's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from firn.snowflake.columns import Columns
from firn.snowflake.identifiers import FullName


@dataclass(frozen=True)
class VariantLoader:
    """RECORD_METADATA and RECORD_CONTENT, both VARIANT: two JSON texts a row."""


@dataclass(frozen=True)
class ColumnsLoader:
    """A column for each first-level field (snowflake.enable.schematization): one text a column.

    columns: those of the table, RECORD_METADATA among them; () where it is not made yet. exists: whether it is made.
    grow: whether columns may be added and changed as records need it. Where they may not, `leave_out` says whether
    fields without a column are left out, and RECORD_METADATA where the table has none; else they make a record bad.
    max_columns: how many columns records may make it have.
    """

    columns: Columns
    exists: bool
    grow: bool
    leave_out: bool = False
    max_columns: int = 1000


@dataclass(frozen=True)
class PipeLoader:
    """A SELECT of the user's own, from the pipe that has the table's name: one JSON object a row.

    fields: whether the object has the record's first-level fields, else RECORD_CONTENT; RECORD_METADATA in any case.
    table: where the COPY of the pipe goes, under the pipe's own name or another. targets: the columns that it names; ()
    for all in their order. select: the pipe's SELECT, with `{source}` where the rows come from.
    """

    fields: bool
    table: FullName
    targets: tuple[str, ...]
    select: str


@dataclass(frozen=True)
class RecordLoader:
    """Whole records, one JSON object a row: Snowflake finds the columns by name, or by the table's own definition.

    fields: as of `PipeLoader`.
    """

    fields: bool


TableLoader: TypeAlias = VariantLoader | ColumnsLoader | PipeLoader | RecordLoader
