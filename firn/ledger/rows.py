"""The statements of FIRN_OFFSETS, one place for each. Not for their order and what follows from it (`table`).

Snowflake's documented grammar: CREATE TABLE ... AS SELECT, UPDATE ... FROM, VALUES, DATEDIFF, SYSDATE
(https://docs.snowflake.com/en/sql-reference/sql/create-table, .../update, .../functions/sysdate). All times are
SYSDATE(): Snowflake's own clock in UTC, whatever the time zone of the session or the clock of this machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from firn.channels.recorded import RecordedChannel
from firn.errors import TerminalError
from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Owner
from firn.ledger.positions import Move, Position, Standing
from firn.snowflake.connection import execute, query
from firn.snowflake.identifiers import text_literal

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

TABLE = "FIRN_OFFSETS"

_CREATE = """
CREATE TABLE {table} (
  SINK VARCHAR, TOPIC VARCHAR, PARTITION NUMBER(10, 0), NEXT_OFFSET NUMBER(19, 0), EPOCH NUMBER(19, 0),
  TOPIC_ID VARCHAR, RUN_ID VARCHAR, DOCUMENT VARIANT, LEDGER_ID VARCHAR, CHANNEL_PIPE VARCHAR,
  CHANNEL_CREATED NUMBER(19, 0), CHANNEL_TOKEN VARCHAR, ROW_ERRORS NUMBER(19, 0), BATCH_ID VARCHAR,
  UPDATED_AT TIMESTAMP_NTZ
) AS SELECT '', '', -1, 0, 0, '', '', NULL, {ledger_id}, NULL, NULL, NULL, 0, '', SYSDATE()
"""
_LOCK = "UPDATE {table} SET UPDATED_AT = SYSDATE() WHERE SINK = ''"
_READ = """
SELECT SINK, TOPIC, PARTITION, NEXT_OFFSET, EPOCH, TOPIC_ID, RUN_ID, DOCUMENT, LEDGER_ID, CHANNEL_PIPE,
       CHANNEL_CREATED, CHANNEL_TOKEN, ROW_ERRORS, UPDATED_AT, DATEDIFF(MILLISECOND, UPDATED_AT, SYSDATE()) AS SILENT
FROM {table} WHERE SINK = ? OR (TOPIC = '' AND PARTITION = -1)
"""
# Fixed texts without bound values and context functions: while the table stays as it is, Snowflake may answer them from
# the persisted result of whoever asked before, without a warehouse
# (https://docs.snowflake.com/en/user-guide/querying-persisted-results).
_STANDING = """
SELECT TOPIC, PARTITION, NEXT_OFFSET, EPOCH, DOCUMENT:generation::NUMBER AS GENERATION
FROM {table} WHERE SINK = {sink}
"""
_VIEW = """
SELECT SINK, TOPIC, PARTITION, NEXT_OFFSET, EPOCH, TOPIC_ID, RUN_ID, DOCUMENT, LEDGER_ID, CHANNEL_PIPE,
       CHANNEL_CREATED, CHANNEL_TOKEN, ROW_ERRORS, UPDATED_AT
FROM {table} WHERE SINK = '' OR SINK = {sink}
"""
_LEDGER_ID = "SELECT LEDGER_ID FROM {table} WHERE SINK = ''"
_INSERT_OWNER = """
INSERT INTO {table} (SINK, TOPIC, PARTITION, NEXT_OFFSET, EPOCH, TOPIC_ID, RUN_ID, DOCUMENT, ROW_ERRORS, BATCH_ID,
                     UPDATED_AT)
