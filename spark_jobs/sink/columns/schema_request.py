"""What the records of one partition want of their table, gathered while they are fitted (`fit`)."""

from __future__ import annotations

from firn.snowflake.columns import Column, ColumnType
from spark_jobs.sink.columns.matching import column_name
from spark_jobs.sink.columns.value_types import merge_types
from spark_jobs.sink.values.reports import SchemaChangeRequest


class Wishes:
    """What the records of one partition want of their table; `schema_id` is that of the first that wants something."""

    def __init__(self) -> None:
        self.any = False
        self.schema_id: int | None = None
        self.add: dict[str, ColumnType] = {}
        self.nullable: dict[str, None] = {}
        self.widen: dict[str, ColumnType] = {}

    def note(self, schema_id: int | None) -> None:
        """Something is wanted, by records of this schema."""
        if not self.any:
            self.any, self.schema_id = True, schema_id

    def add_column(self, field: str, wanted: ColumnType) -> None:
        """A column for `field` that takes values of this type, and those of earlier wishes."""
        name = column_name(field)
        before = self.add.get(name)
        self.add[name] = wanted if before is None else merge_types(before, wanted)

    def widen_column(self, column: Column, wanted: ColumnType) -> None:
        """A type for `column` that takes this one's values, and those of earlier wishes."""
        before = self.widen.get(column.name)
        if before is None or before.size < wanted.size:
            self.widen[column.name] = wanted


def wanted(topic: str, partition: int, table: str, wishes: Wishes) -> SchemaChangeRequest:
    """The wishes of a partition's records, as its report."""
    add = {name: str(wish) for name, wish in wishes.add.items()}
    widen = {name: str(wish) for name, wish in wishes.widen.items()}
    return SchemaChangeRequest(topic, partition, table, wishes.schema_id, add, list(wishes.nullable), widen)
