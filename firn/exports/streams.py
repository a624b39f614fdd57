"""Streams of Snowflake as an export uses them: described and made. Their rows are for `moves`.

Sources: https://docs.snowflake.com/en/sql-reference/sql/create-stream, .../show-streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firn.errors import ConfigError
from firn.snowflake.connection import execute
from firn.snowflake.grants import name_parts
from firn.snowflake.identifiers import FullName, text_literal, written
from firn.snowflake.tables import shown_object

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_CREATE = "CREATE STREAM IF NOT EXISTS {stream} ON {kind} {base}{initial} COMMENT = {comment}"
_REPLACE = """
CREATE OR REPLACE STREAM {stream} COPY GRANTS ON {kind} {base}{append_only} SHOW_INITIAL_ROWS = TRUE COMMENT = {comment}
"""
_APPEND_ONLY = " APPEND_ONLY = TRUE"
_INITIAL = " SHOW_INITIAL_ROWS = TRUE"
_COMMENT = "firn export {export}, source {source}"


@dataclass(frozen=True)
class StreamInfo:
    """A stream as SHOW STREAMS has it. base: its table or view. stale_after: UTC; None where Snowflake does not say."""

    name: FullName
    base: FullName
    is_view: bool
    stale: bool
    stale_after: datetime | None
    comment: str = ""
    append_only: bool = False


def find_stream(connection: SnowflakeConnection, name: FullName) -> StreamInfo | None:
    """The stream; None where there is none, or the role may do nothing with it. Needs no warehouse."""
    row = shown_object(connection, "STREAM", name)
    if row is None:
        return None
    base = name_parts(str(row["table_name"]))
    after = row["stale_after"]
    return StreamInfo(
        name,
        (base[0], base[1], base[2]),
        str(row["source_type"]).upper() == "VIEW",
        str(row["stale"]).lower() == "true",
        after.astimezone(UTC) if isinstance(after, datetime) else None,
        str(row["comment"] or ""),
        str(row["mode"]).upper() == "APPEND_ONLY",
    )


def require_stream(connection: SnowflakeConnection, name: FullName, source: str) -> StreamInfo:
    """The stream. Raises ConfigError where there is none."""
    found = find_stream(connection, name)
    if found is None:
        raise ConfigError(
            f"Stream {written(name)} does not exist, or the role may not see it.",
            where=f"source {source}",
            next_step=f"CREATE STREAM {written(name)} ON TABLE <table>; or GRANT SELECT ON STREAM {written(name)} and "
            "on its table to the role.",
        )
    return found


def create_stream(
    connection: SnowflakeConnection,
    stream: FullName,
    base: FullName,
    *,
    export: str,
    source: str,
    initial: bool,
    is_view: bool = False,
) -> None:
    """Make a stream unless it is there. initial: it first returns the rows that are there now."""
    comment = text_literal(_COMMENT.format(export=export, source=source))
    execute(
        connection,
        _CREATE.format(
            stream=written(stream),
            kind="VIEW" if is_view else "TABLE",
            base=written(base),
            initial=_INITIAL if initial else "",
            comment=comment,
        ),
    )


def replace_stream(connection: SnowflakeConnection, stream: FullName, *, source: str) -> None:
    """Make a stream again that first returns the rows that are there now; its kind, comment and grants stay.

    Raises ConfigError where there is none.
    """
    found = require_stream(connection, stream, source)
    execute(
        connection,
        _REPLACE.format(
            stream=written(stream),
            kind="VIEW" if found.is_view else "TABLE",
            base=written(found.base),
            append_only=_APPEND_ONLY if found.append_only else "",
            comment=text_literal(found.comment),
        ),
    )