SELECT ?, '', -1, 0, ?, '', ?, PARSE_JSON(?), 0, '', SYSDATE()
"""
_INSERT_POSITIONS = """
INSERT INTO {table} (SINK, TOPIC, PARTITION, NEXT_OFFSET, EPOCH, TOPIC_ID, ROW_ERRORS, BATCH_ID, UPDATED_AT)
SELECT ?, COLUMN1, COLUMN2, COLUMN3, 0, COLUMN4, 0, ?, SYSDATE() FROM VALUES {values}
"""
# Not UPDATED_AT: the last sign of life is read after the epoch was raised.
_RAISE = """
UPDATE {table} SET EPOCH = GREATEST(EPOCH + 1, {least}) WHERE SINK = ? AND TOPIC = '' AND PARTITION = -1
"""
_OWNER = """
UPDATE {table} SET {changes}UPDATED_AT = SYSDATE()
WHERE SINK = ? AND TOPIC = '' AND PARTITION = -1 AND EPOCH = ? AND RUN_ID = ?
"""
_EPOCH, _RUN_ID, _DOCUMENT = "EPOCH = ?, ", "RUN_ID = ?, ", "DOCUMENT = PARSE_JSON(?), "
_MOVE = """
UPDATE {table} SET NEXT_OFFSET = MOVED.END_OFFSET, BATCH_ID = ?, UPDATED_AT = SYSDATE()
FROM (SELECT COLUMN1 AS TOPIC, COLUMN2 AS PARTITION, COLUMN3 AS START_OFFSET, COLUMN4 AS END_OFFSET
      FROM VALUES {values}) AS MOVED
WHERE {table}.SINK = ? AND {table}.TOPIC = MOVED.TOPIC AND {table}.PARTITION = MOVED.PARTITION
  AND {table}.NEXT_OFFSET = MOVED.START_OFFSET
"""
_PLACE = """
UPDATE {table} SET NEXT_OFFSET = PLACED.NEXT_OFFSET, TOPIC_ID = PLACED.TOPIC_ID, BATCH_ID = ?, UPDATED_AT = SYSDATE()
FROM (SELECT COLUMN1 AS TOPIC, COLUMN2 AS PARTITION, COLUMN3 AS NEXT_OFFSET, COLUMN4 AS TOPIC_ID
      FROM VALUES {values}) AS PLACED
WHERE {table}.SINK = ? AND {table}.TOPIC = PLACED.TOPIC AND {table}.PARTITION = PLACED.PARTITION
"""
_RECORD = """
UPDATE {table} SET CHANNEL_PIPE = SEEN.PIPE, CHANNEL_CREATED = SEEN.CREATED, CHANNEL_TOKEN = SEEN.TOKEN,
  ROW_ERRORS = SEEN.ROW_ERRORS
FROM (SELECT COLUMN1 AS TOPIC, COLUMN2 AS PARTITION, COLUMN3 AS PIPE, COLUMN4 AS CREATED, COLUMN5 AS TOKEN,
             COLUMN6 AS ROW_ERRORS FROM VALUES {values}) AS SEEN
