"""A task: publishes what waits of a shard of a source, each batch in one Kafka transaction with its marker.

1. A producer of the shard's transactional.id: every older one is fenced, and what it left open is aborted.
2. EPOCH must still be ours, by Snowflake's word: an older run's task that comes late ends here.
3. The marker, read_committed, says up to which batch all is published; that is settled and not published again.
4. Each batch behind it: its messages, its dead letters, and the marker last; commit.
5. Now and then, and at the end: settle (`firn.exports.outbox`).

A crash anywhere leaves either nothing of a batch, or all of it with its marker. Not for what is moved (`run`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import orjson

from firn.errors import BadRecordError, FirnError, TerminalError, TransientError, unexpected
from firn.exports.columns import ColumnVersions
from firn.exports.context import ExportContext
from firn.exports.ledger import ClaimedExport, ExportLedger
from firn.exports.markers import PARTITION, Marker, MarkerKey, marker_session, read_markers
from firn.exports.outbox import read, settle
from firn.exports.published import PublishedBatch
from firn.exports.source import Source
from firn.kafka.client import KafkaClient
from firn.kafka.transactional_producer import RecordTooLargeError, TransactionSession
from firn.logs import log_context
from spark_jobs.export.messages.envelopes import Change
from spark_jobs.export.messages.serializer import Output, RowError, Serializer
from spark_jobs.export.reports import ShardPublished, dump
from spark_jobs.export.worker import serializer_for, session

if TYPE_CHECKING:
    import pyarrow as pa
    from snowflake.connector import SnowflakeConnection

SETTLE_SECONDS, SETTLE_BATCHES = 5.0, 100
"""After so long, or so many batches, published batches leave the outbox."""
_SERVE_EVERY = 2_000
_READ = ("BATCH", "ACTION", "ISUPDATE", "ROW_ID", "PAYLOAD", "BEFORE", "COLUMNS_VERSION", "FAILED", "MOVED_AT")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishWork:
    """What waits of one shard. Holds no credential: Spark writes it to a file. marker_offset: see `ShardPublished`."""

    source: str
    shard: int
    first: int
    last: int
    marker_offset: int = -1


@dataclass(frozen=True)
class PublishPlan:
    """What every task of a run needs to know. sources, versions: by the source's name."""

    context: ExportContext
    claimed: ClaimedExport
    sources: Mapping[str, Source]
    versions: Mapping[str, ColumnVersions]
    log_fields: Mapping[str, object] = field(default_factory=dict)


def run_task(plan: PublishPlan, groups: Iterable[Sequence[PublishWork]]) -> Iterator[str]:
    """Publish the shards of a task one after the other; yields a report for each, as text (`reports.dump`)."""
    for work in (work for group in groups for work in group):
        with log_context(**{**plan.log_fields, "source": work.source}):
            report = dump(_reported(plan, work))
        yield report


def _reported(plan: PublishPlan, work: PublishWork) -> ShardPublished:
    report, error = ShardPublished(work.source, work.shard), None
    publisher: Publisher | None = None
    try:
        with session(plan.context) as connection:
            publisher = Publisher(plan, work, connection)
            publisher.run()
    except FirnError as raised:
        error = raised
    except Exception as raised:
        log.exception("a task of the export failed")
        error = unexpected(raised)
    return replace(publisher.report() if publisher else report, error=error)


class _Sessions:
    """The producer of a shard. entered: ends what was entered.

    Where a topic refuses a batch of records, one of them may be too large: from then on each is sent as a batch of its
    own, until the task ends. A refusal leaves a producer in the midst of its abort, so the next one takes its id over.
    """

    def __init__(self, client: KafkaClient, key: MarkerKey, topic: str, entered: ExitStack) -> None:
        self._client, self._key, self._topic, self._entered, self._singly = client, key, topic, entered, False
        self.now: TransactionSession = entered.enter_context(marker_session(client, key, topic))

    def replace(self, *, singly: bool) -> None:
        """Go on with another producer. singly: it sends each record as a batch of its own."""
        self._singly = self._singly or singly
        self.now = self._entered.enter_context(
            marker_session(self._client, self._key, self._topic, singly=self._singly)
        )


