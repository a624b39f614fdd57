"""What runs on executors in a continuous run: one task follows a group of partitions for as long as it lives.

`run_group` is the only task of its Spark job. It opens a writer for each of its partitions, reads on from where these
are, and says once a second in Kafka how far it is: to Spark a task says nothing before its end. It ends where it can
go no further alone: a table must change, a record stops its partition, rows were refused, nothing has come for long. A
task that is killed loses nothing: what is durable the channels know.

Records are written only after a check of their topic's id that began after they were fetched, so none of a topic that
was made again under its name becomes a row. Not for what becomes of one partition's records (`followed_partition`).
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from firn.channels.faults import ChannelInvalidError
from firn.errors import AuthenticationError, FirnError, PrivilegeError, TransientError
from firn.kafka import cluster
from firn.kafka.fetching import BATCH_BYTES, BATCH_RECORDS
from firn.kafka.follower import FollowedBatch, Follower
from firn.kafka.group_documents import GroupDocuments, GroupInUseError
from firn.kafka.partitions import TopicPartition
from firn.logs import log_fields
from firn.plural import counted
from firn.sinks.context import SinkContext
from firn.sinks.signs import TaskReport, report_document
from firn.snowflake.identifiers import table_for
from spark_jobs.sink.dead_letters.tolerance import Tolerance
from spark_jobs.sink.methods.base import ContinuousTaskSide, PartitionRange
from spark_jobs.sink.task.followed_partition import Conversion, FollowedPartition, PartitionWork
from spark_jobs.sink.task.partition_rows import PartitionRows
from spark_jobs.sink.task.reporting import run_reporting
from spark_jobs.sink.task.table_look import TableLook
from spark_jobs.sink.task.worker import confirm_epoch, confirm_topics, decoders_of, session_of
from spark_jobs.sink.values.reports import Followed, Report, Stopped
from spark_jobs.sink.values.table_loaders import TableLoader

PASS_SECONDS = 0.05
"""Between two passes, at least: what comes meanwhile is taken together."""
LOOK_SECONDS = 0.25
"""Between two looks at the channels that have rows on their way."""
OFFER_SECONDS = 0.2
"""Between two offers of rows to a channel without room: a full one has work for longer."""
MOST_HELD = 16 * 1024 * 1024
"""Bytes of a partition's rows that wait for room while others are fetched; beyond that the partition is paused, which
costs: librdkafka throws away what it has fetched of it."""
REPORT_SECONDS, SIGN_SECONDS = 1.0, 10.0
"""Between two reports of a partition that moves, and of any."""
SETTLE_SECONDS = 60.0
"""How long a task that ends waits for its rows to be durable."""
MOST_WAITING = 128 * 1024 * 1024
"""Bytes of rows that may be on their way at a time: while there are more, nothing is fetched."""
COLLECT_SECONDS = 60.0


@dataclass(frozen=True)
class GroupWork:
    """The partitions of one task. attempt: a number that no other task of the epoch has."""

    attempt: int
    partitions: tuple[PartitionWork, ...]


@dataclass(frozen=True)
class GroupPlan:
    """What the task of a group needs to know.

    epoch, ledger_id: the right to write, and of which ledger. loaders: of each topic's table. patience: seconds that it
    may go on failing. documents: the group in Kafka that its reports go to. idle_seconds: after so long without a
    record it ends. log_fields: of the driver's lines about it.
    """

    context: SinkContext
    method: ContinuousTaskSide
    epoch: int
    ledger_id: str
    loaders: Mapping[str, TableLoader]
    patience: float
    documents: str
    idle_seconds: float
    log_fields: Mapping[str, object] = field(default_factory=log_fields)


class Documents(Protocol):
    """Where reports go: `GroupDocuments`."""

    fault: FirnError | None

    def offer(self, documents: Mapping[TopicPartition, tuple[int, str]]) -> bool:
        """Write these soon; never raises."""
        ...


class Source(Protocol):
    """Where records come from: `Follower`."""

    def poll(self, seconds: float) -> list[FollowedBatch]:
        """What has come within so many seconds."""
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch nothing of these for now."""
        ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch again."""
        ...

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Read on from there."""
        ...


