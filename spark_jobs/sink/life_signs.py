"""The driver's signs of life: written to Kafka at fixed intervals, to the ledger only where Kafka does not take them.

A statement in Snowflake wakes a warehouse for a minute at least, so a sink without records says in Kafka that it lives
(`firn.sinks.signs`), and learns there that a newer run may have claimed it. That is a hint: only the ledger's word ends
a run. Not for when that is done (`sign_thread`), nor for who reads the signs (`firn.operations.life`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from snowflake.connector import SnowflakeConnection

from firn.errors import FirnError, TransientError
from firn.kafka.partitions import TopicPartition
from firn.ledger.kafka_names import sign_group
from firn.ledger.table import LedgerTable
from firn.sinks.context import SinkContext
from firn.sinks.signs import Rates, SignWriter
from firn.snowflake.connection import SnowflakeLogin, close_quietly, open_connection
from firn.snowflake.faults import LockConflictError

LOCK_SECONDS = 5
"""How long a heartbeat waits for the ledger: whoever holds it commits, and a commit is a sign of life too."""
ANSWER_SECONDS = 5.0
"""How long a sign may wait for Kafka's answer before the ledger gets a heartbeat instead."""
log = logging.getLogger(__name__)


class LedgerSession:
    """Statements on the ledger beside the batches, in a session of its own: the batch's is busy then."""

    def __init__(self, login: SnowflakeLogin) -> None:
        self._login = login
        self._session: SnowflakeConnection | None = None

    def run(self, statement: Callable[[SnowflakeConnection], None]) -> FirnError | None:
        """Run it; gives its error. A session that gave no answer is not used again."""
        try:
            if self._session is None:
                self._session = open_connection(self._login, query_tag="firn heartbeat", lock_seconds=LOCK_SECONDS)
            statement(self._session)
        except LockConflictError as error:
            return error
        except FirnError as error:
            self.close()
            return error
        return None

    def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            close_quietly(session)


