"""CREATE TABLE ... LIKE and CLONE, and SWAP WITH: tables made of tables, with all that is kept of their columns.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-table (LIKE), create-clone, alter-table (SWAP WITH).
Differs from Snowflake: a clone copies its rows. Neither the load history nor grants nor change tracking are copied.
"""

from __future__ import annotations

from sqlglot import Expr, exp

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.sql.sql_errors import missing, unsupported
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.table_annotations import Annotation, Place

_IS_TABLE = "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
_COMMENTS = "_fs_global._fs_information_schema._fs_tables_ext"
_OF_TABLE = "ext_table_catalog = ? AND ext_table_schema = ? AND ext_table_name = ?"
# How the annotation of a table says what belongs to that table alone.
_OWN = {"tracked", "kind", "streams"}


def source_of(create: Expr) -> exp.Table | None:
    """The table that CREATE TABLE ... LIKE or CLONE names."""
    clone = create.args.get("clone")
    like = create.find(exp.LikeProperty) if clone is None else None
    found = clone.this if clone is not None else like.this if like is not None else None
    return found if isinstance(found, exp.Table) else None


def copied(session: Session, statement: Statement, place: Place, declared: Annotation) -> None:
    """Make the table at `place`, with what its statement declares beside what the source has."""
    create = statement.expression
    source = source_of(create)
    if source is None:
        raise unsupported(statement.sql)
    if source.args.get("when") is not None:
        raise unsupported(statement.sql, "CLONE of a table as it was: no Time Travel")
    name = statement.full_name(source)
    origin = session.place_of(name)
    if not session.duck.execute(_IS_TABLE, list(origin)).fetchall():
        raise missing("Object", name)
    clones, replaces = create.args.get("clone") is not None, bool(create.args.get("replace"))
    _copy(session, origin, place, declared, clones=clones, replaces=replaces)


def cloned(session: Session, origin: Place, place: Place) -> None:
    """Make the table at `place`, where there is none, with the rows of another one."""
    _copy(session, origin, place, {}, clones=True, replaces=False)


def _copy(session: Session, origin: Place, place: Place, declared: Annotation, *, clones: bool, replaces: bool) -> None:
    annotation = {key: each for key, each in table_annotations.table(session.duck, origin).items() if key not in _OWN}
    statements = _statements(session, origin, place, annotation | declared, replaces=replaces)
    if clones:
        rows = f"INSERT INTO {table_annotations.quoted(place)} SELECT * FROM {table_annotations.quoted(origin)}"  # noqa: S608
        statements.insert(1, rows)
    table_annotations.in_one_transaction(session.duck, statements)
    _forget_loads(session, place)
    if clones:
        _copy_comment(session, origin, place)


def _statements(session: Session, origin: Place, place: Place, table: Annotation, *, replaces: bool) -> list[str]:
    columns = table_annotations.columns(session.duck, origin)
    definitions = [
        f"{table_annotations.identifier(column.name)} {column.duck_type}"
        + ("" if column.nullable else " NOT NULL")
        + (f" DEFAULT {column.duck_default}" if column.duck_default else "")
        for column in columns
    ]
    verb = "CREATE OR REPLACE" if replaces else "CREATE"
    kind = "TEMPORARY TABLE" if place[0] == "temp" else "TABLE"
    kept = {column.name: column.annotation for column in columns if column.annotation}
    return [
        f"{verb} {kind} {table_annotations.quoted(place)} ({', '.join(definitions)})",
        *table_annotations.on_columns(place, kept),
        *([table_annotations.on_table(place, table)] if table else []),
    ]


def _forget_loads(session: Session, place: Place) -> None:
    if place[0] != "temp":
        history = f'"{place[0]}"._fs_information_schema._fs_load_history'
        where = "WHERE SCHEMA_NAME = ? AND TABLE_NAME = ?"
        session.duck.execute(f"DELETE FROM {history} {where}", list(place[1:]))  # noqa: S608  (our own names)


def _copy_comment(session: Session, origin: Place, place: Place) -> None:
    read = f"SELECT ?, ?, ?, comment FROM {_COMMENTS} WHERE {_OF_TABLE}"  # noqa: S608  (our own names)
    session.duck.execute(f"INSERT OR REPLACE INTO {_COMMENTS} {read}", [*place, *origin])


def swapped(session: Session, statement: Statement) -> None:
    """ALTER TABLE a SWAP WITH b: two renames in one transaction; grants and comments go with their table."""
    one, other = (statement.full_name(table) for table in statement.target_nodes())
    places = [session.place_of(name) for name in (one, other)]
    for name, place in zip((one, other), places, strict=True):
        if not session.duck.execute(_IS_TABLE, list(place)).fetchall():
            raise missing("Table", name)
    if places[0][:2] != places[1][:2]:
        raise unsupported(statement.sql, "SWAP WITH a table of another schema")
    between = (*places[0][:2], "_firn_swapped")
    moves = [(places[0], between), (places[1], places[0]), (between, places[1])]
    table_annotations.in_one_transaction(session.duck, [_renamed(old, new) for old, new in moves])
    for old, new in moves:
        session.account.grants.rename("TABLE", ".".join(old), ".".join(new))
        for kept in ("_fs_tables_ext", "_fs_columns_ext"):
            table = f"_fs_global._fs_information_schema.{kept}"
            session.store.query(f"UPDATE {table} SET ext_table_name = ? WHERE {_OF_TABLE}", [new[2], *old])  # noqa: S608


def _renamed(old: Place, new: Place) -> str:
    return f"ALTER TABLE {table_annotations.quoted(old)} RENAME TO {table_annotations.identifier(new[2])}"
