"""ALTER TABLE: columns added, widened, made nullable; clustering; schema evolution. All of a statement or nothing.

Source: https://docs.snowflake.com/en/sql-reference/sql/alter-table and alter-table-column. RENAME, SWAP and DROP COLUMN
are fakesnow's. Who waits for whom is in `cursor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fakesnow import info_schema
from sqlglot import Expr, exp

from firn_local.snowflake.sql import data_types
from firn_local.snowflake.sql.errors import INVALID_IDENTIFIER, compilation_error, missing
from firn_local.snowflake.sql.result_set import Answer
from firn_local.snowflake.statements import tables
from firn_local.snowflake.store import table_annotations

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session
    from firn_local.snowflake.store.table_annotations import KnownColumn, Note, Place

COLUMN_THERE = (1430, "42601")
CANNOT_CHANGE = (2108, "22000")
ToDuckDB = Callable[[exp.ColumnDef], str]


def alter(session: Session, statement: exp.Alter, full_name: str, to_duckdb: ToDuckDB) -> Answer | None:
    """Run the statement; None when it is none of ours. `to_duckdb` writes a column's definition in DuckDB's words."""
    actions = statement.args.get("actions") or []
    if statement.args.get("kind") != "TABLE" or not all(_is_ours(action) for action in actions):
        return None
    place = table_annotations.place_of(session, full_name)
    columns = table_annotations.columns(session.duck, place)
    if not columns:
        if statement.args.get("exists"):
            return Answer.status()
        raise missing("Table", full_name)
    change = _Change(session, place, {column.name: column for column in columns}, to_duckdb)
    for action in actions:
        change.add(action)
    change.run()
    return Answer.status()


class _Change:
    """The statements for DuckDB that a statement comes to."""

    def __init__(self, session: Session, place: Place, columns: dict[str, KnownColumn], to_duckdb: ToDuckDB) -> None:
        self._session, self._place, self._columns, self._to_duckdb = session, place, columns, to_duckdb
        self._statements: list[str] = []
        self._table = table_annotations.table(session.duck, place)
        self._notes: dict[str, Note] = {}
        self._comment: str | None = None

    def add(self, action: Expr) -> None:
        match action:
            case exp.ColumnDef():
                self._add_column(action)
            case exp.AlterColumn():
                self._alter_column(action)
            case exp.AlterSet():
                for each in action.find_all(exp.Property):
                    self._set(each)
            case exp.ClusterProperty() | exp.Cluster():
                self._table["cluster_by"] = tables.clustering(action.expressions)
            case _:  # DROP CLUSTERING KEY
                self._table.pop("cluster_by", None)

    def run(self) -> None:
        named = [table_annotations.on_column(self._place, column, note) for column, note in self._notes.items()]
        table_annotations.in_one_transaction(
            self._session.duck, [*self._statements, *named, table_annotations.on_table(self._place, self._table)]
        )
        if self._comment is not None:
            self._session.duck.execute(
                info_schema.insert_table_comment_sql(*self._place, self._comment.replace("'", "''"))
            )

    def _add_column(self, column: exp.ColumnDef) -> None:
        name = _name(column.this)
        if name in self._columns:
            if column.args.get("exists"):
                return
            raise compilation_error(COLUMN_THERE, f"column '{name}' already exists")
        self._notes[name] = tables.note_of(column)
        self._statements.append(
            f"ALTER TABLE {table_annotations.quoted(self._place)} ADD COLUMN {self._to_duckdb(column)}"
        )

    def _alter_column(self, action: exp.AlterColumn) -> None:
        column = self._columns.get(_name(action.this))
        if column is None:
            raise compilation_error(INVALID_IDENTIFIER, f"invalid identifier '{_name(action.this)}'")
        note = self._notes.setdefault(column.name, dict(column.note))
        if (kind := action.args.get("dtype")) is not None:
            self._retype(column, note, kind)
        elif (comment := action.args.get("comment")) is not None:
            note["comment"] = comment.name
        elif (nullable := action.args.get("allow_null")) is not None:
            self._do(column, "DROP NOT NULL" if nullable else "SET NOT NULL")
        else:
            note.pop("default", None)
            self._do(column, "DROP DEFAULT")

    def _retype(self, column: KnownColumn, note: Note, kind: exp.DataType) -> None:
        old = note.get("type") or data_types.of_duckdb(column.duck_type)
        new = data_types.text_of(kind)
        if reason := data_types.refusal(old, new):
            raise compilation_error(
                CANNOT_CHANGE, f"cannot change column {column.name} from type {old} to {new} because {reason}."
            )
        note["type"] = new
        if new.startswith("NUMBER("):
            definition = self._to_duckdb(exp.ColumnDef(this=exp.to_identifier("c"), kind=kind.copy()))
            self._do(column, f"SET DATA TYPE {definition.partition(' ')[2]}")

    def _set(self, each: exp.Property) -> None:
        if isinstance(each, exp.SchemaCommentProperty):
            self._comment = each.name
        elif each.name.upper() == tables.EVOLUTION:
            self._table["evolves"] = bool(each.args["value"].this)

    def _do(self, column: KnownColumn, what: str) -> None:
        name = column.name.replace('"', '""')
        self._statements.append(f'ALTER TABLE {table_annotations.quoted(self._place)} ALTER COLUMN "{name}" {what}')


def _is_ours(action: Expr) -> bool:
    if isinstance(action, exp.AlterColumn):
        return not action.args.get("default")
    if isinstance(action, exp.Command):
        return f"{action.this} {action.expression}".upper().split() == ["DROP", "CLUSTERING", "KEY"]
    return isinstance(action, (exp.ColumnDef, exp.AlterSet, exp.ClusterProperty, exp.Cluster))


def _name(identifier: Expr) -> str:
    return identifier.name if identifier.args.get("quoted") else identifier.name.upper()
