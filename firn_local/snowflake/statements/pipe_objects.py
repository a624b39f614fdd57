"""PIPE objects: made, shown, described and dropped, with their text as it was written. None loads a stage by itself.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-pipe, show-pipes, desc-pipe, drop-pipe. A pipe over
DATA_SOURCE(TYPE => 'STREAMING') and one over a stage are kept alike; `streaming` evaluates the first kind. Channels go
with their pipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firn_local.snowflake.engine import named_objects
from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, ownership
from firn_local.snowflake.privileges.requirements import Need
from firn_local.snowflake.sql.result_set import TEXT, TIME, ResultSet
from firn_local.snowflake.sql.sql_errors import duplicate, missing
from firn_local.snowflake.sql.tokenizer import Tokenizer
from firn_local.snowflake.store import channel_table, pipe_table
from firn_local.snowflake.store.duckdb_store import Store
from firn_local.snowflake.store.pipe_table import KeptPipe

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
        if pipe_table.find(store, pipe.name):
            enforcement.refuse_unseen(session, "PIPE", pipe.name)
            if pipe.if_absent:
                return ResultSet.status(f"{short} already exists, statement succeeded.")
            if not pipe.replace:
                raise duplicate(short)
            enforcement.demand(session, Need(("OWNERSHIP",), "PIPE", pipe.name))
        _demand_table(session, pipe.target)
        channel_table.forget_pipe(store, pipe.name)
        pipe_table.keep(store, pipe.name, pipe.definition, pipe.comment, pipe.target)
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
    prefix = session.scope(tokens)
    pipes = [pipe for pipe in pipe_table.rows(session.store) if pipe.name.startswith(prefix)]
    seen = enforcement.visible(session, "PIPE", [pipe.name for pipe in pipes])
    listed = [p for p in pipes if p.name in seen and (like is None or like.fullmatch(p.name.split(".", 2)[2]))]
    return ResultSet(_COLUMNS, [_row(session, pipe) for pipe in listed])


def _describe(session: Session, sql: str) -> ResultSet:
    return ResultSet(_COLUMNS, [_row(session, named_objects.described(session, sql, "PIPE", _find))])


def _find(session: Session, name: str) -> KeptPipe | None:
    return pipe_table.find(session.store, name)


def _drop(session: Session, sql: str) -> ResultSet:
    return named_objects.dropped(session, sql, "PIPE", _find, _remove)


def _remove(session: Session, name: str, _: KeptPipe) -> None:
    channel_table.forget_pipe(session.store, name)
    pipe_table.remove(session.store, name)


def _row(session: Session, pipe: KeptPipe) -> tuple[Any, ...]:
    database, schema, name = pipe.name.split(".", 2)
    owner = session.role_grants.now().owner("PIPE", pipe.name)
    kind = "STREAMING" if pipe.is_streaming else "STAGE"
    return (
        pipe.created_on, name, database, schema, pipe.definition, owner, None, pipe.comment, None, None, None, "ROLE",
        None, kind,
    )  # fmt: skip


def _forget_inside(store: Store, inside: str) -> None:
    """Forget the pipes and channels of a dropped database or schema."""
    pipe_table.forget_inside(store, inside)
    channel_table.forget_schema(store, inside)


FAMILY = Family(
    commands={
        ("CREATE", "PIPE"): _create,
        ("CREATE", "OR", "REPLACE", "PIPE"): _create,
        ("SHOW", "PIPES"): _show,
        ("DESC", "PIPE"): _describe,
        ("DESCRIBE", "PIPE"): _describe,
        ("DROP", "PIPE"): _drop,
    },
    create_tables=pipe_table.create_table,
    on_removed=_forget_inside,
)
