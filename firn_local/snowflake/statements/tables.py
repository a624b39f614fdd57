"""CREATE TABLE: what its statement says beyond DuckDB's tables is taken off it and kept as `notes`.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-table and create-interactive-table. Types and defaults
with their sizes and words, comments on columns, TRANSIENT, INTERACTIVE, CLUSTER BY, ENABLE_SCHEMA_EVOLUTION.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import Expr, exp

from firn_local.snowflake.sql import data_types
from firn_local.snowflake.sql.errors import SYNTAX, compilation_error
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store import table_annotations

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session
    from firn_local.snowflake.store.table_annotations import Note

EVOLUTION = "ENABLE_SCHEMA_EVOLUTION"
INTERACTIVE = "INTERACTIVE"
"""The property that `parsing` makes of CREATE INTERACTIVE TABLE."""


@dataclass
class Shape:
    """The notes of a table about to be made."""

    table: Note = field(default_factory=dict)
    columns: dict[str, Note] = field(default_factory=dict)


def take_off(create: Expr) -> Shape:
    """The notes of a CREATE TABLE, whose tree is changed in place to what fakesnow and DuckDB take."""
    shape = Shape()
    if isinstance(create.this, exp.Schema):
        for column in create.this.expressions:
            if isinstance(column, exp.ColumnDef) and column.kind is not None:
                shape.columns[_name(column.this)] = note_of(column)
                # fakesnow reads lengths of texts before it drops them
                if not column.kind.is_type(*exp.DataType.TEXT_TYPES):
                    data_types.without_sizes(column.kind)
    properties = create.args.get("properties")
    for each in list(properties.expressions) if properties is not None else []:
        if _take_property(shape.table, each):
            each.pop()
    if properties is not None and not properties.expressions:
        create.set("properties", None)  # else fakesnow keeps the comment None
    if shape.table.get("interactive") and "cluster_by" not in shape.table:
        raise compilation_error(SYNTAX, "CREATE INTERACTIVE TABLE wants CLUSTER BY (<expr> [, ...]).")
    return shape


def keep(session: Session, create: Expr, shape: Shape) -> None:
    """After the table was made: keep its notes."""
    name = create.args.get("_temporary") or Statement("", create, session.database, session.schema).target_objects()[0]
    place = table_annotations.place_of(session, str(name))
    statements = [table_annotations.on_column(place, column, note) for column, note in shape.columns.items()]
    if shape.table:
        statements.append(table_annotations.on_table(place, shape.table))
    table_annotations.in_one_transaction(session.duck, statements)


def note_of(column: exp.ColumnDef) -> Note:
    """The note of a column's definition; its comment, which DuckDB has no place for there, is taken off."""
    note: Note = {"type": data_types.text_of(column.args["kind"])}
    for constraint in list(column.constraints):
        match constraint.kind:
            case exp.CommentColumnConstraint():
                note["comment"] = constraint.kind.this.name
                constraint.pop()
            case exp.DefaultColumnConstraint():
                note["default"] = constraint.kind.this.sql(dialect="snowflake")
            case exp.GeneratedAsIdentityColumnConstraint() | exp.AutoIncrementColumnConstraint():
                start, step = (constraint.kind.args.get(word) for word in ("start", "increment"))
                words = f"START {start.name if start else 1} INCREMENT {step.name if step else 1}"
                note |= {"default": f"IDENTITY {words} NOORDER", "identity": True}
    return note


def clustering(expressions: list[Expr]) -> str:
    """`CLUSTER BY (...)` as SHOW TABLES has it."""
    return f"LINEAR({', '.join(each.sql(dialect='snowflake') for each in expressions)})"


def escape_comments(statement: Expr) -> None:
    """Double the quotes in comments on tables and views in place: fakesnow puts their text into SQL as it is."""
    found: list[Expr | None] = []
    if isinstance(statement, exp.Comment):
        found = [statement.expression]
    elif isinstance(statement, exp.Create) and statement.kind in {"TABLE", "VIEW"}:
        found = [each.this for each in statement.find_all(exp.SchemaCommentProperty)]
    for text in found:
        if isinstance(text, exp.Literal):
            text.set("this", text.name.replace("'", "''"))


def _take_property(note: Note, each: Expr) -> bool:
    match each:
        case exp.TransientProperty():
            note["kind"] = "TRANSIENT"
        case exp.ClusterProperty() | exp.Cluster():
            note["cluster_by"] = clustering(each.expressions)
        case _ if type(each) is not exp.Property:  # the others are fakesnow's: TEMPORARY, COMMENT, ...
            return False
        case _ if each.name.upper() == EVOLUTION:
            note["evolves"] = bool(each.args["value"].this)
        case _ if each.name.upper() == INTERACTIVE:
            note["interactive"] = True
    return True


def _name(identifier: Expr) -> str:
    return identifier.name if identifier.args.get("quoted") else identifier.name.upper()
