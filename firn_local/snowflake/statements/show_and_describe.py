"""SHOW of tables, schemas and the like, and DESCRIBE of tables and views.

fakesnow's SHOW, with only what the role may see, and LIKE for every kind. DESCRIBE for any database and for temporary
objects, whatever the current database is. Other kinds of objects are shown and described by their own families.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow.compute import match_like
from sqlglot import Expr, exp

from firn_local.snowflake.engine.family import Execution, Family, Handler, as_it_is
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.privileges.requirements import ANY, Need
from firn_local.snowflake.sql import data_types
from firn_local.snowflake.sql.result_set import ResultSet, text_columns
from firn_local.snowflake.sql.sql_errors import missing, unsupported
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.table_annotations import KnownColumn

# Kinds of objects that SHOW lists for those who hold something on them, and where its rows have their full names.
_LISTED = {
    "TABLES": "TABLE", "VIEWS": "TABLE", "OBJECTS": "TABLE", "STAGES": "STAGE", "SCHEMAS": "SCHEMA",
    "DATABASES": "DATABASE",
}  # fmt: skip
_NAMED_BY: dict[str, tuple[str, ...]] = {
    "TABLE": ("database_name", "schema_name", "name"),
    "STAGE": ("database_name", "schema_name", "name"),
    "SCHEMA": ("database_name", "name"),
    "DATABASE": ("name",),
}
_LENGTHS = """
SELECT ext_column_name, ext_character_maximum_length FROM _fs_global._fs_information_schema._fs_columns_ext
WHERE ext_table_catalog = ? AND ext_table_schema = ? AND ext_table_name = ?
"""
_COLUMNS = text_columns(
    "name", "type", "kind", "null?", "default", "primary key", "unique key", "check", "expression", "comment",
    "policy name", "privacy domain",
)  # fmt: skip


def _show(session: Session, _: Statement, execution: Execution) -> None:
    tree = execution.rewritten()
    show = tree.copy()
    execution.run(tree)
    execution.filter_result(lambda found: _visible(session, show, found))


def _visible(session: Session, show: Expr, found: pa.Table) -> pa.Table:
    """The rows that the answer has; all of them where they are no objects with a name."""
    if "name" not in found.column_names:
        return found
    if pattern := show.args.get("like"):
        found = found.filter(match_like(found["name"], pattern.name, ignore_case=True))
    kind = _LISTED.get(show.name.upper())
    if kind is None:
        return found
    parts = [found[column].to_pylist() for column in _NAMED_BY[kind]]
    names = [".".join(name) for name in zip(*parts, strict=True)]
    seen = enforcement.visible(session, kind, names)
    return found.filter(pa.array([name in seen for name in names], pa.bool_()))


def _describe(session: Session, statement: Statement, execution: Execution) -> ResultSet | None:
    table = statement.expression.this
    if not isinstance(table, exp.Table) or table.db.upper() == "INFORMATION_SCHEMA":
        as_it_is(session, statement, execution)
        return None
    name = statement.full_name(table)
    enforcement.demand(session, Need(ANY, "TABLE", name))
    place = session.place_of(name)
    # On the session's own connection: it sees temporary objects and what its transaction made.
    columns = table_annotations.columns(session.duck, place)
    if not columns:
        raise missing("Object", name)
    # Where older servers, which kept no annotations, have the lengths of texts.
    lengths = dict(session.duck.execute(_LENGTHS, list(place)).fetchall())
    key = table_annotations.table(session.duck, place).get("primary_key", [])
    rows = [_row(column, lengths.get(column.name), is_key=column.name in key) for column in columns]
    return ResultSet(_COLUMNS, rows)


def _row(column: KnownColumn, length: int | None, *, is_key: bool) -> tuple[str | None, ...]:
    known = column.annotation
    kind = known.get("type") or data_types.of_duckdb(column.duck_type)
    if "type" not in known and length is not None:
        kind = f"VARCHAR({length})"
    default = known.get("default") if known else column.duck_default
    nulls = "Y" if column.nullable else "N"
    primary = "Y" if is_key else "N"
    return (column.name, kind, "COLUMN", nulls, default, primary, "N", None, None, known.get("comment"), None, None)


def _show_user_functions(session: Session, statement: Statement, execution: Execution) -> None:
    """The one SHOW without a tree that fakesnow knows."""
    if not " ".join(statement.sql.upper().split()).startswith("SHOW USER FUNCTIONS"):
        raise unsupported(statement.sql)
    as_it_is(session, statement, execution)


FAMILY = Family(
    handlers={
        (exp.Show, ""): Handler(_show),
        (exp.Describe, "TABLE"): Handler(_describe),
        (exp.Describe, "VIEW"): Handler(_describe),
        (exp.Command, "SHOW"): Handler(_show_user_functions),
        (exp.Command, "EXPLAIN"): Handler(as_it_is),
    }
)