def run_group(plan: GroupPlan, groups: Iterator[GroupWork]) -> Iterator[str]:
    """Follow the partitions of a group until the task ends; yields its reports as texts (`reports.dump`).

    The last report of each partition is among them whatever ended the task.
    """
    works = list(groups)

    def work(reports: list[Report]) -> None:
        with tempfile.TemporaryDirectory(prefix="firn-") as folder:
            for each in works:
                _follow(plan, each, Path(folder), reports)

    return run_reporting(work, plan.patience, plan.log_fields, [each.where for one in works for each in one.partitions])


def _follow(plan: GroupPlan, work: GroupWork, folder: Path, reports: list[Report]) -> None:
    partitions: dict[TopicPartition, FollowedPartition] = {}
    buffer = plan.context.config.buffer
    limits = {"records": min(buffer.records, BATCH_RECORDS), "size": min(buffer.bytes, BATCH_BYTES)}
    follower = Follower(plan.context.kafka, **limits)
    try:
        looks = {topic: TableLook(plan.context, topic, loader) for topic, loader in plan.loaders.items()}
        targets = [_target(plan, each.where, folder) for each in work.partitions]
        writers = plan.method.writers(targets, session_of(plan.context))
        for each, writer in zip(work.partitions, writers, strict=True):
            conversion = _conversion(plan, each, folder, looks[each.where.topic])
            partitions[each.where] = FollowedPartition(each, writer, conversion, work.attempt)
        follower.assign({where: each.state.position for where, each in partitions.items()})
        ids = {each.where.topic: each.topic_id for each in work.partitions}
        documents = GroupDocuments(plan.context.kafka, plan.documents)
        confirm = partial(confirm_topics, cluster.admin_client(plan.context.kafka), ids)
        GroupTask(partitions, follower, documents, confirm, plan.epoch, plan.idle_seconds).run()
        documents.close()
    finally:
        reports += [report for each in partitions.values() for report in each.reports()]
        follower.close()
        plan.method.close(flush=False)  # what was to be durable is


def _target(plan: GroupPlan, where: TopicPartition, folder: Path) -> PartitionRange:
    table = table_for(where.topic, plan.context.config.table_map)
    return PartitionRange(where, table, plan.loaders[where.topic], folder, plan.context)


def _conversion(plan: GroupPlan, work: PartitionWork, folder: Path, look: TableLook) -> Conversion:
    context, where = plan.context, work.where
    confirm = partial(confirm_epoch, context, plan.epoch)
    return Conversion(
        lambda letters: Tolerance(context, plan.ledger_id, where, work.topic_id, letters, folder, confirm),
        lambda tolerance, write: PartitionRows(
            context,
            where,
            plan.loaders[where.topic],
            decoders_of(context),
            tolerance,
            write=write,
            stale=look.changed,
        ),
    )


