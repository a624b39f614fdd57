"""The ledger in Snowflake: table FIRN_OFFSETS beside the target tables, and the statements that read and move it.

Statements follow Snowflake's documented grammar: CREATE TABLE ... AS SELECT, UPDATE ... FROM, VALUES
(https://docs.snowflake.com/en/sql-reference/sql/update). Keys are not enforced there, so one lock row (SINK = '')
serialises claims: every claim updates it first, and Snowflake makes the second one wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from snowflake.connector import SnowflakeConnection

from firn.errors import FencedError, TerminalError
from firn.snowflake import execute, query
from spark_jobs.sink.identifiers import Namespace
from spark_jobs.sink.ledger import (
    ClaimAgainError,
    KafkaPartition,
    Ledger,
    Move,
    Position,
    TopicPartition,
    check_positions,
    missing_positions,
)
from spark_jobs.sink.tables import columns_of
from spark_jobs.sink.transaction import transaction

TABLE = "FIRN_OFFSETS"

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
  SINK VARCHAR, TOPIC VARCHAR, PARTITION NUMBER(10, 0), NEXT_OFFSET NUMBER(19, 0), EPOCH NUMBER(19, 0),
  TOPIC_ID VARCHAR, ROW_ERRORS NUMBER(19, 0), BATCH_ID VARCHAR, UPDATED_AT TIMESTAMP_NTZ
) AS SELECT '', '', -1, 0, 0, '', 0, '', CURRENT_TIMESTAMP()::TIMESTAMP_NTZ
"""
_LOCK = "UPDATE {table} SET UPDATED_AT = CURRENT_TIMESTAMP()::TIMESTAMP_NTZ WHERE SINK = ''"
_READ = "SELECT TOPIC, PARTITION, NEXT_OFFSET, EPOCH, TOPIC_ID FROM {table} WHERE SINK = ?"
_INSERT = """
INSERT INTO {table} (SINK, TOPIC, PARTITION, NEXT_OFFSET, EPOCH, TOPIC_ID, ROW_ERRORS, BATCH_ID, UPDATED_AT)
SELECT ?, COLUMN1, COLUMN2, COLUMN3, COLUMN4, COLUMN5, 0, '', CURRENT_TIMESTAMP()::TIMESTAMP_NTZ FROM VALUES {values}
"""
_RAISE_EPOCH = """
UPDATE {table} SET EPOCH = ?, TOPIC_ID = ?, UPDATED_AT = CURRENT_TIMESTAMP()::TIMESTAMP_NTZ
WHERE SINK = ? AND TOPIC = '' AND PARTITION = -1 AND EPOCH = ?
"""
_HOLD = """
UPDATE {table} SET BATCH_ID = ?, UPDATED_AT = CURRENT_TIMESTAMP()::TIMESTAMP_NTZ
WHERE SINK = ? AND TOPIC = '' AND PARTITION = -1 AND EPOCH = ?
"""
_MOVE = """
UPDATE {table} SET NEXT_OFFSET = MOVED.END_OFFSET, BATCH_ID = ?, UPDATED_AT = CURRENT_TIMESTAMP()::TIMESTAMP_NTZ
FROM (SELECT COLUMN1 AS TOPIC, COLUMN2 AS PARTITION, COLUMN3 AS START_OFFSET, COLUMN4 AS END_OFFSET
      FROM VALUES {values}) AS MOVED
WHERE {table}.SINK = ? AND {table}.TOPIC = MOVED.TOPIC AND {table}.PARTITION = MOVED.PARTITION
  AND {table}.NEXT_OFFSET = MOVED.START_OFFSET
"""


@dataclass(frozen=True)
class _Owner:
    epoch: int
    run_id: str


