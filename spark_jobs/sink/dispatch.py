"""Dispatches a batch to tasks, from the driver, until its tables take what its records hold.

Not for what a task does (`task.partition_task`), nor for the commit (`batch`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from firn.dead_letters.published import PartitionLetters, published_letters
from firn.errors import ClaimAgainError
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.plural import counted
from firn.retry import RETRIES, Deadline
from firn.sinks.context import SinkContext
from firn.snowflake.faults import MissingObjectError
from spark_jobs.sink.dead_letters.tolerance import SAMPLES
from spark_jobs.sink.methods.base import Claim, DriverSide, EpochSession
from spark_jobs.sink.planner import BatchLimit, grouped
from spark_jobs.sink.tables.evolution import SchemaChange
from spark_jobs.sink.tables.loaders import TableLoaders
from spark_jobs.sink.task.partition_task import RangeWork, TaskPlan, run_task
from spark_jobs.sink.values.batches import PublishedLetters, RejectedRows
from spark_jobs.sink.values.reports import (
    Failed,
    Reports,
    Retried,
    SchemaChangeRequest,
    SuspectedStaleSchema,
    Tolerated,
    load,
)
from spark_jobs.spark.engine import Engine

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DispatchResult:
    """What the tasks of a batch reported, and which dead letters of its partitions are published now."""

    reports: Reports
    published: PublishedLetters


class Dispatcher:
    """Dispatches the batches of one epoch, one at a time; the batch before may be committing meanwhile.

    on_change: gets the schema changes that were made for a batch. rejected: rows that Snowflake refused since the run
    began, so that tasks count them as bad; `reject` adds to it. `loaders`: of the tables.
    """

    def __init__(
        self,
        session: EpochSession,
        claim: Claim,
        method: DriverSide,
        deadline: Deadline,
        engine: Engine,
        limit: BatchLimit,
        on_change: Callable[[Sequence[SchemaChange]], None],
        rejected: RejectedRows,
    ) -> None:
        self._session, self._context, self._claim = session, session.context, claim
        self._method, self._deadline = method.task_side, deadline
        self._engine, self._limit, self._on_change = engine, limit, on_change
        self._rejected = rejected
        self.loaders = TableLoaders(session.context, session.connection, method.prepare_table)

    def dispatch(
        self, ranges: Sequence[OffsetRange], published: PublishedLetters, wait_for_previous: Callable[[], None]
    ) -> DispatchResult:
        """Dispatch; while tables must change or be described again for its records, do that and dispatch again.

        Dead letters that were published on the way are not met again: they are reported here.

        wait_for_previous: waits until the batch before has ended, and raises where it failed. The session is its own
        until then, so this is called before any statement.
        """
        topics = {each.topic for each in ranges}
        if not self.loaders.known(topics):
            wait_for_previous()
        self.loaders.begin_batch()
        reports, published_before = self._dispatch_once(ranges, published), Reports()
        while {*map(type, reports)} & {SchemaChangeRequest, SuspectedStaleSchema}:
            wait_for_previous()
            # A run that lost the sink must change no table: perhaps it was dropped when the sink was cleaned away.
            self._session.ledger.check_epoch(self._session.connection, self._session.epoch)
            stale = {each.table for each in reports.of(SuspectedStaleSchema)}
            self._update_tables(reports.of(SchemaChangeRequest), stale)
            if newly := [each for each in reports.of(Tolerated) if each.group_offset >= 0]:
                published_before += newly
                starts = {TopicPartition(each.topic, each.partition): each.start for each in ranges}
                published = {**published, **uncommitted_letters(self._context, self._claim, starts)}
            reports = self._dispatch_once(ranges, published)
        reports = Reports([*published_before, *reports])
        return DispatchResult(reports, with_letters_of(published, reports.of(Tolerated)))

    def reject(self, rows: RejectedRows) -> None:
        """Remember rows that Snowflake refused, and forget those that are behind the sink."""
        for where, refused in rows.items():
            for offset, why in list(refused.items())[:SAMPLES]:
                log.warning("Snowflake refuses the row of %s, offset %d: %s", where, offset, why)
            known = {**self._rejected.get(where, {}), **refused}
            committed = self._claim.ledger.committed.get(where, 0)
            self._rejected[where] = {offset: why for offset, why in known.items() if offset >= committed}

    def _update_tables(self, requests: Sequence[SchemaChangeRequest], stale: Iterable[str]) -> None:
        """Change the tables of these requests, and describe the stale ones again."""
        try:
            self.loaders.refresh(stale)
            if requests:
                changes = self.loaders.evolve(requests)
                log.info("%s; the batch is dispatched again", counted(len(changes), "schema change"))
                self._on_change(changes)
        except MissingObjectError as error:
            raise claim_again(error) from error

    def _dispatch_once(self, ranges: Sequence[OffsetRange], published: PublishedLetters) -> Reports:
        """The one job of a batch: a task for each slot, or `tasks.max` of them; only reports come back."""
        topics = {each.topic for each in ranges}
        plan = TaskPlan(
            self._context,
            self._method,
            self._session.epoch,
            self._claim.ledger.ledger_id,
            self.loaders.of_topics(topics),
            max(1.0, self._deadline.left()),
            self.loaders.unverified(topics),
        )
        tasks = min(self._engine.slots, self._context.config.tasks_max or len(ranges))
        groups = grouped(self._works(ranges, published), tasks, lambda work: len(work.offsets))
        reports = Reports([load(text) for text in self._engine.run(partial(run_task, plan), groups)])
        for retried in reports.of(Retried):
            RETRIES.add(retried.errors)
        for failed in reports.of(Failed):
            self._deadline.failed(failed.failing_seconds)
            raise failed.unwrap()
        return reports

    def _works(self, ranges: Sequence[OffsetRange], published: PublishedLetters) -> list[RangeWork]:
        total = sum(map(len, ranges))
        works = []
        for each in ranges:
            where = TopicPartition(each.topic, each.partition)
            letters = published.get(where, PartitionLetters())
            budget = self._limit.range_bytes(len(each) / total)
            refused = {at: why for at, why in self._rejected.get(where, {}).items() if each.start <= at < each.end}
            works.append(RangeWork(each, self._claim.topic_ids[each.topic], budget, letters, refused))
        return works


def claim_again(error: MissingObjectError) -> ClaimAgainError:
    """For an object that was dropped: a claim makes it again, or stops with what to do."""
    return ClaimAgainError(f"Something was dropped: {error.what}", where=error.where)


def with_letters_of(
    published: PublishedLetters, tolerated: Iterable[Tolerated]
) -> dict[TopicPartition, PartitionLetters]:
    """The published letters, with those of these reports."""
    after = dict(published)
    for each in tolerated:
        if each.group_offset >= 0:
            before = after.get(each.where, PartitionLetters())
            after[each.where] = PartitionLetters(each.group_offset, before.published | set(each.published))
    return after


def letters_above(
    published: PublishedLetters, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionLetters]:
    """The published letters from these positions on: those below are committed, and need not be known any more."""
    return {
        where: replace(letters, published=frozenset(at for at in letters.published if at >= committed.get(where, 0)))
        for where, letters in published.items()
    }


def uncommitted_letters(
    context: SinkContext, claim: Claim, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionLetters]:
    """The dead letters of each partition that Kafka holds and the ledger does not. Raises as `published_letters`."""
    positions = {where: (claim.topic_ids[where.topic], at) for where, at in committed.items()}
    return published_letters(context.kafka, claim.ledger.ledger_id, context.config.name, positions)
