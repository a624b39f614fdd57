"""What a stream, or a CHANGES clause, returns: the query for DuckDB, made of its source's rows at two versions.

A table and a view over one table are worked out of the changed rows alone; a view that joins, of all rows at both
versions. Source: https://docs.snowflake.com/en/user-guide/streams-intro (types of streams, streams on views).
"""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from firn_local.snowflake.change_tracking import row_versions
from firn_local.snowflake.change_tracking.row_versions import Span
from firn_local.snowflake.change_tracking.tracked_tables import TrackedTable, TrackedTables, identifier, names_of
from firn_local.snowflake.change_tracking.view_rows import ID, ViewRows
from firn_local.snowflake.sql.sql_errors import UNSUPPORTED, compilation_error, missing
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.table_annotations import Place

Rows = Callable[[TrackedTable, list[str]], str]


class Source:
    """A table or view whose rows have versions, as one connection sees it."""

    def __init__(self, conn: duckdb.DuckDBPyConnection, tables: TrackedTables, full_name: str, kind: str) -> None:
        self._conn, self._tables, self._kind = conn, tables, kind
        self.place = table_annotations.place_of(full_name, frozenset())
        self._columns = [identifier(column.name) for column in table_annotations.columns(conn, self.place)]

    def base_places(self) -> list[Place]:
        """The tables whose changes count."""
        return [self.place] if self._kind == "TABLE" else ViewRows(self._conn).bases(self.place)

    def changes(self, span: Span, *, append_only: bool = False) -> str:
        """The changes of a span, with METADATA columns."""
        if append_only:
            rows = self._over(lambda table, names: row_versions.added(table, names, span))
            return row_versions.as_inserts(f"({rows})", self._columns)
        if self._is_joined():
            old, new = self.at(span.since), self.at(max(span.until, span.since))
        else:
            old = self._over(lambda t, names: row_versions.before(t, names, span))
            new = self._over(lambda t, names: row_versions.after(t, names, span))
        return row_versions.difference(old, new, self._columns)

    def at(self, version: int) -> str:
        """All rows at a version, with `$id`."""
        return self._over(lambda table, names: row_versions.at(table, names, version))

    def check(self, *, append_only: bool) -> None:
        """Refuse a source that there can be no stream on."""
        if append_only and self._is_joined():
            raise compilation_error(
                UNSUPPORTED, "An append-only stream on a view that joins or unites (local Snowflake)."
            )

    def _is_joined(self) -> bool:
        """Whether rows come of more than one row, or a row may come twice."""
        if self._kind == "TABLE":
            return False
        read: list[Place] = []

        def count(place: Place) -> str:
            read.append(place)
            return '"x"'

        ViewRows(self._conn).with_ids(self.place, count)
        return len(read) > 1

    def _over(self, rows: Rows) -> str:
        if self._kind == "TABLE":
            return rows(self._tracked(self.place), self._columns)
        queries: dict[str, str] = {}

        def named(place: Place) -> str:
            table = self._tracked(place)
            name = identifier(f"$rows of {table.id}")
            queries[name] = rows(table, names_of(self._conn, table))
            return name

        text = ViewRows(self._conn).with_ids(self.place, named)
        for name, query in queries.items():
            text = text.replace(name, f"({query})")
        return f"SELECT * FROM ({text}) v({', '.join([identifier(ID), *self._columns])})"

    def _tracked(self, place: Place) -> TrackedTable:
        table = self._tables.named(".".join(place))
        if table is None:
            raise missing("Change tracking of table", ".".join(place))
        return table
