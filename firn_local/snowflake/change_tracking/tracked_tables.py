"""The tables whose changes are kept, and the tables of ours that keep them. A table without tracking costs nothing.

A tracked table itself is as it was. Beside it, in its database: a log with an old and a new image of each changed row,
and the row ids, each with the hash of its row as it is now. Two equal rows are not told apart by anybody, so which of
their ids is whose does not matter. Which tables are tracked stands in their annotations, so it is renamed, swapped and
dropped with them. Source: https://docs.snowflake.com/en/user-guide/streams-intro (change tracking columns).
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import duckdb

from firn_local.snowflake.change_tracking.versions import Versions, kept_in
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.duckdb_store import Store
from firn_local.snowflake.store.table_annotations import KnownColumn, Place

KEY = "tracked"
"""In a table's annotation: {"id": ..., "since": version, "moment": ISO text}."""
_TABLES = (
    "SELECT database_name, schema_name, table_name, comment FROM duckdb_tables() "
    "WHERE comment LIKE '%\"tracked\"%' AND NOT temporary"
)
_numbers = itertools.count(time.time_ns() // 1_000_000 * 1_000_000)


@dataclass(frozen=True)
class TrackedTable:
    """A table whose changes are kept since version `since`."""

    id: int
    place: Place
    since: int
    since_moment: datetime

    @property
    def name(self) -> str:
        """Its quoted name."""
        return table_annotations.quoted(self.place)

    @property
    def full_name(self) -> str:
        """DATABASE.SCHEMA.TABLE."""
        return ".".join(self.place)

    @property
    def log(self) -> str:
        """Images of changed rows: $tx, $seq, $row, $insert, $update, and the table's columns.

        For one row $seq grows from change to change; the old image of a change comes before the new one.
        """
        return kept_in(self.place[0], f"_firn_log_{self.id}")

    @property
    def rows(self) -> str:
        """($hash, $row) of each row that the table has now."""
        return kept_in(self.place[0], f"_firn_rows_{self.id}")

    @property
    def ids(self) -> str:
        """The sequence of its row ids."""
        return kept_in(self.place[0], f"_firn_ids_{self.id}")


def names_of(conn: duckdb.DuckDBPyConnection, table: TrackedTable) -> list[str]:
    """The quoted names of a table's columns."""
    return [identifier(column.name) for column in table_annotations.columns(conn, table.place)]


def identifier(name: str) -> str:
    """A quoted name."""
    return '"{}"'.format(name.replace('"', '""'))


def rows_with_ids(table: TrackedTable, columns: list[str]) -> str:
    """A query for each committed row of the table: its rowid, $row and columns."""
    hashed = f"hash({', '.join(columns)})"
    return (
        f'SELECT t."$rowid", l."$row", {_of("t", columns)} FROM '
        f'(SELECT rowid AS "$rowid", *, {hashed} AS "$hash", row_number() OVER (PARTITION BY {hashed}) AS "$n" '
        f"FROM {table.name}) t "
        f'JOIN (SELECT *, row_number() OVER (PARTITION BY "$hash" ORDER BY "$row") AS "$n" FROM {table.rows}) l '
        'ON l."$hash" = t."$hash" AND l."$n" = t."$n"'
    )


def _of(alias: str, columns: list[str]) -> str:
    return ", ".join(f"{alias}.{column}" for column in columns)


class TrackedTables:
    """Every tracked table of the account, by full name and by id."""

    def __init__(self, store: Store, versions: Versions) -> None:
        self._store, self._versions = store, versions
        self._by_name: dict[str, TrackedTable] = {}
        self._load()

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def named(self, full_name: str) -> TrackedTable | None:
        """The tracked table of this name, or None."""
        return self._by_name.get(full_name)

    def of_id(self, number: int) -> TrackedTable | None:
        """The tracked table with this id, whatever its name is now; None once it is dropped or no more tracked."""
        return next((table for table in self._by_name.values() if table.id == number), None)

    def all(self) -> list[TrackedTable]:
        """Every tracked table."""
        return list(self._by_name.values())

    def enable(self, full_name: str, moment: datetime) -> TrackedTable:
        """Keep the changes of a table from now, which is `moment`, on. Its rows as they are get their ids."""
        with self._versions.lock:
            if (known := self.named(full_name)) is not None:
                return known
            place = table_annotations.place_of(full_name, frozenset())
            table = TrackedTable(next(_numbers), place, self._versions.now(), moment)
            with self._store.duck_conn.cursor() as conn:
                hashed = f"hash({', '.join(names_of(conn, table))})"
                (rows,) = conn.execute(f"SELECT count(*) FROM {table.name}").fetchall()[0]
                kept = {"id": table.id, "since": table.since, "moment": moment.isoformat()}
                noted = table_annotations.table(conn, place) | {KEY: kept}
                statements = [
                    f'CREATE TABLE {table.log} AS SELECT 0::BIGINT AS "$tx", 0::BIGINT AS "$seq", '
                    f'0::BIGINT AS "$row", FALSE AS "$insert", FALSE AS "$update", * FROM {table.name} LIMIT 0',
                    f"CREATE SEQUENCE {table.ids} START {rows + 1}",
                    f'CREATE TABLE {table.rows} AS SELECT {hashed} AS "$hash", row_number() OVER () AS "$row" '
                    f"FROM {table.name}",
                    table_annotations.on_table(place, noted),
                ]
                table_annotations.in_one_transaction(conn, statements)
            self._load()
        return table

    def disable(self, full_name: str) -> None:
        """Forget the changes of a table, and keep no more."""
        with self._versions.lock:
            if (table := self.named(full_name)) is None:
                return
            with self._store.duck_conn.cursor() as conn:
                noted = table_annotations.table(conn, table.place)
                noted.pop(KEY, None)
                table_annotations.in_one_transaction(conn, [table_annotations.on_table(table.place, noted)])
            self.refresh()

    def refresh(self) -> None:
        """After a change of objects: find the tables again, and drop what is kept of those that are gone."""
        if not self._by_name:
            return
        with self._versions.lock:
            before = self.all()
            self._load()
            here = set(self._store.databases())
            for table in before:
                if self.of_id(table.id) is None and table.place[0] in here:
                    self._drop(table)

    def _load(self) -> None:
        found = {}
        for database, schema, name, comment in self._store.query(_TABLES):
            kept = json.loads(comment).get(KEY)
            table = TrackedTable(
                kept["id"], (database, schema, name), kept["since"], datetime.fromisoformat(kept["moment"])
            )
            found[table.full_name] = table
        self._by_name = found

    def _drop(self, table: TrackedTable) -> None:
        for kind, name in (("TABLE", table.log), ("TABLE", table.rows), ("SEQUENCE", table.ids)):
            self._store.query(f"DROP {kind} IF EXISTS {name}")

    @contextmanager
    def altering(self, full_name: str, renamed: Mapping[str, str]) -> Iterator[None]:
        """Around an ALTER TABLE: its rows keep their ids, and its log gets its columns. `renamed`: old to new names."""
        table = self.named(full_name)
        if table is None:
            yield
            return
        with self._versions.lock, self._store.duck_conn.cursor() as conn:
            columns = names_of(conn, table)
            known = rows_with_ids(table, columns)
            conn.execute(f'CREATE TEMP TABLE _firn_ids AS SELECT "$rowid", "$row" FROM ({known})')
            yield
            self._load()
            if (altered := self.of_id(table.id)) is not None:
                statements = _following(conn, altered, renamed)
                table_annotations.in_one_transaction(conn, [*statements, *_hashed_again(conn, altered)])


def _following(conn: duckdb.DuckDBPyConnection, table: TrackedTable, renamed: Mapping[str, str]) -> list[str]:
    """The statements after which the log has the table's columns; those that the table lost stay."""
    log = (table.place[0], "_fs_information_schema", f"_firn_log_{table.id}")
    kept = {renamed.get(column.name, column.name): column for column in table_annotations.columns(conn, log)}
    statements = [
        f"ALTER TABLE {table.log} RENAME COLUMN {identifier(column.name)} TO {identifier(name)}"
        for name, column in kept.items()
        if name != column.name
    ]
    for column in table_annotations.columns(conn, table.place):
        name = identifier(column.name)
        if column.name not in kept:
            statements.append(f"ALTER TABLE {table.log} ADD COLUMN {name} {_definition(column)}")
        elif kept[column.name].duck_type != column.duck_type:
            statements.append(f"ALTER TABLE {table.log} ALTER COLUMN {name} SET DATA TYPE {column.duck_type}")
    return statements


def _definition(column: KnownColumn) -> str:
    return f"{column.duck_type} DEFAULT {column.duck_default}" if column.duck_default else column.duck_type


def _hashed_again(conn: duckdb.DuckDBPyConnection, table: TrackedTable) -> list[str]:
    hashed = f"hash({', '.join(f't.{name}' for name in names_of(conn, table))})"
    return [
        f"DELETE FROM {table.rows}",
        f"INSERT INTO {table.rows} SELECT {hashed}, coalesce(i.\"$row\", nextval('{table.ids}')) "
        f'FROM {table.name} t LEFT JOIN _firn_ids i ON i."$rowid" = t.rowid',
    ]
