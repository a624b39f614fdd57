"""Whether a run lives and how far it is, as one observer sees it: by Kafka, and by the ledger where that says nothing.

What counts is change: a sign that is another one than at the look before was written in between, by the observer's own
clock. Until an observer has seen a change, the age of the newest sign by the clock of the machine that wrote it has to
do. Not for what a sign is (`firn.sinks.signs`), nor for what follows (`health`, the supervisor).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from firn.errors import FirnError, TransientError
from firn.kafka.cluster import KafkaAdmin
from firn.kafka.partitions import TopicPartition
from firn.ledger.kafka_names import request_group, sign_group, task_group
from firn.ledger.owner import Owner
from firn.ledger.positions import Position
from firn.ledger.rows import View
from firn.sinks.signs import Sign, SignReader, Signs, TaskReport

NO_SIGNS = Signs(None, {})
log = logging.getLogger(__name__)


def reader(admin: KafkaAdmin, ledger_id: str, sink: str) -> SignReader:
    """Reads what is said of a sink in Kafka."""
    return SignReader(admin, *(named(ledger_id, sink) for named in (sign_group, task_group, request_group)))


def hear(admin: KafkaAdmin, ledger_id: str, sink: str) -> Signs:
    """What is said of a sink in Kafka; nothing before there is a ledger, and where this login may not look.

    Raises TransientError where Kafka does not answer.
    """
    if not ledger_id:
        return NO_SIGNS
    try:
        return reader(admin, ledger_id, sink).read()
    except TransientError:
        raise
    except FirnError as error:
        log.debug("the signs of sink %s cannot be read: %s", sink, error.what)
        return NO_SIGNS


class Watch:
    """How long it is since one thing changed. clock: seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._mark: Hashable = None
        self._age, self._seen = 0.0, 0.0

    def age(self, mark: Hashable, before: float) -> float:
        """Seconds since the mark changed. before: how old a first mark is already, as far as anybody can say."""
        now = self._clock()
        if self._mark is None:
            self._age, self._seen = max(0.0, before), now
        elif mark != self._mark:
            self._age, self._seen = 0.0, now
        self._mark = mark
        return self._age + now - self._seen


class LifeWatch:
    """The life of the run that holds one sink, over an observer's looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._epoch = 0
        self._begin()

    def owner(self, view: View, sign: Sign | None) -> Owner | None:
        """The owner of the ledger, silent for as long as neither its row nor its signs changed.

        Signs of other epochs say nothing of this owner.
        """
        owner, utc = view.owner, datetime.now(UTC)
        if owner is None or view.updated_at is None:
            return None
        if owner.epoch != self._epoch:
            self._epoch = owner.epoch
            self._begin()
        silent = self._row.age(view.updated_at, (utc - view.updated_at).total_seconds())
        if sign is not None and sign.epoch == owner.epoch:
            silent = min(silent, self._signs.age(sign.counter, (utc - sign.at).total_seconds()))
        return replace(owner, silent_seconds=silent)

    def _begin(self) -> None:
        self._row, self._signs = Watch(self._clock), Watch(self._clock)


class ReportWatch:
    """The positions of a sink, ahead of the ledger where its tasks report that more is durable."""

    def __init__(self) -> None:
        self._seen: Mapping[TopicPartition, Position] | None = None
        self._moved_at: datetime | None = None

    def positions(
        self, view: View, reports: Mapping[TopicPartition, TaskReport]
    ) -> tuple[Mapping[TopicPartition, Position], datetime | None]:
        """The positions by ledger and reports, and when this observer saw them move last (UTC; None: no task reports).

        Reports of other epochs than the ledger's say nothing.
        """
        now, epoch = datetime.now(UTC), view.owner.epoch if view.owner and view.owner.run_id else None
        fresh = {where: report.next_offset for where, report in reports.items() if report.epoch == epoch}
        if not fresh:
            self._seen = self._moved_at = None
            return view.positions, None
        positions = {
            where: replace(position, next_offset=max(position.next_offset, fresh.get(where, 0)))
            for where, position in view.positions.items()
        }
        if self._seen is not None and positions != self._seen:
            self._moved_at = now
        elif self._moved_at is None:
            ledger = (each.updated_at for each in view.positions.values() if each.updated_at)
            self._moved_at = max(ledger, default=now)
        self._seen = positions
        return positions, self._moved_at
