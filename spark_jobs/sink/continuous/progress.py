"""How far a continuous run is, from what its tasks report: pure state.

Tasks report sums since they began, again and again, and a report may be missed; so each report is compared with the one
before it of the same task. From the differences come the batches that metrics, events and the run's report are made of,
and, more rarely, the steps of the ledger. Not for how reports travel (`run`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from firn.channels.recorded import RecordedChannel
from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Totals
from firn.ledger.positions import Move
from firn.sinks.signs import TaskReport
from spark_jobs.sink.values.batches import CommittedBatch
from spark_jobs.sink.values.reports import Followed, Tolerated


@dataclass(frozen=True)
class LedgerStep:
    """What one statement group writes into the ledger: moves, totals, and the channels that belong to the positions."""

    moves: tuple[Move, ...]
    totals: Totals
    channels: Mapping[TopicPartition, RecordedChannel]


class RunProgress:
    """The partitions of one epoch. durable: by partition, the first offset that is not durable."""

    def __init__(
        self,
        epoch: int,
        committed: Mapping[TopicPartition, int],
        channels: Mapping[TopicPartition, RecordedChannel],
        now: float = 0.0,
    ) -> None:
        self._epoch, self.durable = epoch, dict(committed)
        self._ledger, self._recorded = dict(committed), dict(channels)
        self._channels = dict(channels)
        self._told = dict(committed)
        self._last: dict[TopicPartition, Followed] = {}
        self._moved_at = dict.fromkeys(committed, now)
        self._batch, self._batches = _Sums(), 0
        self._owed = Totals()

    def take(self, report: Followed, now: float = 0.0) -> bool:
        """Take over a report; whether it is newer than the last one of its partition."""
        where, last = report.where, self._last.get(report.where)
        if where not in self.durable or (last and (report.attempt, report.counter) <= (last.attempt, last.counter)):
            return False
        self._last[where] = report
        before = last if last and last.attempt == report.attempt else None
        self._batch.add(report, before)
        if report.next_offset > self.durable[where]:
            self.durable[where], self._moved_at[where] = report.next_offset, now
        if report.token is not None and where in self._channels:
            self._channels[where] = replace(self._channels[where], token=report.token)
        return True

    def started(self, partitions: Iterable[TopicPartition], now: float) -> None:
        """A task begins to follow these: it has its time before they count as stalled."""
        self._moved_at |= dict.fromkeys(partitions, now)

    def accounted(self, where: TopicPartition, end: int, rows: int, channel: RecordedChannel, now: float) -> None:
        """Rows that Snowflake refused are dealt with: all below `end` is durable, `rows` more of it than was reported.

        The ledger is moved already.
        """
        self._batch.rows += rows
        self._recorded[where] = self._channels[where] = channel
        self._ledger[where] = end
        self.durable[where], self._moved_at[where] = max(end, self.durable[where]), now

    def left_out(self, tolerated: Tolerated) -> None:
        """Bad records that no task of a group has reported."""
        self._batch.tolerate(tolerated)

    def batch(self, seconds: float) -> CommittedBatch | None:
        """What became durable since the last call, `seconds` ago; None where no partition moved.

        Sums that belong to no move yet wait for the next one.
        """
        moves = tuple(Move(w, self._told[w], at) for w, at in sorted(self.durable.items()) if at > self._told[w])
        if not moves:
            return None
        sums, self._batch = self._batch, _Sums()
        self._told = dict(self.durable)
        self._batches += 1
        batch = CommittedBatch(
            name=f"{self._epoch}-{self._batches}",
            rows=sums.rows,
            bytes=0,
            text_bytes=sums.text_bytes,
            receipts=0,
            moves=moves,
            tolerated=tuple(sums.tolerated),
            dispatch_seconds=seconds,
            commit_seconds=0.0,
        )
        self._owed += batch.totals
        return batch

    def step(self) -> LedgerStep | None:
        """What the ledger does not say yet; None where nothing changed. `batch` comes before."""
        moves = tuple(Move(w, self._ledger[w], at) for w, at in sorted(self.durable.items()) if at > self._ledger[w])
        channels = {w: channel for w, channel in self._channels.items() if channel != self._recorded.get(w)}
        if not moves and not channels and self._owed == Totals():
            return None
        return LedgerStep(moves, self._owed, channels)

    def took(self, step: LedgerStep) -> None:
        """The ledger says this now."""
        self._ledger |= {move.where: move.end for move in step.moves}
        self._recorded |= step.channels
        self._owed = Totals()

    def recorded(self, where: TopicPartition) -> RecordedChannel | None:
        """The channel as the ledger has it."""
        return self._recorded.get(where)

    def stalled(self, ends: Mapping[TopicPartition, int], now: float, seconds: float) -> list[TopicPartition]:
        """Partitions that stand still for so long though Kafka holds more; the others begin to wait now."""
        waiting = {where for where, at in self.durable.items() if ends.get(where, at) > at}
        self._moved_at |= dict.fromkeys(self.durable.keys() - waiting, now)
        return sorted(where for where in waiting if now - self._moved_at[where] > seconds)


def followed_of(where: TopicPartition, report: TaskReport) -> Followed:
    """A report that came through Kafka."""
    return Followed(
        *where,
        attempt=report.attempt,
        counter=report.counter,
        next_offset=report.next_offset,
        token=report.token,
        rows=report.rows,
        text_bytes=report.text_bytes,
        letters=report.letters,
        reasons=dict(report.reasons),
        samples=list(report.samples),
    )


class _Sums:
    """What several reports add."""

    def __init__(self) -> None:
        self.rows = self.text_bytes = 0
        self._by_partition: dict[TopicPartition, Tolerated] = {}

    @property
    def tolerated(self) -> list[Tolerated]:
        return [self._by_partition[where] for where in sorted(self._by_partition)]

    def add(self, report: Followed, before: Followed | None) -> None:
        self.rows += report.rows - (before.rows if before else 0)
        self.text_bytes += report.text_bytes - (before.text_bytes if before else 0)
        reasons = Counter(report.reasons)
        reasons.subtract(before.reasons if before else {})
        if new := {reason: count for reason, count in reasons.items() if count > 0}:
            seen = {offset for offset, _, _ in before.samples} if before else set()
            samples = [(at, reason, detail) for at, reason, detail in report.samples if at not in seen]
            letters = report.letters - (before.letters if before else 0)
            self.tolerate(Tolerated(*report.where, sum(new.values()), letters, -1, new, samples))

    def tolerate(self, new: Tolerated) -> None:
        if (before := self._by_partition.get(new.where)) is not None:
            reasons = dict(Counter(before.reasons) + Counter(new.reasons))
            records, letters = before.records + new.records, before.letters + new.letters
            new = replace(new, records=records, letters=letters, reasons=reasons, samples=before.samples + new.samples)
        self._by_partition[new.where] = new