class LedgerTable:
    """FIRN_OFFSETS of one schema, as seen by one run of one sink.

    The owner row's TOPIC_ID holds `run_id`: a run that claims again after a fault must still be the owner, or the
    older of two runs would take the sink back from the newer one.
    """

    def __init__(self, namespace: Namespace, sink: str, run_id: str = "") -> None:
        self._namespace = namespace
        self._table = namespace.qualified(TABLE)
        self._sink = sink
        self._run_id = run_id
        self._claimed = False

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the table with its lock row, both in one statement, unless it is there.

        It looks first: CREATE TABLE IF NOT EXISTS wants the privilege to create also where the table exists.
        """
        if columns_of(connection, self._namespace, TABLE) is None:
            execute(connection, _CREATE.format(table=self._table))

    def claim(
        self,
        connection: SnowflakeConnection,
        observe: Callable[[], Mapping[TopicPartition, KafkaPartition]],
        first_offset: Literal["earliest", "latest"],
    ) -> Ledger:
        """Become the one writer of this sink: every run before this one is fenced once this returns.

        `observe` looks at Kafka; it is called under the lock, because an older run may commit until then.
        Raises LostPositionError where Kafka cannot continue and FencedError where this run claimed before and
        another one has claimed since; the ledger is then unchanged.
        """
        with transaction(connection):
            if execute(connection, _LOCK.format(table=self._table)) != 1:
                raise TerminalError(
                    f"Table {self._table} has no lock row, or several.",
                    where=f"sink {self._sink}",
                    next_step="Somebody changed the ledger by hand: it must hold exactly one row with SINK = ''.",
                )
            partitions = observe()
            owner, rows = self._read(connection)
            if self._claimed and (owner is None or owner.run_id != self._run_id):
                raise self._fenced()
            check_positions(self._sink, rows, partitions)
            added = missing_positions(rows, partitions, first_claim=owner is None, first_offset=first_offset)
            epoch = owner.epoch + 1 if owner else 1
            self._claimed = True  # from here on COMMIT may have happened, whatever its answer
            self._take(connection, owner, epoch, added)
        positions = {**rows, **added}
        return Ledger(
            self._sink, epoch, {where: p.next_offset for where, p in positions.items() if where in partitions}
        )

    def positions(self, connection: SnowflakeConnection) -> dict[TopicPartition, Position]:
        """The committed positions of this sink; empty before its first claim."""
        return self._read(connection)[1]

    def move(self, connection: SnowflakeConnection, epoch: int, batch_id: str, moves: Sequence[Move]) -> None:
        """The last statements of a batch's transaction: prove ownership, then move every partition.

        Raises FencedError when a newer run owns the sink and ClaimAgainError when a position is not where this
        batch started; both leave it to the caller to roll back.
        """
        hold = _HOLD.format(table=self._table)
        if execute(connection, hold, (batch_id, self._sink, epoch)) != 1:
            raise self._fenced()
        if not moves:
            return
        values: list[Any] = [v for m in moves for v in (m.where.topic, m.where.partition, m.start, m.end)]
        statement = _MOVE.format(table=self._table, values=_placeholders(len(moves), 4))
        moved = execute(connection, statement, (batch_id, *values, self._sink))
        if moved != len(moves):
            raise ClaimAgainError(f"{moved} of {len(moves)} partitions stood where this batch began.")

    def _fenced(self) -> FencedError:
        return FencedError(
            f"Sink {self._sink} was claimed by a newer run: this one has stopped for good.",
            where=self._table,
            next_step="Nothing is lost and nothing to do, unless two runs of one sink were not intended.",
        )

    def _take(
        self,
        connection: SnowflakeConnection,
        owner: _Owner | None,
        epoch: int,
        added: Mapping[TopicPartition, Position],
    ) -> None:
        rows: list[tuple[Any, ...]] = [(w.topic, w.partition, p.next_offset, 0, p.topic_id) for w, p in added.items()]
        raised = (epoch, self._run_id, self._sink, owner.epoch if owner else 0)
        if owner is None:
            rows.append(("", -1, 0, epoch, self._run_id))
        elif execute(connection, _RAISE_EPOCH.format(table=self._table), raised) != 1:
            raise ClaimAgainError("The owner row changed during the claim.")
        if rows:
            statement = _INSERT.format(table=self._table, values=_placeholders(len(rows), 5))
            execute(connection, statement, (self._sink, *(value for row in rows for value in row)))

    def _read(self, connection: SnowflakeConnection) -> tuple[_Owner | None, dict[TopicPartition, Position]]:
        owner: _Owner | None = None
        rows: dict[TopicPartition, Position] = {}
        for row in query(connection, _READ.format(table=self._table), (self._sink,)):
            if row["TOPIC"] == "":
                owner = _Owner(int(row["EPOCH"]), row["TOPIC_ID"])
            else:
                where = TopicPartition(row["TOPIC"], int(row["PARTITION"]))
                rows[where] = Position(int(row["NEXT_OFFSET"]), row["TOPIC_ID"])
        return owner, rows


def _placeholders(rows: int, columns: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)
