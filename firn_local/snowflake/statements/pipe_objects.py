"""PIPE objects: made, shown, described and dropped, with their text as it was written. They load nothing by themselves.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-pipe, show-pipes, desc-pipe, drop-pipe. A pipe over
DATA_SOURCE(TYPE => 'STREAMING') and one over a stage are kept alike; what its SELECT says is looked at by who runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, ownership
from firn_local.snowflake.privileges.requirements import ANY, Need
from firn_local.snowflake.sql.result_set import TEXT, TIME, ResultSet
from firn_local.snowflake.sql.sql_errors import compilation_error, duplicate, missing
from firn_local.snowflake.sql.tokenizer import Tokenizer
from firn_local.snowflake.store.duckdb_store import Store

_TABLE = "_fs_global._firn.pipes"
Row = tuple[datetime, str, str, str]
NO_PIPE = (2003, "02000")
_COLUMNS = [
    ("created_on", TIME), ("name", TEXT), ("database_name", TEXT), ("schema_name", TEXT), ("definition", TEXT),
    ("owner", TEXT), ("notification_channel", TEXT), ("comment", TEXT), ("integration", TEXT), ("pattern", TEXT),
    ("error_integration", TEXT), ("owner_role_type", TEXT), ("invalid_reason", TEXT), ("kind", TEXT),
]  # fmt: skip


@dataclass(frozen=True)
class _Pipe:
    """What CREATE PIPE says: `name` and `target` are full names."""

    name: str
    target: str
    definition: str
    comment: str
    replace: bool
    if_absent: bool


def _create(session: Session, sql: str) -> ResultSet:
    pipe = _parsed(session, sql)
    store = session.store
    short = pipe.name.rpartition(".")[2]
    enforcement.demand(session, Need(("CREATE PIPE",), "SCHEMA", pipe.name.rpartition(".")[0]))
    with session.ddl():
        if _rows(store, pipe.name):
            enforcement.refuse_unseen(session, "PIPE", pipe.name)
            if pipe.if_absent:
                return ResultSet.status(f"{short} already exists, statement succeeded.")
            if not pipe.replace:
                raise duplicate(short)
            enforcement.demand(session, Need(("OWNERSHIP",), "PIPE", pipe.name))
        _demand_table(session, pipe.target)
        _keep(store, pipe.name, pipe.definition, pipe.comment)
        ownership.record_owner(session.role_grants, session.role, "PIPE", pipe.name, replaced=pipe.replace)
    return ResultSet.status(f"Pipe {short} successfully created.")


def _parsed(session: Session, sql: str) -> _Pipe:
    tokens = Tokenizer(sql)
    tokens.expect("CREATE")
    replace = tokens.skip("OR", "REPLACE")
    tokens.expect("PIPE")
    if_absent = tokens.skip("IF", "NOT", "EXISTS")
    name = session.full_name(tokens.name())
    options = tokens.options("AS")
    tokens.expect("AS")
    definition = tokens.rest()
    tokens.expect("COPY", "INTO")
    target = session.full_name(tokens.name())
    tokens.until("FROM")
    tokens.expect("FROM")
    return _Pipe(name, target, definition, str(options.get("COMMENT", "")), replace, if_absent)


def _demand_table(session: Session, target: str) -> None:
    sql = "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
    if not session.store.query(sql, target.split(".", 2)):
        raise missing("Table", target)
    enforcement.demand(session, Need(("INSERT",), "TABLE", target))


def _show(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("SHOW", "PIPES")
    like = tokens.like()
    prefix = _scope(session, tokens)
    rows = [row for row in _rows(session.store) if row[1].startswith(prefix)]
    seen = enforcement.visible(session, "PIPE", [row[1] for row in rows])
    listed = [row for row in rows if row[1] in seen and (like is None or like.fullmatch(row[1].split(".", 2)[2]))]
    return ResultSet(_COLUMNS, [_row(session, row) for row in listed])


def _scope(session: Session, tokens: Tokenizer) -> str:
    """What the full names of the pipes begin with."""
    if not tokens.skip("IN"):
        schema = f"{session.schema}." if session.schema else ""
        return f"{session.database}.{schema}" if session.database else ""
    if tokens.skip("ACCOUNT"):
        return ""
    if tokens.skip("DATABASE"):
        return f"{tokens.name() if tokens else session.database}."
    tokens.skip("SCHEMA")
    schema = tokens.name() if tokens else str(session.schema)
    return f"{schema}." if "." in schema else f"{session.database}.{schema}."


def _describe(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect(tokens.peek())
    tokens.expect("PIPE")
    name = session.full_name(tokens.name())
    tokens.end()
    enforcement.demand(session, Need(ANY, "PIPE", name))
    if not (rows := _rows(session.store, name)):
        raise compilation_error(NO_PIPE, f"Pipe '{name}' does not exist or not authorized.")
    return ResultSet(_COLUMNS, [_row(session, rows[0])])


def _drop(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("DROP", "PIPE")
    if_exists = tokens.skip("IF", "EXISTS")
    name = session.full_name(tokens.name())
    tokens.end()
    store = session.store
    if if_exists and (not _rows(store, name) or enforcement.holds_nothing(session, "PIPE", name)):
        return ResultSet.status("Drop statement executed successfully.")
    enforcement.demand(session, Need(("OWNERSHIP",), "PIPE", name))
    with session.ddl():
        if not _rows(store, name):
            raise compilation_error(NO_PIPE, f"Pipe '{name}' does not exist or not authorized.")
        _remove(store, name)
        session.account.grants.forget("PIPE", name)
    return ResultSet.status(f"{name.rpartition('.')[2]} successfully dropped.")


def _row(session: Session, row: Row) -> tuple[Any, ...]:
    created_on, full_name, definition, comment = row
    database, schema, name = full_name.split(".", 2)
    owner = session.role_grants.now().owner("PIPE", full_name)
    kind = "STREAMING" if "DATA_SOURCE" in definition.upper() else "STAGE"
    return (
        created_on, name, database, schema, definition, owner, None, comment, None, None, None, "ROLE", None, kind,
    )  # fmt: skip


def _create_table(store: Store) -> None:
    """Make the table; run at every start."""
    store.duck_conn.execute(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} (created_on TIMESTAMPTZ, name VARCHAR PRIMARY KEY, definition VARCHAR, "
        "comment VARCHAR)"
    )


def _rows(store: Store, name: str | None = None) -> list[Row]:
    """(created_on, full name, definition, comment) of one pipe, or of all by name."""
    where, values = ("WHERE name = ?", [name]) if name is not None else ("", [])
    sql = f"SELECT created_on, name, definition, comment FROM {_TABLE} {where} ORDER BY name"  # noqa: S608
    return [(r[0], r[1], r[2], r[3]) for r in store.query(sql, values)]


def _keep(store: Store, name: str, definition: str, comment: str) -> None:
    """Keep a pipe made now; one of that name is replaced."""
    sql = f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?, ?)"  # noqa: S608
    store.query(sql, [datetime.now(UTC), name, definition, comment])


def _remove(store: Store, name: str) -> None:
    """Forget a pipe."""
    store.query(f"DELETE FROM {_TABLE} WHERE name = ?", [name])  # noqa: S608


def _forget_inside(store: Store, inside: str) -> None:
    """Forget the pipes of a dropped database or schema."""
    store.query(f"DELETE FROM {_TABLE} WHERE starts_with(name, ?)", [f"{inside}."])  # noqa: S608


FAMILY = Family(
    commands={
        ("CREATE", "PIPE"): _create,
        ("CREATE", "OR", "REPLACE", "PIPE"): _create,
        ("SHOW", "PIPES"): _show,
        ("DESC", "PIPE"): _describe,
        ("DESCRIBE", "PIPE"): _describe,
        ("DROP", "PIPE"): _drop,
    },
    create_tables=_create_table,
    on_removed=_forget_inside,
)
