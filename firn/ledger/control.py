"""Table FIRN_SINKS, beside the ledger: what the supervisor of each sink reported last. Read with the desired state.

Every supervisor and every `firn sink ...` reaches it, on whichever machine. Not the truth about progress, which is the
ledger's (`firn.ledger.table`), nor about life: a row that says running proves nothing (`firn.operations.health`). What
people want stands in a table of its own (`requests`).

Statements: CREATE TABLE ... AS SELECT, UPDATE, IFF, SYSDATE (https://docs.snowflake.com/en/sql-reference/sql/create-table,
.../update, .../functions/iff, .../functions/sysdate). All times are SYSDATE(): Snowflake's own clock, in UTC. How long
ago that is, each machine reckons by its own clock: a context function would make every look need a warehouse.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from firn.ledger.control_record import ControlRecord, DesiredState, State, known
from firn.ledger.requests import Request, RequestTable, read_requests
from firn.ledger.sink_table import SinkTable, read_rows
from firn.snowflake.identifiers import Namespace

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

TABLE = "FIRN_SINKS"

_CREATE = """
CREATE TABLE {table} (
  SINK VARCHAR, STATE VARCHAR, SINCE TIMESTAMP_NTZ, WHY VARCHAR, NEXT_STEP VARCHAR, STATS VARCHAR,
  UPDATED_AT TIMESTAMP_NTZ
) AS SELECT '', '', SYSDATE(), '', '', '{{}}', SYSDATE()
"""
_COLUMNS = "STATE, SINCE, WHY, NEXT_STEP, STATS, UPDATED_AT"
_FIRST = {
    "STATE": f"'{State.STOPPED}'",
    "SINCE": "SYSDATE()",
    "WHY": "''",
    "NEXT_STEP": "''",
    "STATS": "'{}'",
    "UPDATED_AT": "NULL",
}
# The right-hand sides see the row as it was: SINCE stays while the state does.
# A failure from before the last request is another one: the sink was wanted again in between.
_REPORT = """
SINCE = IFF(STATE = ? AND UPDATED_AT IS NOT NULL AND (STATE <> 'failed'
    OR SINCE >= COALESCE((SELECT MAX(WANTED_AT) FROM {requests} WHERE SINK = ?), SINCE)), SINCE, SYSDATE()),
  STATE = ?, WHY = ?, NEXT_STEP = ?, STATS = ?, UPDATED_AT = SYSDATE()
"""


class ControlTable:
    """FIRN_SINKS and FIRN_REQUESTS of one schema, as one sink uses them. Errors: as `SinkTable`."""

    def __init__(self, namespace: Namespace, sink: str) -> None:
        self._sink, self._requests = sink, RequestTable(namespace, sink)
        self._table = SinkTable(
            namespace, TABLE, sink, create=_CREATE, touch="UPDATED_AT", columns=_COLUMNS, insert=_FIRST
        )

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make both tables, unless they are there."""
        self._requests.ensure(connection)
        self._table.ensure(connection)

    def read(self, connection: SnowflakeConnection) -> ControlRecord | None:
        """What is known of the sink; None where nobody wanted or reported anything."""
        row, request = self._table.read(connection), self._requests.read(connection)
        return _record(self._sink, row, request) if row or request else None

    def read_request(self, connection: SnowflakeConnection) -> Request | None:
        """The last request alone; None where nobody ever made one."""
        return self._requests.read(connection)

    def request(self, connection: SnowflakeConnection, desired: DesiredState, by: str) -> None:
        """Set the desired state; the last request counts. The tables must be there."""
        self._requests.request(connection, desired, by)

    def report(
        self,
        connection: SnowflakeConnection,
        state: State,
        *,
        reason: str = "",
        next_step: str = "",
        stats: Mapping[str, Any] | None = None,
    ) -> None:
        """Report the state, with plain values. The tables must be there."""
        document = json.dumps({**(stats or {}), "host": socket.gethostname(), "pid": os.getpid()})
        update = _REPORT.format(requests=self._requests.name)
        self._table.write(connection, update, (state.value, self._sink, state.value, reason, next_step, document))

    def remove(self, connection: SnowflakeConnection) -> None:
        """Delete both rows, but what a start must know: another desired state than running, or a failure."""
        self._table.remove(connection, "STATE <> ?", (State.FAILED.value,))
        self._requests.remove(connection)


def requester() -> str:
    """Who asks, for `request`: user@host. In a container the user may have no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def read_all(connection: SnowflakeConnection, namespace: Namespace) -> list[ControlRecord]:
    """All sinks of a schema that ever ran under a supervisor or got a request, by name; none without the tables."""
    rows = {row["SINK"]: row for row in read_rows(connection, namespace.qualified(TABLE), _COLUMNS)}
    requests = read_requests(connection, namespace)
    return [_record(sink, rows.get(sink), requests.get(sink)) for sink in sorted({*rows, *requests})]


def _record(sink: str, row: Mapping[str, Any] | None, request: Request | None) -> ControlRecord:
    row, request = row or {}, request or Request(DesiredState.RUNNING, "", None)
    updated = _utc(row.get("UPDATED_AT"))
    return ControlRecord(
        sink=sink,
        desired=request.desired,
        desired_by=request.by,
        desired_at=request.at,
        state=known(State, row.get("STATE"), State.STOPPED),
        since=_utc(row.get("SINCE")),
        reason=row.get("WHY") or "",
        next_step=row.get("NEXT_STEP") or "",
        stats=_stats(row.get("STATS")),
        updated_at=updated,
        silent_seconds=max(0.0, (datetime.now(UTC) - updated).total_seconds()) if updated else None,
    )


def _stats(text: str | None) -> dict[str, Any]:
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _utc(time: datetime | None) -> datetime | None:
    return time and time.replace(tzinfo=UTC)
