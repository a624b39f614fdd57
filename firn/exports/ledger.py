"""Table FIRN_EXPORTS: who may move the changes of an export's sources, and how far each source is.

One row a source and one, with SOURCE = '', for the export itself, which holds its owner. A lock row (EXPORT = '')
serialises claims, because keys are not enforced in Snowflake and INSERTs do not wait for each other. A claim raises
EPOCH on all rows of its export: from its COMMIT on no older run can move or settle anything. ID is random, made at the
first claim, and part of every name in Kafka: two accounts that share a cluster do not meet. Not for the moves
themselves (`firn.exports.moves`).

Statements: CREATE TABLE ... AS SELECT, UPDATE, INSERT, SYSDATE, UUID_STRING
(https://docs.snowflake.com/en/sql-reference/sql/create-table, .../update, .../functions/sysdate). Times are SYSDATE():
Snowflake's own clock, in UTC.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from firn.errors import ClaimAgainError, ConfigError, FencedError, TerminalError
from firn.exports import names
from firn.exports.columns import ColumnVersions, SourceColumns, read_versions, versions_document
from firn.snowflake.connection import execute, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace, text_literal
from firn.snowflake.tables import make_unless_there
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_CREATE = """
CREATE TABLE {table} (
  EXPORT VARCHAR, SOURCE VARCHAR, ID VARCHAR, EPOCH NUMBER(19, 0), LAST_BATCH NUMBER(19, 0), CURSOR_POSITION VARIANT,
  COLUMN_VERSIONS VARIANT, DOCUMENT VARIANT, UPDATED_AT TIMESTAMP_NTZ
) AS SELECT '', '', '', 0, 0, NULL, NULL, NULL, SYSDATE()
"""
_LOCK = "UPDATE {table} SET UPDATED_AT = SYSDATE() WHERE EXPORT = ''"
_READ = """
SELECT EXPORT, SOURCE, ID, EPOCH, LAST_BATCH, CURSOR_POSITION, COLUMN_VERSIONS, DOCUMENT, UPDATED_AT
FROM {table} WHERE EXPORT = {export} OR EXPORT = ''
"""
# A fixed text without bound values: while the table stays as it is, Snowflake may answer it from the persisted result
# of whoever asked before, without a warehouse (https://docs.snowflake.com/en/user-guide/querying-persisted-results).
_EPOCH = "SELECT EPOCH FROM {table} WHERE EXPORT = {export} AND SOURCE = ''"
_RAISE = "UPDATE {table} SET EPOCH = {epoch}, UPDATED_AT = SYSDATE() WHERE EXPORT = ?"
_SIGN = "UPDATE {table} SET DOCUMENT = PARSE_JSON(?) WHERE EXPORT = ? AND SOURCE = ''"
_INSERT = """
INSERT INTO {table} (EXPORT, SOURCE, ID, EPOCH, LAST_BATCH, DOCUMENT, UPDATED_AT)
SELECT ?, ?, ?, {epoch}, 0, PARSE_JSON(?), SYSDATE()
"""
_TOUCH = "UPDATE {table} SET UPDATED_AT = SYSDATE() WHERE EXPORT = ? AND SOURCE = ? AND EPOCH = {epoch}"
_NUMBER = """
UPDATE {table} SET LAST_BATCH = LAST_BATCH + 1, UPDATED_AT = SYSDATE()
WHERE EXPORT = ? AND SOURCE = ? AND EPOCH = {epoch}
"""
_STATE = """
SELECT LAST_BATCH, CURSOR_POSITION, COLUMN_VERSIONS, DOCUMENT FROM {table} WHERE EXPORT = ? AND SOURCE = ?
"""
_ADVANCE = """
UPDATE {table} SET LAST_BATCH = ?, DOCUMENT = PARSE_JSON(?), COLUMN_VERSIONS = PARSE_JSON(?),
  CURSOR_POSITION = PARSE_JSON(?), UPDATED_AT = SYSDATE()
