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
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from firn.dead_letters.published import PartitionLetters
from firn.errors import ClaimAgainError, FencedError, FirnError, TransientError
from firn.kafka.group_documents import GroupDocuments
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.ledger.kafka_names import task_group
from firn.plural import counted
from firn.retry import RETRIES, Deadline
from firn.sinks.signs import read_report
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.transactions import transaction
from spark_jobs.sink.batch import BatchFailedError, PlanAgainError, ended_by, raise_stopped, stop_requested
from spark_jobs.sink.continuous.accounting import Accountant
from spark_jobs.sink.continuous.groups import Group, Groups
from spark_jobs.sink.continuous.progress import RunProgress, followed_of
from spark_jobs.sink.continuous.table_changes import TableChanges
from spark_jobs.sink.dispatch import claim_again, uncommitted_letters
from spark_jobs.sink.methods.base import Claim, ContinuousTaskSide, DriverSide, EpochSession
from spark_jobs.sink.spark.engine import EngineFailedError, EpochEngine
from spark_jobs.sink.tables.evolution import SchemaChange
from spark_jobs.sink.tables.loaders import TableLoaders
from spark_jobs.sink.task.followed_partition import PartitionWork
from spark_jobs.sink.task.group_task import GroupPlan, GroupWork, run_group
from spark_jobs.sink.values.batches import CommittedBatch, PublishedLetters
from spark_jobs.sink.values.reports import (
    Cut,
    Failed,
    Followed,
    Reports,
    Retried,
    RowErrors,
    SchemaChangeRequest,
    Stopped,
    SuspectedStaleSchema,
    load,
)
from spark_jobs.sink.values.table_loaders import TableLoader

REPORT_SECONDS = 1.0
"""Between two looks at what the tasks report."""
HANGING_SECONDS = 60.0
"""How long a task may say nothing, or make no progress, at least; else as long as the sink has patience."""
CANCEL_SECONDS = 10.0
"""How long cancelled tasks may take to end; who opens their channels next fences them."""
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


