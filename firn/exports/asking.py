"""Whether a source may have data, asked without a warehouse.

SYSTEM$STREAM_HAS_DATA for streams
(https://docs.snowflake.com/en/sql-reference/functions/system_stream_has_data): FALSE is certain, and keeps the stream
from becoming stale; TRUE may be a change that came and went. SYSTEM$LAST_CHANGE_COMMIT_TIME for tables and views
(.../functions/system_last_change_commit_time): a token that differs once something was committed. Both are a SELECT
without a table, which cloud services answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firn.exports.source import Source
from firn.snowflake.connection import query
from firn.snowflake.identifiers import text_literal, written

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_STREAM, _TABLE = "SYSTEM$STREAM_HAS_DATA({name})", "SYSTEM$LAST_CHANGE_COMMIT_TIME({name})"


@dataclass(frozen=True)
class Standing:
    """Whether there may be data, and for tables what to hand in as `seen` next time, once it is moved."""

    has_data: bool
    seen: str | None = None


def outbox_has_data(connection: SnowflakeConnection, source: Source, seen: str | None = None) -> Standing:
    """Ask about an outbox that a task of Snowflake fills. seen: what it said before it was last read.

    Settling changes it too, so what was published once is asked about once more.
    """
    sql = f"SELECT {_TABLE.format(name=text_literal(source.outbox))} AS A0"
    now = str(query(connection, sql)[0]["A0"])
    return Standing(has_data=now != seen, seen=now)


def has_data(connection: SnowflakeConnection, source: Source, seen: str | None = None) -> Standing:
    """Ask about a source. seen: what the tables said before the last move; None: nothing was moved yet.

    A source that names nothing to ask may always have data. Raises as `connection.query`.
    """
    if not source.asked:
        return Standing(has_data=True)
    function = _STREAM if source.asks_streams else _TABLE
    asked = [function.format(name=text_literal(written(name))) for name in source.asked]
    (row,) = query(connection, "SELECT " + ", ".join(f"{call} AS A{number}" for number, call in enumerate(asked)))
    answers = [row[f"A{number}"] for number in range(len(asked))]
    if source.asks_streams:
        return Standing(has_data=any(str(answer).lower() == "true" for answer in answers))
    now = ",".join(str(answer) for answer in answers)
    return Standing(has_data=now != seen, seen=now)