WHERE EXPORT = ? AND SOURCE = ? AND EPOCH = {epoch}
"""
_SEEN = "UPDATE {table} SET DOCUMENT = PARSE_JSON(?) WHERE EXPORT = ? AND SOURCE = ? AND EPOCH = {epoch}"
_OTHERS = "SELECT EXPORT, DOCUMENT FROM {table} WHERE SOURCE = '' AND EXPORT NOT IN ('', ?)"
_FLOOR = "UPDATE {table} SET EPOCH = GREATEST(EPOCH, {epoch}) WHERE EXPORT = ''"
_DELETE = "DELETE FROM {table} WHERE EXPORT = ?"


@dataclass(frozen=True)
class SourceState:
    """How far a source is.

    cursor: exact texts of the cursor columns' maximum; None before the first row. columns: by version;
    columns_version: the newest, 0 before the first move. snapshot: the next move is that of the first rows. resync: it
    moves changes, and all rows behind them (`firn.exports.resync`). seen: what its tables' last change was before the
    last move (`firn.exports.asking`). hashed: the version of the columns that remembered hashes are of
    (`firn.exports.moves.cursor`).
    """

    last_batch: int = 0
    cursor: tuple[str, ...] | None = None
    columns: ColumnVersions = field(default_factory=dict)
    columns_version: int = 0
    snapshot: bool = True
    resync: bool = False
    seen: str | None = None
    hashed: int = 0

    @property
    def brings_all_rows(self) -> bool:
        """Whether the next move brings all rows of the source, in the shards of a snapshot."""
        return self.snapshot or self.resync

    def with_columns(self, columns: SourceColumns) -> tuple[int, ColumnVersions]:
        """The version of these columns, and all versions; a new one where they are not those of the newest."""
        if self.columns.get(self.columns_version) == columns:
            return self.columns_version, self.columns
        return self.columns_version + 1, {**self.columns, self.columns_version + 1: columns}

    @property
    def document(self) -> str:
        """What DOCUMENT holds of it."""
        names = ("snapshot", "resync", "seen", "hashed")
        return json.dumps({name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class ClaimedExport:
    """What a run holds: the export's id and epoch, and the sources as they stood when it claimed."""

    id: str
    epoch: int
    sources: Mapping[str, SourceState]


@dataclass(frozen=True)
class ExportStanding:
    """What an observer sees: id, epoch, owner's document and sources. updated_at: see `firn.ledger.rows.View`."""

    id: str
    epoch: int
    owner: Mapping[str, Any]
    sources: Mapping[str, SourceState]