class LifeSigns:
    """The signs of one run, over all its epochs, for one thread; any thread may say `moved` and `loaded`.

    table: of this run; a sign is of the epoch that it holds just then. `firn.heartbeat.seconds` are between two signs;
    0: there are none.
    """

    def __init__(self, context: SinkContext, table: LedgerTable) -> None:
        self._client, self._sink, self._table = context.kafka, context.config.name, table
        self._seconds = context.config.heartbeat_seconds
        self._session = LedgerSession(context.login)
        self._writer: SignWriter | None = None
        self._where: TopicPartition | None = None
        self._moves = self._suspected = self._said = 0
        self._sent = self._in_ledger = float("-inf")
        self._unanswered = self._failing = False
        self._counting = threading.Lock()
        self._records = self._bytes = 0
        self._measured = time.monotonic()

    def begin(self, ledger_id: str, where: TopicPartition | None) -> None:
        """The run has raised the epoch of the sink: the next sign is due at once. where: a partition of it, if any."""
        group = sign_group(ledger_id, self._sink)
        if self._writer is None or self._writer.group != group:
            self._writer = SignWriter(self._client, group)
        self._where = where
        self._sent, self._in_ledger, self._suspected = float("-inf"), time.monotonic(), 0

    def moved(self) -> None:
        """The run moved the ledger, which is a sign of life there."""
        self._moves += 1
        self._in_ledger = time.monotonic()

    def loaded(self, records: int, size: int) -> None:
        """So many records became durable, with so many bytes of text: the next sign gives the rates."""
        with self._counting:
            self._records, self._bytes = self._records + records, self._bytes + size

    def send_if_due(self, *, idle: bool = False) -> FirnError | None:
        """Write a sign if it is time; gives what ends the run: FencedError, or a login that is refused.

        A sign that fails ends nothing: whether the sink can work, its batches show.
        """
        now = time.monotonic()
        if not self._seconds or self._writer is None:
            return None
        # At its end a streaming run raises the epoch itself, and signs of the one before say nothing from then on.
        if now - self._sent >= self._seconds or self._said != self._table.held:
            self._sent, self._unanswered, self._said = now, True, self._table.held
            if not self._failing and (fault := self._newer_run(self._writer)):
                return fault
            taken = self._write(self._writer, idle=idle)
        elif self._unanswered:
            taken = self._writer.written()
        else:
            return None
        if taken:
            self._works()
        elif self._where is None or self._writer.fault or now - self._sent >= ANSWER_SECONDS:
            return self._fall_back(self._writer)
        return None

    def ended(self) -> None:
        """The run has released the sink: say so, in seconds at most. Never raises."""
        if self._seconds and self._writer is not None and self._where is not None:
            self._writer.write(self._where, self._table.held, moves=self._moves, idle=True, ended=True)
            self._writer.close()
        self.close()

    def close(self) -> None:
        """End the session with Snowflake."""
        self._session.close()

    def _write(self, writer: SignWriter, *, idle: bool) -> bool:
        if self._where is None:
            return False
        return writer.write(self._where, self._table.held, moves=self._moves, idle=idle, rates=self._rates())

    def _rates(self) -> Rates | None:
        """Since the sign before; None where no time has passed since."""
        with self._counting:
            (records, size), now = (self._records, self._bytes), time.monotonic()
            self._records = self._bytes = 0
        seconds, self._measured = now - self._measured, now
        return Rates(records / seconds, size / seconds) if seconds > 0 else None

    def _newer_run(self, writer: SignWriter) -> FirnError | None:
        """Where the group knows a higher epoch, the ledger's word on it."""
        try:
            newest = writer.newest_epoch()
        except FirnError as error:
            log.debug("the sink's signs cannot be read: %s", error.what)
            return None
        if newest <= max(self._table.held, self._suspected):
            return None
        fault = self._in_session(self._table.check_epoch)
        if isinstance(fault, TransientError):
            log.warning("Kafka has a sign of a newer run, and the ledger cannot be asked: %s", fault.what)
            return None
        if fault is None:
            self._suspected = newest
            log.warning(
                "Group %s holds a sign of epoch %d, and the ledger says that this run owns the sink: the sign is "
                "ignored.",
                writer.group,
                newest,
            )
        return fault

    def _works(self) -> None:
        self._unanswered = False
        if self._failing:
            log.warning("Signs of life are written to Kafka again; the ledger gets no more heartbeats.")
            self._session.close()
        self._failing = False

    def _fall_back(self, writer: SignWriter) -> FirnError | None:
        """Say it in the ledger, unless a commit did."""
        self._unanswered = False
        if not self._failing:
            log.warning(
                "Signs of life cannot be written to group %s: %s The ledger gets heartbeats instead, each of which "
                "wakes a warehouse.",
                writer.group,
                self._why(writer.fault),
            )
        self._failing = True
        if time.monotonic() - self._in_ledger < self._seconds:
            return None
        error = self._in_session(self._table.beat)
        self._in_ledger = time.monotonic()
        if isinstance(error, LockConflictError):
            log.debug("the ledger is busy: no heartbeat")
        elif isinstance(error, TransientError):
            log.warning("No heartbeat: %s", error.what)
        else:
            return error
        return None

    def _in_session(self, ask: Callable[[SnowflakeConnection, int], None]) -> FirnError | None:
        """What the ledger says of the epoch that the run holds: nothing where the run has raised it meanwhile."""
        epoch = self._table.held
        fault = self._session.run(lambda session: ask(session, epoch))
        return fault if epoch == self._table.held else None

    def _why(self, fault: FirnError | None) -> str:
        if self._where is None:
            return "the sink has no partition yet."
        return f"{fault.what} {fault.next_step}" if fault else f"Kafka did not answer within {ANSWER_SECONDS:.0f} s."
