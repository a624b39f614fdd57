"""A table with one row a sink, whoever writes it first and at once: what FIRN_REQUESTS and FIRN_SINKS have in common.

Keys are not enforced in Snowflake and INSERTs do not wait for each other, so such a table is made together with a lock
row (SINK = ''), which who inserts updates first. Not for what a row says (`requests`, `control`).

Statements: UPDATE, INSERT, SELECT (https://docs.snowflake.com/en/sql-reference/sql/update, .../insert).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firn.errors import TerminalError
from firn.snowflake.connection import execute, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace, text_literal
from firn.snowflake.tables import make_unless_there
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_LOCK = "UPDATE {table} SET {touch} = SYSDATE() WHERE SINK = ''"
_READ = "SELECT {columns} FROM {table} WHERE SINK = {sink}"
_READ_ALL = "SELECT SINK, {columns} FROM {table} WHERE SINK <> '' ORDER BY SINK"
_INSERT = "INSERT INTO {table} (SINK, {columns}) SELECT ?, {constants}"
_UPDATE = "UPDATE {table} SET {update} WHERE SINK = ?"
_DELETE = "DELETE FROM {table} WHERE SINK = ? AND {condition}"


class SinkTable:
    """One table, as one sink uses it. Holds no connection: each call takes one.

    create: the statement that makes it with its lock row. touch: a column that the lock updates. columns: what is
    read. insert: columns and constants of a first row, but for SINK. Each call raises the errors of
    `firn.snowflake.connection`; a write that met one may be repeated.
    """

    def __init__(
        self,
        namespace: Namespace,
        table: str,
        sink: str,
        *,
        create: str,
        touch: str,
        columns: str,
        insert: Mapping[str, str],
    ) -> None:
        self._namespace, self._table, self._sink = namespace, table, sink
        self.name = namespace.qualified(table)
        self._create, self._columns, self._insert = create.format(table=self.name), columns, insert
        self._lock = _LOCK.format(table=self.name, touch=touch)

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the table with its lock row, both in one statement, unless it is there."""
        make_unless_there(connection, self._namespace, self._table, lambda: execute(connection, self._create))

    def read(self, connection: SnowflakeConnection) -> Mapping[str, Any] | None:
        """The sink's row; None where it has none, or where there is no table yet.

        A fixed text without bound values and context functions: while nobody writes to the table, Snowflake may answer
        from the persisted result of the last one who asked, without a warehouse
        (https://docs.snowflake.com/en/user-guide/querying-persisted-results).
        """
        statement = _READ.format(columns=self._columns, table=self.name, sink=text_literal(self._sink))
        try:
            rows = query(connection, statement)
        except MissingObjectError:
            return None
        return rows[0] if rows else None

    def write(self, connection: SnowflakeConnection, update: str, values: tuple[str, ...]) -> None:
        """Change the sink's row; it is made first where there is none.

        update: what follows SET; values: of its question marks.
        """
        statement = _UPDATE.format(table=self.name, update=update)
        if execute(connection, statement, (*values, self._sink)):
            return
        with transaction(connection):
            if execute(connection, self._lock) != 1:
                raise self._no_lock()
            if self.read(connection) is None:
                columns, constants = ", ".join(self._insert), ", ".join(self._insert.values())
                first = _INSERT.format(table=self.name, columns=columns, constants=constants)
                execute(connection, first, (self._sink,))
            execute(connection, statement, (*values, self._sink))

    def remove(self, connection: SnowflakeConnection, condition: str, values: tuple[str, ...]) -> None:
        """Delete the sink's row where it meets the condition, with the values of its question marks."""
        execute(connection, _DELETE.format(table=self.name, condition=condition), (self._sink, *values))

    def _no_lock(self) -> TerminalError:
        return TerminalError(
            f"Table {self.name} has no lock row, or several.",
            where=f"sink {self._sink}",
            next_step="Somebody changed it by hand: it must hold exactly one row with SINK = ''. DROP TABLE "
            f"{self.name} loses no position; the next start makes it again.",
        )


def read_rows(connection: SnowflakeConnection, name: str, columns: str) -> list[dict[str, Any]]:
    """The rows of all sinks by name, SINK included, as cheap as `SinkTable.read`; none without the table."""
    try:
        return query(connection, _READ_ALL.format(table=name, columns=columns))
    except MissingObjectError:
        return []