class Publisher:
    """Publishes one shard. `report` is of what is committed, also where `run` raised."""

    def __init__(self, plan: PublishPlan, work: PublishWork, connection: SnowflakeConnection) -> None:
        self._plan, self._work, self._connection = plan, work, connection
        self._config = plan.context.config
        self._source: Source = plan.sources[work.source]
        self._key = MarkerKey(plan.claimed.id, work.source, work.shard)
        self._ledger = ExportLedger(plan.context.namespace, self._config.name)
        self._serializer: Serializer = serializer_for(plan.context, self._source, plan.versions[work.source])
        self._unsettled: list[PublishedBatch] = []
        self._done: list[PublishedBatch] = []
        self._reasons: Counter[str] = Counter()
        self._marker_offset = work.marker_offset
        self._settled_at = time.monotonic()
        self._seconds = {"publish": 0.0, "settle": 0.0}

    def run(self) -> None:
        """Publish all that waits, up to the last batch of the work. Raises as its parts do; transient: try again.

        A producer that a newer run's has replaced is no transient fault: trying again would take the export back.
        """
        try:
            self._publish_all()
        except TransientError:
            self._ledger.check_epoch(self._connection, self._plan.claimed.epoch)
            raise

    def _publish_all(self) -> None:
        with ExitStack() as sessions:
            kafka = _Sessions(self._plan.context.kafka, self._key, self._source.topic, sessions)
            self._ledger.check_epoch(self._connection, self._plan.claimed.epoch)
            marker = self._marker()
            self._unsettled = [each for each in marker.published if each.batch >= self._work.first]
            self._check_restored(marker)
            if marker.batch < self._work.last:
                self._publish_behind(kafka, marker.batch)
            self._settle()

    def report(self) -> ShardPublished:
        """What was published so far."""
        return ShardPublished(
            self._work.source,
            self._work.shard,
            tuple(self._done),
            self._marker_offset,
            dict(self._reasons),
            self._seconds["publish"],
            self._seconds["settle"],
        )

    def _publish_behind(self, kafka: _Sessions, batch: int) -> None:
        """Publish all batches above this one, with memory for one of them and what Snowflake sends at a time."""
        rows = read(self._connection, self._source, batch, self._work.last, self._work.shard)
        for number, changes in groupby(self._changes(rows), attrgetter("batch")):
            self._publish(kafka, number, list(changes))
            if self._is_due():
                self._settle()

    def _marker(self) -> Marker:
        topic, start = self._config.marker_topic, max(self._marker_offset, 0)
        found = read_markers(self._plan.context.kafka, topic, [self._key], start).get(self._key)
        if found is None:
            raise TerminalError(
                f"The marker of source {self._work.source} is gone: nobody knows which of its batches are published.",
                where=f"topic {topic}, key {self._key.record.decode()}",
                next_step="Was the topic deleted? Compare the newest firn.batch in the source's topic with the outbox "
                f"{self._source.outbox}, delete the published batches there, and set the export up again.",
            )
        self._marker_offset = found.offset
        return found

    def _check_restored(self, marker: Marker) -> None:
        """Raise TerminalError where the outbox holds a batch that was published and settled before."""
        known = {each.batch for each in self._unsettled}
        if self._work.first <= marker.batch and self._work.first not in known:
            raise TerminalError(
                f"Batch {self._work.first} of source {self._work.source} waits, and it was published and deleted "
                "before.",
                where=self._source.outbox,
                next_step=f"The table was restored. Delete its rows with BATCH <= {marker.batch} and SHARD = "
                f"{self._work.shard}.",
            )

    def _changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Change]:
        snapshot = self._work.shard > 0
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in _READ)
            for number, action, update, row_id, payload, before, version, failed, moved in zip(*columns, strict=True):
                yield Change(number, action, update, row_id, payload, before, version, failed, moved, snapshot)

    def _publish(self, kafka: _Sessions, number: int, changes: list[Change]) -> None:
        """One batch, again without each row that proves too large. Raises BadRecordError in front of a bad row's batch.

        Kafka tells of a large record only once it is there, which ends the transaction.
        """
        begun, too_large = time.monotonic(), dict[int, RowError]()
        while True:
            try:
                self._publish_once(kafka.now, number, changes, too_large)
                break
            except RecordTooLargeError as error:
                if not 0 <= error.number < len(changes):  # a marker, or a dead letter
                    raise
                if error.alone:
                    too_large[error.number] = RowError("too large", f"{error.what} {error.next_step}")
                kafka.replace(singly=not error.alone)
        self._seconds["publish"] += time.monotonic() - begun

    def _publish_once(
        self, kafka: TransactionSession, number: int, changes: list[Change], too_large: Mapping[int, RowError]
    ) -> None:
        """One batch in one transaction, with its marker."""
        reasons = Counter(self._reasons)
        with kafka.transaction() as delivered:
            counts = self._put(kafka, changes, too_large, reasons)
            kafka.flush()
            published = PublishedBatch(
                number,
                self._work.shard,
                len(changes),
                counts["letters"],
                counts["tombstones"],
                counts["bytes"],
                delivered.by_topic(),
                datetime.fromtimestamp(changes[0].moved_ms / 1000, UTC),
                datetime.now(UTC),
            )
            marker = Marker(number, self._plan.claimed.epoch, (*self._unsettled, published))
            kafka.put(self._config.marker_topic, self._key.record, marker.record(), [], PARTITION)
        spans = delivered.by_topic()
        self._marker_offset = spans[self._config.marker_topic][PARTITION][1]
        self._unsettled.append(published)
        self._done.append(published)
        self._reasons = reasons

    def _put(
        self,
        kafka: TransactionSession,
        changes: list[Change],
        too_large: Mapping[int, RowError],
        reasons: Counter[str],
    ) -> Counter[str]:
        counts: Counter[str] = Counter()
        topic, put, size, tombstones = self._source.topic, kafka.put, 0, 0
        for index, change in enumerate(changes):
            try:
                self._check_stopping(change)
                if index in too_large:
                    raise too_large[index]
                outputs = self._serializer.messages(change)
            except RowError as error:
                reasons[error.reason] += 1
                self._reject(kafka, change, error, counts)
                continue
            for key, value, headers in outputs:
                put(topic, key, value, headers, -1, index)
                size += len(key or b"") + len(value or b"")
                tombstones += value is None
            if (index + 1) % _SERVE_EVERY == 0:
                kafka.serve()
        counts.update(bytes=size, tombstones=tombstones)
        return counts

    def _reject(self, kafka: TransactionSession, change: Change, error: RowError, counts: Counter[str]) -> None:
        """Publish a dead letter in the open transaction, or leave the row out, or stop, as errors.tolerance says.

        A row that fails a check whose action is dead letter becomes one in any case.
        """
        if self._config.errors.tolerance == "none" and error.reason != "quality check":
            raise self._stopped(change, error)
        counts["letters"] += 1
        if self._config.errors.log_enable:
            why = f"{error.reason}: {error.detail}"
            log.warning("row %s of batch %d is left out: %s", change.row_id, change.batch, why)
        if topic := self._config.errors.dead_letter_topic:
            letter: Output = self._serializer.letter(change, error)
            kafka.put(topic, letter.key, letter.value, letter.headers)
            counts["bytes"] += len(letter.value or b"")

    def _stopped(self, change: Change, error: RowError) -> BadRecordError:
        return BadRecordError(
            f"A row of source {self._work.source} cannot be published ({error.reason}): {error.detail}",
            where=f"batch {change.batch}, row id {change.row_id}, table {self._source.outbox}",
            next_step="Correct the source, or its types in the configuration; or set errors.tolerance=all to publish "
            "such rows as dead letters. Nothing behind this batch is published until then.",
        )

    def _check_stopping(self, change: Change) -> None:
        stopping = self._source.stopping_checks
        if change.failed and stopping and (broken := stopping.intersection(orjson.loads(change.failed))):
            raise self._stopped(change, RowError("quality check", f"it does not meet {', '.join(sorted(broken))}"))

    def _is_due(self) -> bool:
        waited = time.monotonic() - self._settled_at
        return waited >= SETTLE_SECONDS or len(self._unsettled) >= SETTLE_BATCHES

    def _settle(self) -> None:
        """Take what is published out of the outbox, into the history."""
        begun = time.monotonic()
        settle(self._connection, self._ledger, self._plan.claimed, self._source, self._work.shard, self._unsettled)
        self._unsettled = []
        self._settled_at = time.monotonic()
        self._seconds["settle"] += self._settled_at - begun