@dataclass
class _Running:
    """A task that runs: its group, and how it loads its tables."""

    group: Group
    loaders: Mapping[str, TableLoader]
    reports: Future[list[str]]


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
        self._session, self._context, self._claim = session, session.context, claim
        self._parts, self._published = parts, published
        self._task_side = _continuous(method)
        self._loaders = TableLoaders(session.context, session.connection, method.prepare_table)
        ledger = claim.ledger
        now = time.monotonic()
        self._progress = RunProgress(ledger.epoch, ledger.committed, ledger.channels, now)
        self._documents = GroupDocuments(session.context.kafka, task_group(ledger.ledger_id, ledger.sink))
        self._accountant = Accountant(session, claim, parts.engine, parts.deadline)
        self._tasks = min(parts.engine.slots, session.context.config.tasks_max or len(ledger.committed)) or 1
        self._pool = ThreadPoolExecutor(self._tasks, "firn-group")
        self._groups = Groups([])
        self._running: list[_Running] = []
        self._ends: dict[TopicPartition, int] = {}
        self._next_poll = self._next_report = 0.0
        self._told = self._ledger_moved = now
        self._cut_at: dict[TopicPartition, int] = {}
        self._stops: list[Stopped] = []
        self._table_changes = TableChanges(session, self._loaders, parts.on_change)
        self._reason: PlanAgainError | None = None
        self._end_by = 0.0

    @property
    def healthy(self) -> bool:
        """Whether Kafka has been asked, and nothing waits."""
        return bool(self._ends) and not self._waiting()

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not any(not each.reports.done() for each in self._running)

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
                    self._end()
                raise
            self._abandon()
            self._end()
            if reason is not None:
                raise reason

    def _run(self, reason_to_end: Callable[[], FirnError | None]) -> FirnError | None:
        while not self._done():
            if self._parts.stop.is_set():
                return stop_requested()
            if (reason := reason_to_end()) is not None:
                return reason
            if self._reason is not None and (not self._drains() or not self._running):
                return self._reason
            self._step()
        return None

    def _step(self) -> None:
        """Take over what has ended and what was reported, start what waits, and wait for a moment."""
        for each in [each for each in self._running if each.reports.done()]:
            self._running.remove(each)
            self._ended(each)
        now = time.monotonic()
        if now >= self._next_report:
            self._next_report = now + REPORT_SECONDS
            self._read_reports()
            self._tell()
            self._check_alive()
            self._move_if_due()
        if now >= self._next_poll:
            self._next_poll = now + max(self._parts.poll_seconds, _TICK_SECONDS)
            self._look_at_kafka()
        self._start_due()
        if self._running:
            wait([each.reports for each in self._running], _TICK_SECONDS, return_when="FIRST_COMPLETED")
        else:
            self._parts.stop.wait(_TICK_SECONDS)

    def _drains(self) -> bool:
        """Whether tasks that end by themselves are waited for, where the epoch is to end."""
        return self._parts.targets is not None and time.monotonic() < self._end_by

    def _done(self) -> bool:
        """Whether a run that takes what is available has taken it."""
        targets, durable = self._parts.targets, self._progress.durable
        if targets is None or not self._ends or self._running:
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
            self._groups = Groups.balanced(backlog, self._tasks, at_once=self._parts.targets is None)
        for group in self._groups.due(self._waiting()):
            self._start(group)

    def _start(self, group: Group) -> None:
        topics = {where.topic for where in group.partitions}
        try:
            loaders = self._loaders.of_topics(topics)
        except MissingObjectError as error:
            raise claim_again(error) from error
        letters = self._letters(group)
        now = time.monotonic()
        self._groups.started(group, now)
        self._progress.started(group.partitions, now)
        work = GroupWork(
            group.attempt,
            tuple(
                PartitionWork(
                    where,
                    self._claim.topic_ids[where.topic],
                    letters.get(where, PartitionLetters()),
                    None if self._parts.targets is None else self._parts.targets[where],
                )
                for where in group.partitions
            ),
        )
        plan = GroupPlan(
            self._context,
            self._task_side,
            self._session.epoch,
            self._claim.ledger.ledger_id,
            loaders,
            max(1.0, self._parts.deadline.left()),
            self._documents.group,
            self._context.config.streaming.idle_seconds,
        )
        log.info("following %s in task %d", counted(len(group.partitions), "partition"), group.attempt)
        reports = self._pool.submit(self._parts.engine.run, partial(run_group, plan), [work])
        self._running.append(_Running(group, loaders, reports))

    def _letters(self, group: Group) -> PublishedLetters:
        """The dead letters of its partitions that the ledger does not cover; a task before may have published some."""
        if group.attempt == 0 or self._claim.owner is None or not self._claim.owner.letters:
            return self._published
        committed = self._claim.ledger.committed
        positions = {where: committed[where] for where in group.partitions}
        return uncommitted_letters(self._context, self._claim, positions)

    def _ended(self, task: _Running) -> None:
        """A group's task has ended: do what it could not, or raise why the epoch ends."""
        try:
            reports = Reports(map(load, task.reports.result()))
        except EngineFailedError as error:
            raise self._failed(task.group, error) from error
        self._take(reports)
        for failed in reports.of(Failed):
            self._parts.deadline.failed(failed.failing_seconds)
            raise failed.unwrap()
        if len(reports.of(Followed)) != len(task.group.partitions):
            raise self._failed(task.group, EngineFailedError("A task did not report all its partitions."))
        self._tell()
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
        if self._parts.targets is None or not self._running:
            raise_stopped(self._claim.ledger.sink, self._context.config.errors, self._stops)

    def _failed(self, group: Group, error: EngineFailedError) -> BatchFailedError:
        failed = BatchFailedError(error.what, where=error.where, next_step=error.next_step)
        durable = self._progress.durable
        failed.ranges = tuple(OffsetRange(*w, durable[w], self._ends.get(w, durable[w])) for w in group.partitions)
        return failed

    def _account(self, errors: Sequence[RowErrors]) -> None:
        for each in errors:
            # Whatever else is known to be durable goes first: the accounts begin at the ledger's position.
            self._move_ledger()
            self._accountant.account(each, self._progress, self._loaders)
            self._tell()

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
        self._move_ledger()
        for cut in cuts:
            if self._cut_at.get(cut.where) == cut.offset:
                raise ClaimAgainError(f"{cut.where} does not come past offset {cut.offset}: {cut.why}.")
            self._cut_at[cut.where] = cut.offset
            log.info("%s is read again from offset %d: %s", cut.where, cut.offset, cut.why)

    def _read_reports(self) -> None:
        """Take over what the tasks say in Kafka. Where Kafka does not answer, the next look may find more."""
        try:
            documents = self._documents.read()
        except TransientError as error:
            log.debug("no reports: %s", error.what)
            return
        now, new = time.monotonic(), set()
        for where, document in documents.items():
            report = read_report(document)
            if report is None or report.epoch < self._session.epoch:
                continue
            if report.epoch > self._session.epoch:  # whose sink it is the ledger alone knows
                self._session.ledger.check_epoch(self._session.connection, self._session.epoch)
            elif self._progress.take(followed_of(where, report), now):
                new.add(report.attempt)
        self._groups.heard(new, now)

    def _tell(self) -> None:
        now = time.monotonic()
        if (batch := self._progress.batch(now - self._told)) is not None:
            self._parts.on_commit(batch)
        self._told = now

    def _check_alive(self) -> None:
        """Raise TransientError where a task says nothing for as long as the sink has patience, or makes no progress."""
        now, patience = time.monotonic(), max(HANGING_SECONDS, self._parts.deadline.seconds)
        if silent := self._groups.silent(now, patience):
            raise _hung(silent[0].partitions, f"has not reported anything for {patience:.0f} s")
        if self._ends and (stalled := self._progress.stalled(self._ends, now, patience)):
            raise _hung(stalled, f"has made no progress for {patience:.0f} s, and Kafka holds more")

    def _move_if_due(self) -> None:
        if time.monotonic() - self._ledger_moved >= self._context.config.streaming.ledger_seconds:
            self._move_ledger()

    def _move_ledger(self) -> None:
        """Write down what is durable, in one transaction, where the ledger does not say it yet."""
        self._ledger_moved = time.monotonic()
        if (step := self._progress.step()) is None:
            return
        ledger, session = self._claim.ledger, self._session
        moves = ledger.add_in_flight(step.moves, {})
        with transaction(session.connection):
            name = f"{session.epoch}-{self._ledger_moved:.0f}"
            session.ledger.move(session.connection, session.epoch, name, moves, step.totals, step.channels)
        ledger.advance(moves)
        ledger.channels.update(step.channels)
        self._progress.took(step)
        self._parts.on_ledger()

    def _end(self) -> None:
        """The last that tasks said, and the ledger."""
        self._read_reports()
        self._tell()
        self._move_ledger()

    def _abandon(self) -> None:
        """Cancel what runs: nothing is lost by it."""
        running = [each.reports for each in self._running if not each.reports.cancel()]
        if any(not each.done() for each in running):
            with suppress(FirnError):
                self._parts.engine.cancel()
            wait(running, CANCEL_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)
        for each in self._running:
            if each.reports.done() and not each.reports.cancelled() and each.reports.exception() is None:
                self._take(Reports(map(load, each.reports.result())))
        self._running = [each for each in self._running if not each.reports.done()]

    def _take(self, reports: Reports) -> None:
        """How far a task came that has ended."""
        now = time.monotonic()
        for followed in reports.of(Followed):
            self._progress.take(followed, now)
        for retried in reports.of(Retried):
            RETRIES.add(retried.errors)


_AGAIN = {Cut, RowErrors, SchemaChangeRequest, SuspectedStaleSchema}
"""Reports after which a group starts again at once."""


def _continuous(method: DriverSide) -> ContinuousTaskSide:
    side = method.task_side
    if not isinstance(side, ContinuousTaskSide):
        raise FirnError(f"{type(method).__name__} is no continuous method.")
    return side


def _hung(partitions: Iterable[TopicPartition], what: str) -> TransientError:
    names = list(map(str, partitions))
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return TransientError(
        f"The task of {shown} {what}.",
        next_step="Nothing at first: the sink cancels its tasks, claims again and starts new ones.",
    )