class GroupTask:
    """Follows partitions until they end. confirm: raises unless these topics are the ones that were claimed."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, FollowedPartition],
        source: Source,
        documents: Documents,
        confirm: Callable[[Iterable[str]], None],
        epoch: int,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partitions, self._source, self._documents = partitions, source, documents
        self._confirm, self._epoch, self._idle_seconds, self._clock = confirm, epoch, idle_seconds, clock
        self._paused: set[TopicPartition] = set()
        self._reported: dict[TopicPartition, int] = {}
        now = clock()
        self._last_batch = self._passed = self._collected = self._offered = now
        self._looked = self._signed = self._report_at = float("-inf")
        self._closing_since: float | None = None

    def run(self) -> None:
        """Follow until every partition is done or nothing has come for long, or one of them ended.

        Raises as reading, writing and publishing do, and TransientError where rows do not become durable.
        """
        self._look(everywhere=True)
        while not self._over():
            self._pass()
            self._look()
            self._report()
        self._report(final=True)

    def _over(self) -> bool:
        """Whether the task has come to its end: all that it wrote is durable then."""
        members, now = self._partitions.values(), self._clock()
        if not self._closing:
            self._closing_since = None
            if not all(each.settled for each in members):
                return False
            return all(each.done or each.ended for each in members) or now - self._last_batch > self._idle_seconds
        self._closing_since = self._closing_since or now
        if all(each.settled for each in members):
            return True
        if now - self._closing_since > SETTLE_SECONDS:
            waiting = [each for each in members if not each.settled]
            raise TransientError(
                f"Rows of {counted(len(waiting), 'partition')} did not become durable within {SETTLE_SECONDS:.0f} s.",
                where=str(waiting[0].where),
                next_step="Nothing: the sink claims again and goes on behind what is durable.",
            )
        return False

    @property
    def _closing(self) -> bool:
        """Whether nothing more is taken, because of a partition that ended.

        A task that takes what is available stops one partition in front of a bad record, and takes the others whole.
        """
        members = self._partitions.values()
        ends = [each.ended for each in members if each.ended]
        if not ends:
            return False
        finite = all(each.finite for each in members) and all(isinstance(each, Stopped) for each in ends)
        return not finite

    def _pass(self) -> None:
        """Take what has come, and hand it on."""
        full = {where for where, each in self._partitions.items() if each.saturated}
        self._wait(PASS_SECONDS - (self._clock() - self._passed))
        batches = self._fetch(self._offered + OFFER_SECONDS - self._clock() if full else LOOK_SECONDS)
        self._passed = self._clock()
        if batches:
            self._last_batch = self._passed
            self._confirm(sorted({each.where.topic for each in batches}))
        for each in batches:
            self._partitions[each.where].take(each)
        self._release({each.where for each in batches}, full)
        self._balance()
        if self._passed - self._collected > COLLECT_SECONDS:
            self._collected = self._passed
            gc.collect()  # a worker has no other collection (`daemon`)

    def _fetch(self, seconds: float) -> list[FollowedBatch]:
        """What comes within so many seconds; nothing where there is no place for it."""
        members = self._partitions.values()
        if all(each.saturated or each.done or each.ended for each in members):
            self._wait(seconds)
            return []
        if self._closing or sum(each.state.waiting + each.held for each in members) > MOST_WAITING:
            self._wait(PASS_SECONDS)
            return []
        return self._source.poll(max(0.0, seconds))

    def _release(self, fetched: set[TopicPartition], full: set[TopicPartition]) -> None:
        """Write rows of what was fetched; where rows of before wait for room, from time to time."""
        due = self._passed - self._offered >= OFFER_SECONDS
        for where in sorted(fetched - full | (full if due else set())):
            self._safely(self._partitions[where], FollowedPartition.release)
        if due:
            self._offered = self._passed

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def _balance(self) -> None:
        """Partitions of which much waits for room rest until it is gone; others go on."""
        members = self._partitions.items()
        full = {at for at, each in members if each.saturated and (at in self._paused or each.held > MOST_HELD)}
        if paused := full - self._paused:
            self._source.pause(paused)
        if resumed := self._paused - full:
            self._source.resume(resumed)
        self._paused = full

    def _safely(self, member: FollowedPartition, step: Callable[[FollowedPartition], None]) -> None:
        while True:
            try:
                return step(member)
            except ChannelInvalidError:
                self._source.seek(member.where, member.reopen())
                step = FollowedPartition.look  # rows may have been refused that nobody has looked for yet

    def _look(self, *, everywhere: bool = False) -> None:
        if self._clock() - self._looked < LOOK_SECONDS:
            return
        self._looked = self._clock()
        for each in self._partitions.values():
            if everywhere or not each.settled:
                self._safely(each, FollowedPartition.look)

    def _report(self, *, final: bool = False) -> None:
        """Say how far the partitions are: those that moved, or all of them where that is due."""
        now = self._clock()
        if now - self._report_at < REPORT_SECONDS and not final:
            return
        everywhere = final or now - self._signed >= SIGN_SECONDS
        self._report_at, self._signed = now, now if everywhere else self._signed
        said = [
            each.followed()
            for where, each in self._partitions.items()
            if everywhere or self._reported.get(where) != each.state.durable
        ]
        self._reported |= {each.where: each.next_offset for each in said}
        taken = self._documents.offer({each.where: report_document(self._task_report(each)) for each in said})
        fault = None if taken else self._documents.fault
        if isinstance(fault, PrivilegeError | AuthenticationError | GroupInUseError):
            raise fault  # who waits for these reports would take the task for hung

    def _task_report(self, followed: Followed) -> TaskReport:
        return TaskReport(
            self._epoch,
            followed.counter,
            followed.next_offset,
            followed.token,
            followed.rows,
            followed.text_bytes,
            sum(followed.reasons.values()),
            followed.letters,
            followed.attempt,
            followed.reasons,
            followed.samples,
        )
