"""What becomes of the reports of a continuous run's tasks: batches for metrics and events, and steps of the ledger.

Tasks report in Kafka while they live, and to Spark at their end. Not for what their sums mean (`progress`), nor for
rows that Snowflake refused (`accounting`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from firn.errors import TransientError
from firn.kafka.group_documents import GroupDocuments
from firn.ledger.kafka_names import task_group
from firn.retry import RETRIES
from firn.sinks.signs import read_report
from firn.snowflake.transactions import transaction
from spark_jobs.sink.continuous.progress import RunProgress, followed_of
from spark_jobs.sink.methods.base import Claim, EpochSession
from spark_jobs.sink.values.batches import CommittedBatch
from spark_jobs.sink.values.reports import Followed, Reports, Retried

log = logging.getLogger(__name__)


class Bookkeeper:
    """Keeps the books of one epoch, in its session. For the driver's main thread.

    on_commit: gets what became durable; on_ledger: is told that the ledger moved.
    """

    def __init__(
        self,
        session: EpochSession,
        claim: Claim,
        on_commit: Callable[[CommittedBatch], None],
        on_ledger: Callable[[], None],
    ) -> None:
        self._session, self._ledger = session, claim.ledger
        self._on_commit, self._on_ledger = on_commit, on_ledger
        self._documents = GroupDocuments(session.context.kafka, task_group(self._ledger.ledger_id, self._ledger.sink))
        now = time.monotonic()
        self.progress = RunProgress(self._ledger.epoch, self._ledger.committed, self._ledger.channels, now)
        self._told = self._moved = now

    @property
    def documents(self) -> str:
        """The group in Kafka that the tasks report to."""
        return self._documents.group

    def read(self) -> set[int]:
        """Take over what the tasks say in Kafka; gives the attempts that said something new.

        Where Kafka does not answer, the next look may find more. Raises FencedError where another run owns the sink.
        """
        try:
            documents = self._documents.read()
        except TransientError as error:
            log.debug("no reports: %s", error.what)
            return set()
        now, new = time.monotonic(), set()
        for where, document in documents.items():
            report = read_report(document)
            if report is None or report.epoch < self._session.epoch:
                continue
            if report.epoch > self._session.epoch:  # whose sink it is the ledger alone knows
                self._session.ledger.check_epoch(self._session.connection, self._session.epoch)
            elif self.progress.take(followed_of(where, report), now):
                new.add(report.attempt)
        return new

    def take(self, reports: Reports) -> None:
        """How far a task came that has ended."""
        now = time.monotonic()
        for followed in reports.of(Followed):
            self.progress.take(followed, now)
        for retried in reports.of(Retried):
            RETRIES.add(retried.errors)

    def tell(self) -> None:
        """Say what became durable since the last call."""
        now = time.monotonic()
        if (batch := self.progress.batch(now - self._told)) is not None:
            self._on_commit(batch)
        self._told = now

    def move_if_due(self) -> None:
        """As `move`, every `firn.ledger.seconds`."""
        if time.monotonic() - self._moved >= self._session.context.config.streaming.ledger_seconds:
            self.move()

    def move(self) -> None:
        """Write down what is durable, in one transaction, where the ledger does not say it yet."""
        self._moved = time.monotonic()
        if (step := self.progress.step()) is None:
            return
        ledger, session = self._ledger, self._session
        moves = ledger.add_in_flight(step.moves, {})
        with transaction(session.connection):
            name = f"{session.epoch}-{self._moved:.0f}"
            session.ledger.move(session.connection, session.epoch, name, moves, step.totals, step.channels)
        ledger.advance(moves)
        ledger.channels.update(step.channels)
        self.progress.took(step)
        self._on_ledger()

    def close(self) -> None:
        """The last that tasks said, and the ledger."""
        self.read()
        self.tell()
        self.move()
