"""How long the changes of a table are kept, and forgetting those that no stream waits for.

Changes are kept for DATA_RETENTION_TIME_IN_DAYS, and for a stream that has not consumed them up to
MAX_DATA_EXTENSION_TIME_IN_DAYS. Source: https://docs.snowflake.com/en/user-guide/streams-manage (staleness) and
sql-reference/parameters.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb

from firn_local.snowflake.change_tracking.stream_table import StreamTable
from firn_local.snowflake.change_tracking.tracked_tables import TrackedTable, TrackedTables
from firn_local.snowflake.change_tracking.versions import commits_of
from firn_local.snowflake.store import table_annotations

RETENTION, EXTENSION = "DATA_RETENTION_TIME_IN_DAYS", "MAX_DATA_EXTENSION_TIME_IN_DAYS"
DEFAULTS = {RETENTION: 1, EXTENSION: 14}
LONGEST = 90
"""Days that either parameter may have at most."""


def kept_for(conn: duckdb.DuckDBPyConnection, table: TrackedTable) -> timedelta:
    """How long a stream on the table may wait before it is stale: the longer of the two times."""
    return timedelta(days=max(_days(conn, table).values()))


def forget_old_changes(tables: TrackedTables, streams: StreamTable) -> int:
    """Remove logged changes older than their retention that every stream has consumed, or is too late for; how many."""
    removed, now = 0, streams.clock()
    with streams.writing() as conn:
        for table in tables.all():
            old = now - timedelta(days=_days(conn, table)[RETENTION])
            waiting = [s for s in streams.on(table.id) if now <= streams.read_at(s) + kept_for(conn, table)]
            floor = min((streams.offset(stream.id).version for stream in waiting), default=None)
            removed += _forget(conn, table, old, floor)
    return removed


def _forget(conn: duckdb.DuckDBPyConnection, table: TrackedTable, old: datetime, floor: int | None) -> int:
    consumed = "TRUE" if floor is None else f"version <= {floor}"
    versions = f"SELECT tx FROM {commits_of(table.place[0])} WHERE made_at < ? AND {consumed}"
    return int(conn.execute(f'DELETE FROM {table.log} WHERE "$tx" IN ({versions})', [old]).fetchall()[0][0])


def _days(conn: duckdb.DuckDBPyConnection, table: TrackedTable) -> dict[str, int]:
    noted = table_annotations.table(conn, table.place)
    return {name: int(noted.get(name, default)) for name, default in DEFAULTS.items()}