WHERE {table}.SINK = ? AND {table}.TOPIC = SEEN.TOPIC AND {table}.PARTITION = SEEN.PARTITION
"""
_DELETE = "DELETE FROM {table} WHERE SINK = ?"
# The lock row's own EPOCH: the highest one of a sink whose rows were deleted.
_FLOOR = "UPDATE {table} SET EPOCH = GREATEST(EPOCH, {least}) WHERE SINK = ''"


@dataclass(frozen=True)
class Snapshot:
    """What one statement saw: this sink's owner and positions, and the owners of the other sinks, by name.

    floor: no sink begins at this epoch or below it, for a sink that was deleted may have had it. ledger_id: of the
    table; empty where it has no lock row.
    """

    owner: Owner | None
    positions: dict[TopicPartition, Position]
    others: dict[str, Owner]
    floor: int
    ledger_id: str


@dataclass(frozen=True)
class View:
    """What an observer sees of a sink: the ledger's id, the owner, the positions.

    updated_at: when the owner's row changed last (UTC). The owner's silence is reckoned from it by the clock of the
    observer's machine: Snowflake's would need a warehouse each time.
    """

    ledger_id: str
    owner: Owner | None
    positions: dict[TopicPartition, Position]
    updated_at: datetime | None = None


class LedgerRows:
    """FIRN_OFFSETS by its full name, as one sink uses it. Each write returns how many rows it changed."""

    def __init__(self, table: str, sink: str) -> None:
        self._table, self._sink = table, sink

    def create(self, connection: SnowflakeConnection, ledger_id: str) -> None:
        """Make the table together with its lock row; an error where it is there already."""
        execute(connection, _CREATE.format(table=self._table, ledger_id=text_literal(ledger_id)))

    def lock(self, connection: SnowflakeConnection) -> int:
        """Update the lock row: the next one who does so waits until this transaction has ended."""
        return execute(connection, _LOCK.format(table=self._table))

    def raise_epoch(self, connection: SnowflakeConnection, above: int = 0) -> int:
        """Add one to the owner row's epoch, or more to get above `above`; 0 before the first claim.

        No batch can commit from here on.
        """
        return execute(connection, _RAISE.format(table=self._table, least=above + 1), (self._sink,))

    def read(self, connection: SnowflakeConnection) -> Snapshot:
        """All that a claim looks at. Raises TerminalError for rows that are there twice: keys are not enforced."""
        rows = query(connection, _READ.format(table=self._table), (self._sink,))
        own = [row for row in rows if row["SINK"] == self._sink]
        self._check_single(own)
        owners = {row["SINK"]: _owner(row) for row in rows if row["TOPIC"] == ""}
        floor, ledger_id = owners.pop("", None), next((row["LEDGER_ID"] for row in rows if row["SINK"] == ""), "")
        owner = owners.pop(self._sink, None)
        positions = {TopicPartition(r["TOPIC"], int(r["PARTITION"])): _position(r) for r in own if r["TOPIC"] != ""}
        return Snapshot(owner, positions, owners, floor.epoch if floor else 0, ledger_id)

    def standing(self, connection: SnowflakeConnection) -> Standing:
        """The sink's epoch, generation and positions; cheap to ask again while nothing changes."""
        rows = query(connection, _STANDING.format(table=self._table, sink=text_literal(self._sink)))
        owner: Mapping[str, Any] = next((row for row in rows if row["TOPIC"] == ""), {})
        positions = {
            TopicPartition(row["TOPIC"], int(row["PARTITION"])): int(row["NEXT_OFFSET"])
            for row in rows
            if row["TOPIC"] != ""
        }
        return Standing(int(owner.get("EPOCH") or 0), int(owner.get("GENERATION") or 1), positions)

    def view(self, connection: SnowflakeConnection) -> View:
        """As `read`, without the other sinks; as cheap to ask again as `standing`."""
        rows = query(connection, _VIEW.format(table=self._table, sink=text_literal(self._sink)))
        own = [row for row in rows if row["SINK"] == self._sink]
        self._check_single(own)
        row = next((row for row in own if row["TOPIC"] == ""), None)
        updated = row["UPDATED_AT"].replace(tzinfo=UTC) if row else None
        owner = _viewed_owner(row, updated) if row and updated else None
        positions = {TopicPartition(r["TOPIC"], int(r["PARTITION"])): _position(r) for r in own if r["TOPIC"] != ""}
        ledger_id = next((row["LEDGER_ID"] for row in rows if row["SINK"] == ""), "")
        return View(ledger_id, owner, positions, updated)

    def ledger_id(self, connection: SnowflakeConnection) -> str | None:
        """The ledger's id, as cheap as `standing`; None where the table has no lock row."""
        rows = query(connection, _LEDGER_ID.format(table=self._table))
        return str(rows[0]["LEDGER_ID"]) if rows else None

    def insert_owner(self, connection: SnowflakeConnection, owner: Owner) -> int:
        """The owner row of a sink that has none."""
        values = (self._sink, owner.epoch, owner.run_id, owner.document)
        return execute(connection, _INSERT_OWNER.format(table=self._table), values)

    def insert_positions(
        self, connection: SnowflakeConnection, positions: Mapping[TopicPartition, Position], batch_id: str
    ) -> int:
        """Rows of partitions that have none; without their channels, which `record` adds."""
        values = [v for w, p in positions.items() for v in (w.topic, w.partition, p.next_offset, p.topic_id)]
        statement = _INSERT_POSITIONS.format(table=self._table, values=_placeholders(len(positions), 4))
        return execute(connection, statement, (self._sink, batch_id, *values)) if positions else 0

    def update_owner(
        self,
        connection: SnowflakeConnection,
        epoch: int,
        run_id: str,
        *,
        new_epoch: int | None = None,
        new_run_id: str | None = None,
        document: str | None = None,
    ) -> int:
        """A sign of life of the run that holds `epoch`, with what changes; 0 where it holds it no more."""
        given: list[tuple[str, int | str | None]] = [
            (_EPOCH, new_epoch),
            (_RUN_ID, new_run_id),
            (_DOCUMENT, document),
        ]
        changes = [(change, value) for change, value in given if value is not None]
        statement = _OWNER.format(table=self._table, changes="".join(change for change, _ in changes))
        return execute(connection, statement, (*(value for _, value in changes), self._sink, epoch, run_id))

    def move(self, connection: SnowflakeConnection, batch_id: str, moves: Sequence[Move]) -> int:
        """Move partitions to their new positions, those that stand where the batch began."""
        values: list[Any] = [v for m in moves for v in (m.where.topic, m.where.partition, m.start, m.end)]
        statement = _MOVE.format(table=self._table, values=_placeholders(len(moves), 4))
        return execute(connection, statement, (batch_id, *values, self._sink)) if moves else 0

    def place(
        self, connection: SnowflakeConnection, batch_id: str, positions: Mapping[TopicPartition, Position]
    ) -> int:
        """Set partitions to positions, wherever they stand."""
        values: list[Any] = [v for w, p in positions.items() for v in (w.topic, w.partition, p.next_offset, p.topic_id)]
        statement = _PLACE.format(table=self._table, values=_placeholders(len(positions), 4))
        return execute(connection, statement, (batch_id, *values, self._sink)) if positions else 0

    def record(self, connection: SnowflakeConnection, channels: Mapping[TopicPartition, RecordedChannel]) -> int:
        """Remember the channels of these partitions, in place of what was recorded of them."""
        values = [
            value
            for where, channel in channels.items()
            for value in (*where, channel.pipe, channel.created_ms, channel.token, channel.row_errors)
        ]
        statement = _RECORD.format(table=self._table, values=_placeholders(len(channels), 6))
        return execute(connection, statement, (*values, self._sink)) if channels else 0

    def delete(self, connection: SnowflakeConnection, epoch: int) -> int:
        """Delete all rows of the sink; no sink begins at `epoch` or below it from then on."""
        execute(connection, _FLOOR.format(table=self._table, least=epoch))
        return execute(connection, _DELETE.format(table=self._table), (self._sink,))

    def _check_single(self, own: Sequence[Mapping[str, Any]]) -> None:
        counted = Counter("the owner row" if r["TOPIC"] == "" else f"{r['TOPIC']}-{r['PARTITION']}" for r in own)
        twice = sorted(name for name, count in counted.items() if count > 1)
        if twice:
            raise TerminalError(
                f"The ledger holds rows of sink {self._sink} more than once: {', '.join(twice)}.",
                where=self._table,
                next_step="The ledger was edited by hand. Look at the rows of this SINK with `firn sql` and keep one "
                "of each: the one with the position up to which the table holds all records.",
            )


def _viewed_owner(row: Mapping[str, Any], updated: datetime) -> Owner:
    silent = (datetime.now(UTC) - updated).total_seconds()
    return Owner.of(int(row["EPOCH"]), row["RUN_ID"] or "", max(0.0, silent), row["DOCUMENT"])


def _owner(row: Mapping[str, Any]) -> Owner:
    return Owner.of(int(row["EPOCH"]), row["RUN_ID"] or "", int(row["SILENT"]) / 1000, row["DOCUMENT"])


def _position(row: Mapping[str, Any]) -> Position:
    updated = row["UPDATED_AT"]  # empty in a row that somebody inserted by hand
    return Position(int(row["NEXT_OFFSET"]), row["TOPIC_ID"], updated and updated.replace(tzinfo=UTC), _channel(row))


def _channel(row: Mapping[str, Any]) -> RecordedChannel | None:
    if row["CHANNEL_PIPE"] is None:
        return None
    created, errors = int(row["CHANNEL_CREATED"]), int(row["ROW_ERRORS"])
    return RecordedChannel(row["CHANNEL_PIPE"], created, row["CHANNEL_TOKEN"], errors)


def _placeholders(rows: int, columns: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)
