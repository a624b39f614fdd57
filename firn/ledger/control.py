"""Table FIRN_SINKS, beside the ledger: the desired state of each sink, and what its supervisor reported last.

Every supervisor and every `firn sink ...` reaches it, on whichever machine. Not the truth about progress, which is the
ledger's (`firn.ledger.table`): a row that says running proves nothing (`firn.operations.health`).

Statements: CREATE TABLE ... AS SELECT, SELECT, INSERT, UPDATE, DELETE, IFF, DATEDIFF, SYSDATE
(https://docs.snowflake.com/en/sql-reference/sql/create-table, .../update, .../delete, .../functions/iff,
.../functions/sysdate).
All times are SYSDATE(): Snowflake's own clock, in UTC. Keys are not enforced in Snowflake and INSERTs do not wait for
each other, so the table is made together with a lock row (SINK = ''), which who inserts updates first.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from firn.errors import TerminalError
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.snowflake.connection import execute, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace
from firn.snowflake.tables import make_unless_there
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

TABLE = "FIRN_SINKS"
E = TypeVar("E", bound=StrEnum)

_CREATE = """
CREATE TABLE {table} (
  SINK VARCHAR, WANTED VARCHAR, WANTED_BY VARCHAR, WANTED_AT TIMESTAMP_NTZ, STATE VARCHAR, SINCE TIMESTAMP_NTZ,
  WHY VARCHAR, NEXT_STEP VARCHAR, STATS VARCHAR, UPDATED_AT TIMESTAMP_NTZ
) AS SELECT '', '', '', SYSDATE(), '', SYSDATE(), '', '', '{{}}', SYSDATE()
"""
_LOCK = "UPDATE {table} SET UPDATED_AT = SYSDATE() WHERE SINK = ''"
_READ = """
SELECT SINK, WANTED, WANTED_BY, WANTED_AT, STATE, SINCE, WHY, NEXT_STEP, STATS, UPDATED_AT,
       DATEDIFF(MILLISECOND, UPDATED_AT, SYSDATE()) AS SILENT
FROM {table} WHERE SINK = ?
"""
_READ_ALL = """
SELECT SINK, WANTED, WANTED_BY, WANTED_AT, STATE, SINCE, WHY, NEXT_STEP, STATS, UPDATED_AT,
       DATEDIFF(MILLISECOND, UPDATED_AT, SYSDATE()) AS SILENT
FROM {table} WHERE SINK <> '' ORDER BY SINK
"""
_INSERT = """
INSERT INTO {table} (SINK, WANTED, WANTED_BY, WANTED_AT, STATE, SINCE, WHY, NEXT_STEP, STATS, UPDATED_AT)
SELECT ?, 'running', '', NULL, 'stopped', SYSDATE(), '', '', '{{}}', NULL
"""
_REMOVE = "DELETE FROM {table} WHERE SINK = ? AND WANTED = ? AND STATE <> ?"
_REQUEST = "UPDATE {table} SET WANTED = ?, WANTED_BY = ?, WANTED_AT = SYSDATE() WHERE SINK = ?"
# The right-hand sides see the row as it was: SINCE stays while the state does.
# A failure from before the last request is another one: the sink was wanted again in between.
_REPORT = """
UPDATE {table} SET SINCE = IFF(STATE = ? AND UPDATED_AT IS NOT NULL
    AND (STATE <> 'failed' OR WANTED_AT IS NULL OR SINCE >= WANTED_AT), SINCE, SYSDATE()), STATE = ?, WHY = ?,
  NEXT_STEP = ?, STATS = ?, UPDATED_AT = SYSDATE()
