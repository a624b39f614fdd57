"""SHOW CHANNELS: the channels of Snowpipe Streaming into tables that the role may see.

Source: https://docs.snowflake.com/en/sql-reference/sql/show-channels. What opens and moves them is `streaming`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.sql.result_set import NUMBER, TEXT, TIME, ResultSet
from firn_local.snowflake.sql.tokenizer import Tokenizer
from firn_local.snowflake.store import channel_table
from firn_local.snowflake.store.channel_table import ChannelRow

_COLUMNS = [
    ("created_on", TIME), ("name", TEXT), ("database_name", TEXT), ("schema_name", TEXT), ("table_name", TEXT),
    ("pipe_name", TEXT), ("client_sequencer", NUMBER), ("row_sequencer", NUMBER), ("offset_token", TEXT),
]  # fmt: skip


def _show(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("SHOW", "CHANNELS")
    like = tokens.like()
    where = _scope(session, tokens)
    tokens.end()
    found = [
        (database, row) for database, row in channel_table.everywhere(session.store) if _is_in(database, row, where)
    ]
    seen = enforcement.visible(session, "TABLE", [row.table_name for _, row in found])
    return ResultSet(
        _COLUMNS,
        [
            _row(database, row)
            for database, row in found
            if row.table_name in seen and (like is None or like.fullmatch(row.channel_name))
        ],
    )


def _scope(session: Session, tokens: Tokenizer) -> tuple[str, str]:
    """(kind, full name) of what the channels are in; without IN, the current database or else the account."""
    current = ("DATABASE", session.database) if session.database else ("ACCOUNT", "")
    if not tokens.skip("IN"):
        return current
    kind = next((word for word in ("ACCOUNT", "DATABASE", "SCHEMA", "TABLE", "PIPE") if tokens.skip(word)), "SCHEMA")
    if kind == "ACCOUNT":
        return kind, ""
    if not tokens:
        return (kind, f"{session.database}.{session.schema}") if kind == "SCHEMA" else current
    name = tokens.name()
    if kind == "SCHEMA" and "." not in name:
        return kind, f"{session.database}.{name}"
    return kind, name if kind in {"DATABASE", "SCHEMA"} else session.full_name(name)


def _is_in(database: str, row: ChannelRow, where: tuple[str, str]) -> bool:
    places = {
        "ACCOUNT": "",
        "DATABASE": database,
        "SCHEMA": f"{database}.{row.schema_name}",
        "TABLE": row.table_name,
        "PIPE": f"{database}.{row.schema_name}.{row.pipe_name}",
    }
    return places[where[0]] == where[1]


def _row(database: str, row: ChannelRow) -> tuple[Any, ...]:
    created_on = datetime.fromtimestamp(row.created_ms / 1000, UTC)
    table = row.table_name.split(".", 2)[2]
    names = (row.channel_name, database, row.schema_name, table, row.pipe_name)
    return (created_on, *names, row.client_sequencer, row.row_sequencer, row.token)


FAMILY = Family(commands={("SHOW", "CHANNELS"): _show})
