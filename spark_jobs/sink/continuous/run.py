"""One epoch of a continuous method: a long-lived task for each group of partitions, until something ends the epoch.

The driver starts a group where records wait, hears through Kafka how far its tasks are, moves the ledger now and then,
and does what a task cannot: it changes tables, and accounts for rows that Snowflake refused. Then the group starts
again where its channels are. The counterpart of `stream`, which goes batch after batch. Not for why an epoch ends
(`epoch`, `run`), nor for what a task does (`task.group_task`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from firn.errors import ClaimAgainError, FencedError, FirnError, TransientError
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.retry import Deadline
from firn.snowflake.faults import MissingObjectError
from spark_jobs.sink.batch import BatchFailedError, PlanAgainError, ended_by, raise_stopped, stop_requested
from spark_jobs.sink.continuous.accounting import Accountant
from spark_jobs.sink.continuous.bookkeeping import Bookkeeper
from spark_jobs.sink.continuous.group_tasks import GroupTasks, StartedTask
from spark_jobs.sink.continuous.groups import Group, Groups
from spark_jobs.sink.continuous.table_changes import TableChanges
from spark_jobs.sink.dispatch import claim_again
from spark_jobs.sink.methods.base import Claim, DriverSide, EpochSession
from spark_jobs.sink.tables.evolution import SchemaChange
from spark_jobs.sink.tables.loaders import TableLoaders
from spark_jobs.sink.values.batches import CommittedBatch, PublishedLetters
from spark_jobs.sink.values.reports import (
    Cut,
    Failed,
    Followed,
    RowErrors,
    SchemaChangeRequest,
    Stopped,
    SuspectedStaleSchema,
)
from spark_jobs.spark.engine import EngineFailedError, EpochEngine

REPORT_SECONDS = 1.0
"""Between two looks at what the tasks report."""
HANGING_SECONDS = 60.0
"""How long a task may say nothing, or make no progress, at least; else as long as the sink has patience."""
DRAIN_SECONDS = 10.0
"""How long tasks that take what is available may go on, once the epoch is to end."""
_TICK_SECONDS = 0.25
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ContinuousParts:
    """What a continuous run is given. ends: Kafka's end offsets, as `isolation.level` shows them.

    targets: where a run that takes what is available ends (kept from epoch to epoch); None for one that goes on.
    on_commit: gets what became durable; on_ledger: is told that the ledger moved; on_change: gets changes of tables.
    poll_seconds: between two looks at the ends.
    """

    engine: EpochEngine
    ends: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]
    targets: dict[TopicPartition, int] | None
    deadline: Deadline
    stop: threading.Event
    on_commit: Callable[[CommittedBatch], None]
    on_ledger: Callable[[], None]
    on_change: Callable[[Sequence[SchemaChange]], None]
    poll_seconds: float


class ContinuousRun:
    """The groups of one epoch. `run` is for the driver's main thread, which alone uses the session."""

    def __init__(
        self,
        session: EpochSession,
        claim: Claim,
        method: DriverSide,
        published: PublishedLetters,
        parts: ContinuousParts,
    ) -> None:
        self._context, self._claim, self._parts = session.context, claim, parts
        self._loaders = TableLoaders(session.context, session.connection, method.prepare_table)
        self._books = Bookkeeper(session, claim, parts.on_commit, parts.on_ledger)
        self._progress = self._books.progress
        self._tasks = GroupTasks(
            session,
            claim,
            method,
            published,
            parts.engine,
            parts.deadline,
            documents=self._books.documents,
            until=parts.targets,
        )
        self._accountant = Accountant(session, claim, parts.engine, parts.deadline)
        self._table_changes = TableChanges(session, self._loaders, parts.on_change)
        self._groups = Groups([])
        self._ends: dict[TopicPartition, int] = {}
        self._next_poll = self._next_report = 0.0
        self._cut_at: dict[TopicPartition, int] = {}
        self._stops: list[Stopped] = []
        self._reason: PlanAgainError | None = None
        self._end_by = 0.0

    @property
    def healthy(self) -> bool:
        """Whether Kafka has been asked, and nothing waits."""
        return bool(self._ends) and not self._waiting()

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._tasks.idle

    def run(self, reason_to_end: Callable[[], FirnError | None]) -> None:
        """Run until all that was available is durable, for a run that ends then; raises what ends it otherwise.

        reason_to_end is asked again and again: what it gives is raised, and so is a stop that was asked for, as
        StopRequestedError. Tasks are cancelled then: nothing of what they wrote is lost. The ledger says what is known
        to be durable, whatever ended the run, unless another run owns the sink.
        """
        with ended_by(self._parts.stop, "a continuous run of the sink failed"):
            try:
                reason = self._run(reason_to_end)
            except FencedError:
                self._abandon()
                raise
            except BaseException:
                self._abandon()
                with suppress(FirnError):
                    self._books.close()
                raise
            self._abandon()
            self._books.close()
            if reason is not None:
                raise reason

    def _run(self, reason_to_end: Callable[[], FirnError | None]) -> FirnError | None:
        while not self._done():
            if self._parts.stop.is_set():
                return stop_requested()
            if (reason := reason_to_end()) is not None:
                return reason
            if self._reason is not None and not (self._drains() and self._tasks):
                return self._reason
            self._step()
        return None

    def _step(self) -> None:
        """Take over what has ended and what was reported, start what waits, and wait for a moment."""
        while (task := self._tasks.next_ended()) is not None:
            self._ended(task)
        now = time.monotonic()
        if now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            self._groups.heard(self._books.read(), now)
            self._books.tell()
            self._check_alive()
            self._books.move_if_due()
        if now >= self._next_poll:
            self._next_poll = now + max(self._parts.poll_seconds, _TICK_SECONDS)
            self._look_at_kafka()
        self._start_due()
        self._tasks.wait(_TICK_SECONDS, self._parts.stop)

    def _drains(self) -> bool:
        """Whether tasks that end by themselves are waited for, where the epoch is to end."""
        return self._parts.targets is not None and time.monotonic() < self._end_by

    def _done(self) -> bool:
        """Whether a run that takes what is available has taken it."""
        targets, durable = self._parts.targets, self._progress.durable
        if targets is None or not self._ends or self._tasks:
            return False
        return all(at >= targets.get(where, at) for where, at in durable.items())

    def _look_at_kafka(self) -> None:
        positions = self._progress.durable
        if (targets := self._parts.targets) is None:
            self._ends = dict(self._parts.ends(sorted(positions)))
            return
        if unknown := sorted(positions.keys() - targets.keys()):
            targets.update(self._parts.ends(unknown))
        self._ends = {where: targets[where] for where in positions}

    def _waiting(self) -> set[TopicPartition]:
        """Partitions of which Kafka holds more than is durable."""
        return {where for where, at in self._progress.durable.items() if self._ends.get(where, at) > at}

    def _start_due(self) -> None:
        if not self._ends or self._stops or self._reason is not None:
            return
        if not self._groups.groups:
            backlog = {where: max(0, self._ends.get(where, at) - at) for where, at in self._progress.durable.items()}
            # A task takes seconds to begin: the first record of a run that goes on is not to wait for it.
            self._groups = Groups.balanced(backlog, self._tasks.most, at_once=self._parts.targets is None)
        for group in self._groups.due(self._waiting()):
            self._start(group)

    def _start(self, group: Group) -> None:
        topics = {where.topic for where in group.partitions}
        try:
            loaders = self._loaders.of_topics(topics)
        except MissingObjectError as error:
            raise claim_again(error) from error
        letters = self._tasks.letters_of(group)
        now = time.monotonic()
        self._groups.started(group, now)
        self._progress.started(group.partitions, now)
        self._tasks.start(group, loaders, letters)

    def _ended(self, task: StartedTask) -> None:
        """A group's task has ended: do what it could not, or raise why the epoch ends."""
        try:
            reports = task.reports()
        except EngineFailedError as error:
            raise self._failed(task.group, error) from error
        self._books.take(reports)
        for failed in reports.of(Failed):
            self._parts.deadline.failed(failed.failing_seconds)
            raise failed.unwrap()
        if len(reports.of(Followed)) != len(task.group.partitions):
            raise self._failed(task.group, EngineFailedError("A task did not report all its partitions."))
        self._books.tell()
        self._stops += reports.of(Stopped)
        self._account(reports.of(RowErrors))
        if made := self._table_changes.apply(task.loaders, reports):
            self._claim_channels(made)
        self._take_cuts(reports.of(Cut))
        self._groups.ended(task.group, again=self._reason is None and bool({*map(type, reports)} & _AGAIN))
        log.info("task %d has ended%s", task.group.attempt, ", and starts again" if task.group.again else "")
        self._raise_stopped()

    def _raise_stopped(self) -> None:
        """Raise BadRecordError where a record stopped it; a run that takes what is available ends its tasks first."""
        if self._parts.targets is None or not self._tasks:
            raise_stopped(self._claim.ledger.sink, self._context.config.errors, self._stops)

    def _failed(self, group: Group, error: EngineFailedError) -> BatchFailedError:
        failed = BatchFailedError(error.what, where=error.where, next_step=error.next_step)
        durable = self._progress.durable
        failed.ranges = tuple(OffsetRange(*w, durable[w], self._ends.get(w, durable[w])) for w in group.partitions)
        return failed

    def _account(self, errors: Sequence[RowErrors]) -> None:
        for each in errors:
            # Whatever else is known to be durable goes first: the accounts begin at the ledger's position.
            self._books.move()
            self._accountant.account(each, self._progress, self._loaders)
            self._books.tell()

    def _claim_channels(self, made: Sequence[str]) -> None:
        """Tables were made, and a claim alone writes their channels down: the epoch ends for that, with no fault.

        Tasks that take what is available may end before, so that what they count is known.
        """
        if self._reason is None:
            self._end_by = time.monotonic() + DRAIN_SECONDS
        self._reason = PlanAgainError(f"No channel leads to {', '.join(made)} yet: the sink claims again.")

    def _take_cuts(self, cuts: Sequence[Cut]) -> None:
        """Partitions that a task had to leave, with nothing wrong: the ledger moves, which prunes their dead letters.

        Raises ClaimAgainError where one was left at the same offset before: a fault then, with a deadline.
        """
        if not cuts:
            return
        self._books.move()
        for cut in cuts:
            if self._cut_at.get(cut.where) == cut.offset:
                raise ClaimAgainError(f"{cut.where} does not come past offset {cut.offset}: {cut.why}.")
            self._cut_at[cut.where] = cut.offset
            log.info("%s is read again from offset %d: %s", cut.where, cut.offset, cut.why)

    def _check_alive(self) -> None:
        """Raise TransientError where a task says nothing for as long as the sink has patience, or makes no progress."""
        now, patience = time.monotonic(), max(HANGING_SECONDS, self._parts.deadline.seconds)
        if silent := self._groups.silent(now, patience):
            raise _hung(silent[0].partitions, f"has not reported anything for {patience:.0f} s")
        if self._ends and (stalled := self._progress.stalled(self._ends, now, patience)):
            raise _hung(stalled, f"has made no progress for {patience:.0f} s, and Kafka holds more")

    def _abandon(self) -> None:
        """Cancel what runs: nothing is lost by it."""
        for reports in self._tasks.cancel():
            self._books.take(reports)


_AGAIN = {Cut, RowErrors, SchemaChangeRequest, SuspectedStaleSchema}
"""Reports after which a group starts again at once."""


def _hung(partitions: Iterable[TopicPartition], what: str) -> TransientError:
    names = list(map(str, partitions))
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return TransientError(
        f"The task of {shown} {what}.",
        next_step="Nothing at first: the sink cancels its tasks, claims again and starts new ones.",
    )
