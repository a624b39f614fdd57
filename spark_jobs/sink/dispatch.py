"""Ships a batch, from the driver: until its tables take what its records hold. Not for the tasks (`ship`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from snowflake.connector import SnowflakeConnection

from firn.dead_letters.published import Letters, published_letters
from firn.errors import ClaimAgainError
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.ledger.positions import Ledger
from firn.ledger.table import LedgerTable
from firn.plural import counted
from firn.retry import RETRIES, Deadline
from firn.sinks.context import SinkContext
from firn.snowflake.faults import MissingObjectError
from spark_jobs.sink.limits import BatchLimit
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.planner import grouped
from spark_jobs.sink.spark.engine import Engine
from spark_jobs.sink.tables.evolution import SchemaChange
from spark_jobs.sink.tables.loaders import Loads
from spark_jobs.sink.task.partition_task import RangeWork, ShipPlan, ship
from spark_jobs.sink.values.reports import (
    Failed,
    Reports,
    Retried,
    SchemaChangeRequest,
    SuspectedStaleSchema,
    Tolerated,
    load,
)

log = logging.getLogger(__name__)
LettersOut = Mapping[TopicPartition, Letters]


@dataclass(frozen=True)
class Claimed:
    """What a claim found out, for all batches of its epoch.

    topic_ids: Kafka's id of each topic. letters: which dead letters of a partition are out without being committed.
    """

    ledger: Ledger
    topic_ids: Mapping[str, str]
    letters: LettersOut


@dataclass(frozen=True)
class Shipped:
    """What the tasks of a batch reported, and which dead letters of its partitions are out now."""

    reports: Reports
    letters: LettersOut


class Shipping:
    """Ships the batches of one epoch, one at a time; the batch before may be committing meanwhile.

    `stage` and `loads` are where it ships to; a commit reads from them.
    """

    def __init__(
        self,
        context: SinkContext,
        connection: SnowflakeConnection,
        claimed: Claimed,
        table: LedgerTable,
        deadline: Deadline,
        engine: Engine,
        limit: BatchLimit,
        on_change: Callable[[Sequence[SchemaChange]], None],
    ) -> None:
        self._context, self._connection, self._table, self._deadline = context, connection, table, deadline
        self._epoch, self._topic_ids = claimed.ledger.epoch, claimed.topic_ids
        self._engine, self._limit, self._on_change = engine, limit, on_change
        self.stage = Stage(context.namespace, context.config.name, self._epoch)
        self.loads = Loads(context, connection)

    def ship(self, ranges: Sequence[OffsetRange], letters: LettersOut, settled: Callable[[], None]) -> Shipped:
        """Ship; where records want their tables changed, or doubt them, see to that and ship again from the start.

        But for dead letters: those that are out by then are not met again, and are reported here.

        settled: waits until the batch before has ended, and raises where it failed. The session is its own until then,
        so it is called before any statement.
        """
        topics = {each.topic for each in ranges}
        if not self.loads.known(topics):
            settled()
        self.loads.begin_batch()
        shipped, out = self._ship_once(ranges, letters), Reports()
        while {*map(type, shipped)} & {SchemaChangeRequest, SuspectedStaleSchema}:
            settled()
            # A run that lost the sink must change no table: perhaps it was dropped when the sink was cleaned away.
            self._table.check_epoch(self._connection, self._epoch)
            self._update_tables(
                shipped.of(SchemaChangeRequest), {each.table for each in shipped.of(SuspectedStaleSchema)}
            )
            if published := [each for each in shipped.of(Tolerated) if each.group_offset >= 0]:
                out += published
                starts = {TopicPartition(each.topic, each.partition): each.start for each in ranges}
                letters = {**letters, **letters_out(self._context, self._topic_ids, starts)}
            shipped = self._ship_once(ranges, letters)
        reports = Reports([*out, *shipped])
        return Shipped(reports, letters_after(letters, reports.of(Tolerated)))

    def _update_tables(self, wanted: Sequence[SchemaChangeRequest], doubted: Iterable[str]) -> None:
        """Change those that records want changed, and look at those that they doubt."""
        try:
            self.loads.look_again(doubted)
            if wanted:
                changes = self.loads.evolve(wanted)
                log.info("%s; the batch is shipped again", counted(len(changes), "schema change"))
                self._on_change(changes)
        except MissingObjectError as error:
            raise dropped(error) from error

    def _ship_once(self, ranges: Sequence[OffsetRange], letters: LettersOut) -> Reports:
        """The one job of a batch: a task for each slot, or `tasks.max` of them; only reports come back."""
        topics = {each.topic for each in ranges}
        plan = ShipPlan(
            self._context,
            self.stage,
            self.loads.of_topics(topics),
            max(1.0, self._deadline.left()),
            self.loads.unsure(topics),
        )
        tasks = min(self._engine.slots, self._context.config.tasks_max or len(ranges))
        groups = grouped(self._works(ranges, letters), tasks, lambda work: len(work.offsets))
        reports = Reports([load(text) for text in self._engine.run(partial(ship, plan), groups)])
        for retried in reports.of(Retried):
            RETRIES.add(retried.errors)
        for failed in reports.of(Failed):
            self._deadline.failed(failed.failing_seconds)
            raise failed.unwrap()
        return reports

    def _works(self, ranges: Sequence[OffsetRange], letters: LettersOut) -> list[RangeWork]:
        total = sum(map(len, ranges))
        works = []
        for each in ranges:
            out = letters.get(TopicPartition(each.topic, each.partition), Letters())
            budget = self._limit.range_bytes(len(each) / total)
            works.append(RangeWork(each, self._topic_ids[each.topic], budget, out))
        return works


def dropped(error: MissingObjectError) -> ClaimAgainError:
    """What a claim makes again, or tells a person about."""
    return ClaimAgainError(f"Something was dropped: {error.what}", where=error.where)


def letters_after(letters: LettersOut, tolerated: Iterable[Tolerated]) -> dict[TopicPartition, Letters]:
    """Which letters are out once these were published too."""
    after = dict(letters)
    for each in tolerated:
        if each.group_offset >= 0:
            seen = after.get(each.where, Letters())
            after[each.where] = Letters(each.group_offset, seen.published | set(each.published))
    return after


def letters_above(letters: LettersOut, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, Letters]:
    """The same without the letters below these positions: they are committed, and need not be known any more."""
    return {
        where: replace(seen, published=frozenset(at for at in seen.published if at >= committed.get(where, 0)))
        for where, seen in letters.items()
    }


def letters_out(
    context: SinkContext, topic_ids: Mapping[str, str], committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Letters]:
    """The dead letters of each partition that are out without being committed. Raises as `published_letters` does."""
    positions = {where: (topic_ids[where.topic], at) for where, at in committed.items()}
    return published_letters(context.kafka, context.config.name, positions)
