"""Changes of tables that records need: columns added, made nullable or wider, tables made with their first columns.

On the driver, between batches and never inside a transaction: each statement is DDL, which would commit it. Two sinks
may change one table at once. Statements say IF NOT EXISTS or do nothing when they run twice, and types only grow to the
largest size; where the other sink made a column of another type, the caller finds it when it looks at the table again.

Statements: ALTER TABLE ... ADD COLUMN, ALTER COLUMN ... DROP NOT NULL, ALTER COLUMN ... SET DATA TYPE
(https://docs.snowflake.com/en/sql-reference/sql/alter-table, .../alter-table-column). All want OWNERSHIP of the table;
EVOLVE SCHEMA is for COPY with MATCH_BY_COLUMN_NAME (https://docs.snowflake.com/en/user-guide/data-load-schema-evolution).
Not for what a table is and how it is made (`tables`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from snowflake.connector import SnowflakeConnection

from firn.connector.config import TableConfig
from firn.errors import PrivilegeError, TerminalError
from firn.ledger.schema_changes import SchemaChange, SchemaChanges
from firn.snowflake.columns import METADATA, METADATA_COLUMN, Column, Columns, ColumnType, column_type
from firn.snowflake.connection import execute
from firn.snowflake.identifiers import Namespace, always_quoted, text_literal
from firn.snowflake.tables import describe
from spark_jobs.sink.columns.required_schema_changes import merge_types
from spark_jobs.sink.tables.target_tables import create_statement
from spark_jobs.sink.values.reports import SchemaChangeRequest

__all__ = ["Evolution", "SchemaChange"]

_ADD = "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} {type} COMMENT {comment}"
_DROP_NOT_NULL = "ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL"
_WIDEN = "ALTER TABLE {table} ALTER COLUMN {column} SET DATA TYPE {type}"
_COMMENT = "Added by Firn from topic {topic}"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reason:
    """Whose record needed a change first."""

    topic: str
    schema_id: int | None


@dataclass
class RequiredChanges:
    """What one table needs, for all partitions and topics that go into it: by column, in order of appearance.

    by: the first record that needs anything. Types are those that take the values of all records that need the change.
    """

    by: Reason
    add: dict[str, tuple[Reason, ColumnType]] = field(default_factory=dict)
    nullable: dict[str, Reason] = field(default_factory=dict)
    widen: dict[str, tuple[Reason, ColumnType]] = field(default_factory=dict)


def merged(requests: Sequence[SchemaChangeRequest]) -> dict[str, RequiredChanges]:
    """What each table needs, by table. Topics and partitions come in their order, whatever that of reports is."""
    required: dict[str, RequiredChanges] = {}
    for each in sorted(requests, key=lambda one: (one.topic, one.partition)):
        by = Reason(each.topic, each.schema_id)
        changes = required.setdefault(each.table, RequiredChanges(by))
        _merge(changes.add, each.add, by)
        _merge(changes.widen, each.widen, by)
        for column in each.nullable:
            changes.nullable.setdefault(column, by)
    return required


def _merge(into: dict[str, tuple[Reason, ColumnType]], types: Mapping[str, str], by: Reason) -> None:
    for column, text in types.items():
        first, before = into.get(column, (by, column_type(text)))
        into[column] = first, merge_types(before, column_type(text))


class Evolution:
    """Changes the tables of one sink. evolving: whether a table that is made gets ENABLE_SCHEMA_EVOLUTION."""

    def __init__(self, namespace: Namespace, sink: str, tables: TableConfig, evolving: bool) -> None:
        self._namespace, self._tables, self._evolving = namespace, tables, evolving
        self._changes = SchemaChanges(namespace, sink)

    def apply(
        self,
        connection: SnowflakeConnection,
        requests: Sequence[SchemaChangeRequest],
        columns: Mapping[str, Columns | None],
    ) -> tuple[SchemaChange, ...]:
        """Do what all tasks of a batch request, table by table; returns what was done, which is recorded before.

        columns: by table, as the tasks saw them; None where it was not made. What somebody else has done since is not
        done again. No transaction may be open. Raises TerminalError with what, where and the statement that helps, if
        Snowflake refuses a change; other errors pass, and the same call may be made again.
        """
        self._changes.ensure(connection)
        done: list[SchemaChange] = []
        for table, required in merged(requests).items():
            shape = describe(connection, self._namespace, table)
            if shape is None and columns[table] is None:
                done.append(self._run(connection, self._creation(table, required)))
                shape = describe(connection, self._namespace, table)
            # Of a table that was dropped meanwhile nothing is known: the first statement will say so.
            there = columns[table] or () if shape is None else shape.columns
            done += self._alter(connection, table, required, there)
        return tuple(done)

    def _alter(
        self, connection: SnowflakeConnection, table: str, required: RequiredChanges, columns: Columns
    ) -> Iterator[SchemaChange]:
        for change in self._alterations(table, required, columns):
            try:
                yield self._run(connection, change)
            except TerminalError:
                # Between our description and our statement another sink may have done it, or more of it: no error then.
                shape = describe(connection, self._namespace, table)
                if shape is None or change in self._alterations(table, required, shape.columns):
                    raise

    def _creation(self, table: str, required: RequiredChanges) -> SchemaChange:
        added = [Column(name, wanted) for name, (_, wanted) in required.add.items() if name != METADATA]
        # Partitions that each have room for theirs may have none for all.
        columns = (METADATA_COLUMN, *added)[: max(1, self._tables.max_columns)]
        statement = create_statement(self._namespace, table, columns, self._tables, evolving=self._evolving)
        return SchemaChange(table, required.by.topic, required.by.schema_id, statement)

    def _alterations(self, table: str, required: RequiredChanges, columns: Columns) -> Iterator[SchemaChange]:
        """What is required and not so yet."""
        there = {column.name: column for column in columns}
        new = [name for name in required.add if name not in there]
        for name in new[: max(0, self._tables.max_columns - len(there))]:
            by, wanted = required.add[name]
            comment = text_literal(_COMMENT.format(topic=by.topic))
            yield self._alteration(_ADD, table, name, by, type=wanted, comment=comment)
        for name, by in required.nullable.items():
            if name in there and not there[name].nullable:
                yield self._alteration(_DROP_NOT_NULL, table, name, by)
        for name, (by, wanted) in required.widen.items():
            if name in there and _is_wider(wanted, there[name].type):
                yield self._alteration(_WIDEN, table, name, by, type=wanted)

    def _alteration(self, template: str, table: str, column: str, by: Reason, **parts: object) -> SchemaChange:
        qualified, name = self._namespace.qualified(table), always_quoted(column)
        return SchemaChange(table, by.topic, by.schema_id, template.format(table=qualified, column=name, **parts))

    def _run(self, connection: SnowflakeConnection, change: SchemaChange) -> SchemaChange:
        self._changes.record(connection, change)
        try:
            execute(connection, change.statement)
        except PrivilegeError as error:
            raise self._forbidden(change, error, connection.role or "<role>") from error
        except TerminalError as error:
            if type(error) is not TerminalError:  # its message says what to do
                raise
            raise self._refused(change, error) from error
        log.info("table %s: %s", change.table, " ".join(change.statement.split()))
        return change

    def _forbidden(self, change: SchemaChange, error: PrivilegeError, role: str) -> PrivilegeError:
        if not change.statement.startswith("ALTER"):
            return error  # it names the privilege to create
        table = self._namespace.qualified(change.table)
        return PrivilegeError(
            error.what,
            where=self._where(change),
            next_step="ALTER TABLE wants OWNERSHIP, EVOLVE SCHEMA is not enough. As the owner run: "
            f"{change.statement}; or: GRANT OWNERSHIP ON TABLE {table} TO ROLE {role} COPY CURRENT GRANTS; or set "
            "auto.evolve to false. Then start the sink again: nothing is lost.",
        )

    def _refused(self, change: SchemaChange, error: TerminalError) -> TerminalError:
        return TerminalError(
            f"Snowflake refused to change a table: {error.what}",
            where=self._where(change),
            next_step="See what stands in the way (a clustering or primary key, a default, a policy), take it away, "
            f"run: {change.statement}; and start the sink again: nothing is lost. Or set auto.evolve to false.",
        )

    def _where(self, change: SchemaChange) -> str:
        schema = "" if change.schema_id is None else f", schema id {change.schema_id}"
        return f"table {self._namespace.qualified(change.table)}, wanted by topic {change.topic}{schema}"


def _is_wider(wanted: ColumnType, there: ColumnType) -> bool:
    """Whether SET DATA TYPE has something to do; a column that somebody made of another kind is not ours to change."""
    return (wanted.kind, wanted.scale) == (there.kind, there.scale) and wanted.size > there.size
