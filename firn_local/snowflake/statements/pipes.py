"""PIPE objects: made, shown, described and dropped, with their text as it was written. They load nothing by themselves.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-pipe, show-pipes, desc-pipe, drop-pipe. A pipe over
DATA_SOURCE(TYPE => 'STREAMING') and one over a stage are kept alike; what its SELECT says is looked at by who runs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firn_local.snowflake.privileges import enforcement, grant_table
from firn_local.snowflake.privileges.requirements import ANY, Need
from firn_local.snowflake.sql.errors import compilation_error, duplicate, missing
from firn_local.snowflake.sql.result_set import TEXT, TIME, Answer
from firn_local.snowflake.sql.tokenizer import Words
from firn_local.snowflake.statements import grants, pipe_table

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session
    from firn_local.snowflake.statements.pipe_table import Row

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


def _create(session: Session, sql: str) -> Answer:
    pipe = _parsed(session, sql)
    engine = session.shared.engine
    short = pipe.name.rpartition(".")[2]
    enforcement.demand(session, Need(("CREATE PIPE",), "SCHEMA", pipe.name.rpartition(".")[0]))
    with session.ddl():
        if pipe_table.rows(engine, pipe.name):
            enforcement.refuse_unseen(session, "PIPE", pipe.name)
            if pipe.if_absent:
                return Answer.status(f"{short} already exists, statement succeeded.")
            if not pipe.replace:
                raise duplicate(short)
            enforcement.demand(session, Need(("OWNERSHIP",), "PIPE", pipe.name))
        _demand_table(session, pipe.target)
        pipe_table.store(engine, pipe.name, pipe.definition, pipe.comment)
        grants.record_owner(session, "PIPE", pipe.name, replaced=pipe.replace)
    return Answer.status(f"Pipe {short} successfully created.")


def _parsed(session: Session, sql: str) -> _Pipe:
    words = Words(sql)
    words.expect("CREATE")
    replace = words.skip("OR", "REPLACE")
    words.expect("PIPE")
    if_absent = words.skip("IF", "NOT", "EXISTS")
    name = session.full_name(words.name())
    options = words.options("AS")
    words.expect("AS")
    definition = words.rest()
    words.expect("COPY", "INTO")
    target = session.full_name(words.name())
    words.until("FROM")
    words.expect("FROM")
    return _Pipe(name, target, definition, str(options.get("COMMENT", "")), replace, if_absent)


def _demand_table(session: Session, target: str) -> None:
    sql = "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
    if not session.shared.engine.query(sql, target.split(".", 2)):
        raise missing("Table", target)
    enforcement.demand(session, Need(("INSERT",), "TABLE", target))


def _show(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("SHOW", "PIPES")
    like = words.like()
    prefix = _scope(session, words)
    rows = [row for row in pipe_table.rows(session.shared.engine) if row[1].startswith(prefix)]
    seen = enforcement.visible(session, "PIPE", [row[1] for row in rows])
    shown = [row for row in rows if row[1] in seen and (like is None or like.fullmatch(row[1].split(".", 2)[2]))]
    return Answer(_COLUMNS, [_shown(session, row) for row in shown])


def _scope(session: Session, words: Words) -> str:
    """What the full names of the pipes begin with."""
    if not words.skip("IN"):
        schema = f"{session.schema}." if session.schema else ""
        return f"{session.database}.{schema}" if session.database else ""
    if words.skip("ACCOUNT"):
        return ""
    if words.skip("DATABASE"):
        return f"{words.name() if words else session.database}."
    words.skip("SCHEMA")
    schema = words.name() if words else str(session.schema)
    return f"{schema}." if "." in schema else f"{session.database}.{schema}."


def _describe(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect(words.peek())
    words.expect("PIPE")
    name = session.full_name(words.name())
    words.end()
    enforcement.demand(session, Need(ANY, "PIPE", name))
    if not (rows := pipe_table.rows(session.shared.engine, name)):
        raise compilation_error(NO_PIPE, f"Pipe '{name}' does not exist or not authorized.")
    return Answer(_COLUMNS, [_shown(session, rows[0])])


def _drop(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("DROP", "PIPE")
    if_exists = words.skip("IF", "EXISTS")
    name = session.full_name(words.name())
    words.end()
    engine = session.shared.engine
    if if_exists and (not pipe_table.rows(engine, name) or enforcement.holds_nothing(session, "PIPE", name)):
        return Answer.status("Drop statement executed successfully.")
    enforcement.demand(session, Need(("OWNERSHIP",), "PIPE", name))
    with session.ddl():
        if not pipe_table.rows(engine, name):
            raise compilation_error(NO_PIPE, f"Pipe '{name}' does not exist or not authorized.")
        pipe_table.remove(engine, name)
        grant_table.forget(engine, "PIPE", name)
    return Answer.status(f"{name.rpartition('.')[2]} successfully dropped.")


def _shown(session: Session, row: Row) -> tuple[Any, ...]:
    created_on, full_name, definition, comment = row
    database, schema, name = full_name.split(".", 2)
    owner = session.shared.holdings.now().owner("PIPE", full_name)
    kind = "STREAMING" if "DATA_SOURCE" in definition.upper() else "STAGE"
    return (
        created_on, name, database, schema, definition, owner, None, comment, None, None, None, "ROLE", None, kind,
    )  # fmt: skip


COMMANDS = {
    ("CREATE", "PIPE"): _create,
    ("CREATE", "OR", "REPLACE", "PIPE"): _create,
    ("SHOW", "PIPES"): _show,
    ("DESC", "PIPE"): _describe,
    ("DESCRIBE", "PIPE"): _describe,
    ("DROP", "PIPE"): _drop,
}