class ExportLedger:
    """FIRN_EXPORTS of one schema, as one export uses it. Holds no connection: each call takes one."""

    def __init__(self, namespace: Namespace, export: str) -> None:
        self._namespace, self._export = namespace, export
        self.table = namespace.qualified(names.EXPORTS)

    @property
    def namespace(self) -> Namespace:
        """Where it is, with outboxes, states and history."""
        return self._namespace

    @property
    def export(self) -> str:
        """The export's name."""
        return self._export

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the table with its lock row, both in one statement, unless it is there."""
        create = _CREATE.format(table=self.table)
        make_unless_there(connection, self._namespace, names.EXPORTS, lambda: execute(connection, create))

    def claim(
        self,
        connection: SnowflakeConnection,
        sources: Collection[str],
        by: Mapping[str, Any],
        streams: Collection[str] = (),
    ) -> ClaimedExport:
        """Become the one who may move these sources: every run before this one is fenced.

        by: plain values about the run (run id, host, when it started). streams: full names of those that it consumes.
        Raises ConfigError where another export consumes one of them; ClaimAgainError where the lock or the answer to
        COMMIT did not come: the claim may be made again.
        """
        document = json.dumps({**by, "streams": sorted(streams)})
        with transaction(connection):
            if execute(connection, _LOCK.format(table=self.table)) != 1:
                raise self._edited("has no lock row, or several")
            self._check_alone(connection, streams)
            floor, rows = self._rows(connection)
            owner = rows.pop("", None)
            export_id = owner["ID"] if owner else str(uuid.uuid4())
            epoch = max([floor, *(int(row["EPOCH"]) for row in (*rows.values(), *filter(None, [owner])))]) + 1
            execute(connection, _RAISE.format(table=self.table, epoch=epoch), (self._export,))
            if owner is None:
                self._insert(connection, "", export_id, epoch, document)
            else:
                execute(connection, _SIGN.format(table=self.table), (document, self._export))
            for source in sorted(set(sources) - rows.keys()):
                self._insert(connection, source, export_id, epoch, SourceState().document)
        states = {source: _state(rows[source]) if source in rows else SourceState() for source in sources}
        return ClaimedExport(export_id, epoch, states)

    def standing(self, connection: SnowflakeConnection) -> ExportStanding | None:
        """What there is of the export now; None before its first claim. A look, for observers."""
        try:
            _, rows = self._rows(connection)
        except MissingObjectError:
            return None
        owner = rows.pop("", None)
        if owner is None:
            return None
        states = {source: _state(row) for source, row in rows.items()}
        return ExportStanding(owner["ID"], int(owner["EPOCH"]), json.loads(owner["DOCUMENT"] or "{}"), states)

    def check_epoch(self, connection: SnowflakeConnection, epoch: int) -> None:
        """Raise FencedError unless `epoch` is still the export's."""
        sql = _EPOCH.format(table=self.table, export=text_literal(self._export))
        if [int(row["EPOCH"]) for row in query(connection, sql)] != [epoch]:
            raise self.fenced()

    def hold(self, connection: SnowflakeConnection, epoch: int, source: str) -> None:
        """Lock a source's row until the caller's transaction ends. Raises FencedError unless `epoch` is still ours."""
        self._one(execute(connection, _TOUCH.format(table=self.table, epoch=epoch), (self._export, source)))

    def number(self, connection: SnowflakeConnection, epoch: int, source: str) -> SourceState:
        """Take the next batch's number, which is `last_batch` of the state that this returns.

        It belongs to the caller's transaction, and others wait for its end. Raises FencedError as `hold`.
        """
        self._one(execute(connection, _NUMBER.format(table=self.table, epoch=epoch), (self._export, source)))
        (row,) = query(connection, _STATE.format(table=self.table), (self._export, source))
        return _state(row)

    def advance(self, connection: SnowflakeConnection, epoch: int, source: str, state: SourceState) -> None:
        """Write how far a source is, in the transaction that moved its changes. Raises FencedError as `hold`."""
        values = (
            state.last_batch,
            state.document,
            json.dumps({"newest": state.columns_version, "versions": versions_document(state.columns)}),
            json.dumps(state.cursor),
            self._export,
            source,
        )
        self._one(execute(connection, _ADVANCE.format(table=self.table, epoch=epoch), values))

    def remember(self, connection: SnowflakeConnection, epoch: int, source: str, state: SourceState) -> None:
        """Write a source's document alone: what is next a snapshot, what was seen. Raises FencedError as `hold`."""
        values = (state.document, self._export, source)
        self._one(execute(connection, _SEEN.format(table=self.table, epoch=epoch), values))

    def remove(self, connection: SnowflakeConnection) -> None:
        """Delete the export's rows. An export of its name begins above its epoch, so no old run comes back with it."""
        with transaction(connection):
            if execute(connection, _LOCK.format(table=self.table)) != 1:
                raise self._edited("has no lock row, or several")
            _, rows = self._rows(connection)
            highest = max((int(row["EPOCH"]) for row in rows.values()), default=0)
            execute(connection, _FLOOR.format(table=self.table, epoch=highest))
            execute(connection, _DELETE.format(table=self.table), (self._export,))

    def fenced(self) -> FencedError:
        """Why a run of an older epoch ends."""
        return FencedError(
            f"Export {self._export} belongs to a newer run: this run has stopped for good.",
            where=self.table,
            next_step="Nothing is lost. Check why, if two runs of one export were not intended.",
        )

    def _one(self, changed: int) -> None:
        if changed > 1:
            raise self._edited("holds a source's row more than once")
        if changed != 1:
            raise self.fenced()

    def _rows(self, connection: SnowflakeConnection) -> tuple[int, dict[str, Mapping[str, Any]]]:
        """(the lock row's epoch, the export's rows by source)."""
        rows = query(connection, _READ.format(table=self.table, export=text_literal(self._export)))
        own: dict[str, Mapping[str, Any]] = {row["SOURCE"]: row for row in rows if row["EXPORT"] == self._export}
        if len(own) != sum(row["EXPORT"] == self._export for row in rows):
            raise self._edited("holds a source's row more than once")
        return next((int(row["EPOCH"]) for row in rows if row["EXPORT"] == ""), 0), own

    def _insert(self, connection: SnowflakeConnection, source: str, export_id: str, epoch: int, document: str) -> None:
        sql = _INSERT.format(table=self.table, epoch=epoch)
        if execute(connection, sql, (self._export, source, export_id, document)) != 1:
            raise ClaimAgainError(f"The row of source {source!r} was not written.")

    def _check_alone(self, connection: SnowflakeConnection, streams: Collection[str]) -> None:
        """Of two exports of one stream each would get the changes that the other did not move."""
        rows = query(connection, _OTHERS.format(table=self.table), (self._export,)) if streams else []
        for row in rows:
            if shared := set(streams).intersection(json.loads(row["DOCUMENT"] or "{}").get("streams", ())):
                raise ConfigError(
                    f"Export {row['EXPORT']} consumes stream {min(shared)} already: each change would go to one of the "
                    "two.",
                    where=f"export {self._export}, table {self.table}",
                    next_step=f"Make a stream for each export (CREATE STREAM), or retire {row['EXPORT']} with "
                    "`firn export clean`.",
                )

    def _edited(self, what: str) -> TerminalError:
        return TerminalError(
            f"Table {self.table} {what}.",
            where=f"export {self._export}",
            next_step="It was edited by hand: look at it with `firn sql`, and keep one row of each EXPORT and SOURCE "
            "and one with EXPORT = ''.",
        )


def _state(row: Mapping[str, Any]) -> SourceState:
    columns = json.loads(row["COLUMN_VERSIONS"] or "{}")
    cursor = json.loads(row["CURSOR_POSITION"] or "null")
    document = json.loads(row["DOCUMENT"] or "{}")
    return SourceState(
        last_batch=int(row["LAST_BATCH"]),
        cursor=None if cursor is None else tuple(cursor),
        columns=read_versions(columns.get("versions", {})),
        columns_version=int(columns.get("newest", 0)),
        snapshot=bool(document.get("snapshot", True)),
        resync=bool(document.get("resync", False)),
        seen=document.get("seen"),
        hashed=int(document.get("hashed", 0)),
    )