WHERE SINK = ?
"""


class ControlTable:
    """FIRN_SINKS of one schema, as one sink uses it. Holds no connection: each call takes one.

    All calls raise the errors of `firn.snowflake.connection`; a write that met one may be repeated.
    """

    def __init__(self, namespace: Namespace, sink: str) -> None:
        self._namespace, self._name, self._sink = namespace, namespace.qualified(TABLE), sink

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the table with its lock row, both in one statement, unless it is there."""
        create = _CREATE.format(table=self._name)
        make_unless_there(connection, self._namespace, TABLE, lambda: execute(connection, create))

    def read(self, connection: SnowflakeConnection) -> ControlRecord | None:
        """The sink's row; None where it has none, or where there is no table yet."""
        try:
            rows = query(connection, _READ.format(table=self._name), (self._sink,))
        except MissingObjectError:
            return None
        return _record(rows[0]) if rows else None

    def request(self, connection: SnowflakeConnection, desired: DesiredState, by: str) -> None:
        """Set the desired state; the last request counts. The table must be there."""
        self._write(connection, _REQUEST, (desired.value, by))

    def report(
        self,
        connection: SnowflakeConnection,
        state: State,
        *,
        reason: str = "",
        next_step: str = "",
        stats: Mapping[str, Any] | None = None,
    ) -> None:
        """Report the state, and that the supervisor lives. `stats`: plain values. The table must be there."""
        document = json.dumps({**(stats or {}), "host": socket.gethostname(), "pid": os.getpid()})
        self._write(connection, _REPORT, (state.value, state.value, reason, next_step, document))

    def remove(self, connection: SnowflakeConnection) -> None:
        """Delete the row, unless a start must know it: another desired state than running, or a failure."""
        values = (self._sink, DesiredState.RUNNING.value, State.FAILED.value)
        execute(connection, _REMOVE.format(table=self._name), values)

    def _write(self, connection: SnowflakeConnection, statement: str, values: tuple[str, ...]) -> None:
        """Change the sink's row; it is made first where there is none."""
        if execute(connection, statement.format(table=self._name), (*values, self._sink)):
            return
        with transaction(connection):
            self._lock(connection)
            if not query(connection, _READ.format(table=self._name), (self._sink,)):
                execute(connection, _INSERT.format(table=self._name), (self._sink,))
            execute(connection, statement.format(table=self._name), (*values, self._sink))

    def _lock(self, connection: SnowflakeConnection) -> None:
        """Make other sessions that insert wait until this transaction has ended."""
        if execute(connection, _LOCK.format(table=self._name)) != 1:
            raise TerminalError(
                f"Table {self._name} has no lock row, or several.",
                where=f"sink {self._sink}",
                next_step="Somebody changed it by hand: it must hold exactly one row with SINK = ''. DROP TABLE "
                f"{self._name} loses no position; the next start makes it again.",
            )


def requester() -> str:
    """Who asks, for `request`: user@host. In a container the user may have no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def read_all(connection: SnowflakeConnection, namespace: Namespace) -> list[ControlRecord]:
    """All sinks of a schema that ever ran under a supervisor or got a request, by name; none without the table."""
    try:
        rows = query(connection, _READ_ALL.format(table=namespace.qualified(TABLE)))
    except MissingObjectError:
        return []
    return [_record(row) for row in rows]


def _record(row: Mapping[str, Any]) -> ControlRecord:
    silent = row["SILENT"]
    return ControlRecord(
        sink=row["SINK"],
        desired=_known(DesiredState, row["WANTED"], DesiredState.RUNNING),
        desired_by=row["WANTED_BY"] or "",
        desired_at=_utc(row["WANTED_AT"]),
        state=_known(State, row["STATE"], State.STOPPED),
        since=_utc(row["SINCE"]),
        reason=row["WHY"] or "",
        next_step=row["NEXT_STEP"] or "",
        stats=_stats(row["STATS"]),
        updated_at=_utc(row["UPDATED_AT"]),
        silent_seconds=None if silent is None else int(silent) / 1000,
    )


def _known(kind: type[E], text: str | None, otherwise: E) -> E:
    """The member; `otherwise` for a text that somebody wrote by hand, or that a newer Firn knows."""
    return kind(text) if text in list(kind) else otherwise


def _stats(text: str | None) -> dict[str, Any]:
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _utc(time: datetime | None) -> datetime | None:
    return time and time.replace(tzinfo=UTC)
