"""Ships a batch, from the driver: until its tables take what its records hold. Not for the tasks (`ship`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from snowflake.connector import SnowflakeConnection

from firn.plural import counted
from firn.retry import RETRIES, Deadline
from firn.snowflake_faults import MissingObjectError
from spark_jobs.sink.columns.wanted import Wanted
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.dead_letters import Letters, published_letters
from spark_jobs.sink.evolution import SchemaChange
from spark_jobs.sink.ledger import ClaimAgainError, Ledger, TopicPartition
from spark_jobs.sink.ledger_table import LedgerTable
from spark_jobs.sink.loads import Loads
from spark_jobs.sink.reports import Doubted, Failed, Reports, Retried, Tolerated, load
from spark_jobs.sink.ship import ShipPlan, ship
from spark_jobs.sink.stage import Stage

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claimed:
    """What a claim found out, for all batches of its epoch.

    topic_ids: Kafka's id of each topic. letters: which dead letters of a partition are out without being committed.
    """

    ledger: Ledger
    topic_ids: Mapping[str, str]
    letters: Mapping[TopicPartition, Letters]


class Shipping:
    """Ships the batches of one epoch, and knows which dead letters are out without being committed.

    `stage` and `loads` are where it ships to; a commit reads from them.
    """

    def __init__(
        self,
        context: SinkContext,
        connection: SnowflakeConnection,
        claimed: Claimed,
        table: LedgerTable,
        deadline: Deadline,
        on_change: Callable[[Sequence[SchemaChange]], None],
    ) -> None:
        self._context, self._connection, self._table, self._deadline = context, connection, table, deadline
        self._ledger, self._topic_ids, self._letters = claimed.ledger, claimed.topic_ids, dict(claimed.letters)
        self._on_change = on_change
        self.stage = Stage(context.namespace, context.config.name, claimed.ledger.epoch)
        self.loads = Loads(context, connection)

    def ship(self, frame: DataFrame, topics: Iterable[str]) -> Reports:
        """Ship; where records want their tables changed, or doubt them, see to that and ship again from the start.

        But for dead letters: those that are out by then are not met again, and are told of here.
        """
        shipped, out = self._ship_once(frame, topics), Reports()
        while {*map(type, shipped)} & {Wanted, Doubted}:
            # A run that lost the sink must change no table: perhaps it was dropped when the sink was cleaned away.
            self._table.check_epoch(self._connection, self._ledger.epoch)
            self._see_to_tables(shipped.of(Wanted), {each.table for each in shipped.of(Doubted)})
            if published := [each for each in shipped.of(Tolerated) if each.group_offset >= 0]:
                out += published
                self._letters = letters_out(self._context, self._topic_ids, self._ledger.committed)
            shipped = self._ship_once(frame, topics)
        return Reports([*out, *shipped])

    def _see_to_tables(self, wanted: Sequence[Wanted], doubted: Iterable[str]) -> None:
        """Change those that records want changed, and look at those that they doubt."""
        try:
            self.loads.look_again(doubted)
            if wanted:
                changes = self.loads.evolve(wanted)
                log.info("%s; the batch is shipped again", counted(len(changes), "schema change"))
                self._on_change(changes)
        except MissingObjectError as error:
            raise dropped(error) from error

    def _ship_once(self, frame: DataFrame, topics: Iterable[str]) -> Reports:
        """The one action of a batch: a task per partition, or `tasks.max` of them; only reports come back."""
        committed, patience = dict(self._ledger.committed), max(1.0, self._deadline.left())
        loads = self.loads.of_topics(topics)
        unsure = self.loads.unsure(topics)
        plan = ShipPlan(self._context, self.stage, committed, loads, self._letters, self._topic_ids, patience, unsure)
        if self._context.config.tasks_max:
            frame = frame.coalesce(self._context.config.tasks_max)
        rows = frame.mapInArrow(partial(ship, plan), "report string").collect()
        reports = Reports([load(row["report"]) for row in rows])
        for retried in reports.of(Retried):
            RETRIES.add(retried.errors)
        for failed in reports.of(Failed):
            self._deadline.failed(failed.failing_seconds)
            raise failed.unwrap()
        return reports

    def forget_letters(self, tolerated: Sequence[Tolerated]) -> None:
        """Dead letters below the ledger's new positions need not be known any more."""
        published = {each.where: each.group_offset for each in tolerated if each.group_offset >= 0}
        for where in {*self._letters, *published}:
            seen = self._letters.get(where, Letters(-1, frozenset()))
            left = frozenset(offset for offset in seen.published if offset >= self._ledger.committed[where])
            self._letters[where] = Letters(published.get(where, seen.group_offset), left)


def dropped(error: MissingObjectError) -> ClaimAgainError:
    """What a claim makes again, or tells a person about."""
    return ClaimAgainError(f"Something was dropped: {error.what}", where=error.where)


def letters_out(
    context: SinkContext, topic_ids: Mapping[str, str], committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Letters]:
    """The dead letters of each partition that are out without being committed. Raises as `published_letters` does."""
    positions = {where: (topic_ids[where.topic], at) for where, at in committed.items()}
    return published_letters(context.kafka, context.config.name, positions)
