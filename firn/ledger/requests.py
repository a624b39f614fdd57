"""Table FIRN_REQUESTS, beside the ledger: the desired state of each sink. People's commands and flows alone write it.

Apart from all that machines write, so that it changes only when somebody wants something: a supervisor reads it again
and again, and while it stays as it is no warehouse is needed for that (`sink_table`). Not for how a sink is, which
`control` says.

Statement: CREATE TABLE ... AS SELECT (https://docs.snowflake.com/en/sql-reference/sql/create-table). Times are
SYSDATE(): Snowflake's own clock, in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from firn.ledger.control_record import DesiredState, known
from firn.ledger.sink_table import SinkTable, read_rows
from firn.snowflake.identifiers import Namespace

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

TABLE = "FIRN_REQUESTS"

_CREATE = """
CREATE TABLE {table} (SINK VARCHAR, WANTED VARCHAR, WANTED_BY VARCHAR, WANTED_AT TIMESTAMP_NTZ)
AS SELECT '', '', '', SYSDATE()
"""
_COLUMNS = "WANTED, WANTED_BY, WANTED_AT"
_FIRST = {"WANTED": f"'{DesiredState.RUNNING}'", "WANTED_BY": "''", "WANTED_AT": "NULL"}
_REQUEST = "WANTED = ?, WANTED_BY = ?, WANTED_AT = SYSDATE()"


@dataclass(frozen=True)
class Request:
    """What somebody wants a sink to do. at: UTC."""

    desired: DesiredState
    by: str
    at: datetime | None


class RequestTable:
    """FIRN_REQUESTS of one schema, as one sink uses it. Errors: as `SinkTable`."""

    def __init__(self, namespace: Namespace, sink: str) -> None:
        self._table = SinkTable(
            namespace, TABLE, sink, create=_CREATE, touch="WANTED_AT", columns=_COLUMNS, insert=_FIRST
        )

    @property
    def name(self) -> str:
        """The full name of the table."""
        return self._table.name

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the table, unless it is there."""
        self._table.ensure(connection)

    def read(self, connection: SnowflakeConnection) -> Request | None:
        """The last request; None where nobody ever made one, or where there is no table yet."""
        row = self._table.read(connection)
        return _request(row) if row else None

    def request(self, connection: SnowflakeConnection, desired: DesiredState, by: str) -> None:
        """Set the desired state; the last request counts. The table must be there."""
        self._table.write(connection, _REQUEST, (desired.value, by))

    def remove(self, connection: SnowflakeConnection) -> None:
        """Delete the request, unless it keeps the sink from starting."""
        self._table.remove(connection, "WANTED = ?", (DesiredState.RUNNING.value,))


def read_requests(connection: SnowflakeConnection, namespace: Namespace) -> dict[str, Request]:
    """The last request of each sink of a schema, by its name; none without the table."""
    rows = read_rows(connection, namespace.qualified(TABLE), _COLUMNS)
    return {row["SINK"]: _request(row) for row in rows}


def _request(row: Mapping[str, Any]) -> Request:
    at = row["WANTED_AT"]
    desired = known(DesiredState, row["WANTED"], DesiredState.RUNNING)
    return Request(desired, row["WANTED_BY"] or "", at and at.replace(tzinfo=UTC))
