"""One epoch of an export: claim it, then pass after pass: ask for data, move it into the outbox, publish, settle.

It begins with what waits in the outboxes, so restart and first start are one path. Asking wakes no warehouse; only a
source that may have data is moved. Not for what follows an epoch's end (`run`), nor for a task's part (`task`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from firn.errors import ClaimAgainError, TerminalError
from firn.exports import names
from firn.exports.asking import has_data, outbox_has_data
from firn.exports.checks import CheckResult, QualityError
from firn.exports.context import ExportContext
from firn.exports.ledger import ClaimedExport, ExportLedger, SourceState
from firn.exports.moves.move import move
from firn.exports.preparation import prepare
from firn.exports.source import Source
from firn.exports.sources import discover
from firn.exports.streams import StreamInfo, find_stream
from firn.exports.tasks import ensure_task
from firn.kafka import cluster
from firn.logs import add_to_log_context
from firn.operations.exports.loops import find_loops, refuse_loops
from firn.operations.exports.run_report import ExportReport
from firn.plural import counted
from firn.retry import Deadline
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import written
from spark_jobs.export.events import emit
from spark_jobs.export.polling import Poll
from spark_jobs.export.publishing import Publishing
from spark_jobs.export.reports import ShardPublished
from spark_jobs.export.signs import ExportSigns
from spark_jobs.export.topics import ensure_topics, first_markers
from spark_jobs.spark.engine import Engine

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

STALE_SECONDS, STALE_WARNING = 3600.0, timedelta(days=3)
"""How often a run looks when its streams become stale, and how long before that it warns."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunParts:
    """What the epochs of one run share. by: about the run, for its claims."""

    engine: Engine
    once: bool
    stop: threading.Event
    deadline: Deadline
    ledger: ExportLedger
    signs: ExportSigns
    report: ExportReport
    by: Mapping[str, object]


class Epoch:
    """From one claim to what ends it: passes in one Snowflake session."""

    def __init__(self, context: ExportContext, parts: RunParts) -> None:
        self._context, self._parts, self._config = context, parts, context.config
        self._prepared: set[str] = set()

    def run(self) -> None:
        """Claim, and pass until there is nothing more (`once`) or the run stops. Raises why it ended otherwise."""
        with connect(self._context.login, query_tag=names.query_tag(self._config.name)) as connection:
            sources = self._found(connection)
            if not self._config.allow_loop:
                refuse_loops(find_loops(connection, self._parts.ledger.namespace, sources.values()))
            ensure_topics(cluster.admin_client(self._context.kafka), self._config, sources.values())
            claimed = self._claim(connection, sources)
            _Passes(self._context, self._parts, connection, claimed, sources, self._found).run()

    def _found(self, connection: SnowflakeConnection) -> dict[str, Source]:
        """The sources as they are now, each with what it needs in Snowflake."""
        ledger = self._parts.ledger
        found = {each.name: each for each in discover(connection, self._config, ledger.namespace)}
        if new := [each for each in found.values() if each.name not in self._prepared]:
            prepare(connection, ledger, self._config, new)
        self._prepared |= found.keys()
        return found

    def _claim(self, connection: SnowflakeConnection, sources: Mapping[str, Source]) -> ClaimedExport:
        streams = [written(each) for source in sources.values() for each in source.streams]
        claimed = self._parts.ledger.claim(connection, list(sources), self._parts.by, streams)
        self._parts.report.epoch = claimed.epoch
        add_to_log_context(epoch=claimed.epoch)
        self._parts.signs.begin(claimed.id, claimed.epoch)
        first_markers(self._context, claimed)
        emit(
            "started",
            f"claimed export {self._config.name}, epoch {claimed.epoch}: {counted(len(sources), 'source')}",
            export=self._config.name,
            epoch=claimed.epoch,
            sources=len(sources),
        )
        return claimed


class _Passes:
    """The passes of one claim. find: looks for the sources again."""

    def __init__(
        self,
        context: ExportContext,
        parts: RunParts,
        connection: SnowflakeConnection,
        claimed: ClaimedExport,
        sources: dict[str, Source],
        find: Callable[[SnowflakeConnection], dict[str, Source]],
    ) -> None:
        self._parts, self._config = parts, context.config
        self._connection, self._claimed, self._sources, self._find = connection, claimed, sources, find
        self._states: dict[str, SourceState] = dict(claimed.sources)
        self._outboxes: dict[str, str | None] = {}
        self._publishing = Publishing(context, parts.engine, claimed, parts.stop, self._published)
        self._looked, self._moved_seconds = float("-inf"), 0.0

    def run(self) -> None:
        """Passes until there is nothing more (`once`), or until the run stops. Raises why it ended otherwise."""
        stop, poll = self._parts.stop, Poll(self._config.poll)
        self._publish(list(self._sources))  # what an earlier run left in the outboxes
        while not stop.is_set():
            self._check_staleness()
            before = self._to_come
            found = self._pass()
            self._parts.deadline.succeeded()
            # A stream's first rows come alone; what has changed since they were there comes with the next move.
            if self._parts.once and before == self._to_come:
                return
            if not self._parts.once:
                self._parts.signs.idle(idle=True)
                stop.wait(poll.next(found=found))
                self._parts.signs.idle(idle=False)
            self._look_again()

    @property
    def _to_come(self) -> set[str]:
        """The sources of which all rows are still to come."""
        return {name for name, state in self._states.items() if state.brings_all_rows}

    def _pass(self) -> bool:
        """Ask all sources, move and publish those with data; whether there were rows."""
        found = []
        for name, source in self._sources.items():
            if self._parts.stop.is_set():
                break
            state = self._states[name]
            standing = has_data(self._connection, source, state.seen)
            due = standing.has_data or state.resync
            if (due and self._move(source, standing.seen)) or self._filled_by_task(source):
                found.append(name)
        if found:
            self._publish(found)
        return bool(found)

    def _filled_by_task(self, source: Source) -> bool:
        """Whether a task of Snowflake may have moved rows since the last look."""
        if self._config.task is None or not source.asks_streams:
            return False
        standing = outbox_has_data(self._connection, source, self._outboxes.get(source.name))
        self._outboxes[source.name] = standing.seen
        return standing.has_data

    def _move(self, source: Source, seen: str | None) -> bool:
        begun, parts = time.monotonic(), self._parts
        try:
            moved = move(self._connection, parts.ledger, self._claimed, source, self._config, seen=seen)
        except QualityError as error:
            self._tell_checks(source, error.results)
            raise
        self._tell_checks(source, moved.checks)
        before, self._states[source.name] = self._states[source.name], moved.state
        ensure_task(self._connection, parts.ledger, self._config, source, moved.state)
        self._moved_seconds += time.monotonic() - begun
        parts.report.moves += 1
        parts.signs.moved()
        if moved.new_columns and before.columns_version:
            columns = [column.name for column in source.columns]
            emit(
                "schema_changed",
                f"source {source.name} has other columns: {', '.join(columns)}",
                export=self._config.name,
                source=source.name,
                columns=columns,
            )
        return moved.rows > 0

    def _tell_checks(self, source: Source, results: Sequence[CheckResult]) -> None:
        for each in results:
            if each.failed:
                emit(
                    "check_failed",
                    f"{counted(each.failed, 'row')} of source {source.name} did not meet check {each.check.name} "
                    f"({each.check.action})",
                    export=self._config.name,
                    level=logging.WARNING,
                    source=source.name,
                    check=each.check.name,
                    action=each.check.action,
                    rows=each.failed,
                )

    def _publish(self, names_: Sequence[str]) -> None:
        versions = {name: state.columns for name, state in self._states.items()}
        self._publishing.run(self._connection, self._sources, names_, versions)

    def _published(self, reports: Sequence[ShardPublished]) -> None:
        """Count what tasks published, and tell of it."""
        parts, batches = self._parts, [batch for report in reports for batch in report.batches]
        for report in reports:
            for batch in report.batches:
                parts.report.add(report.source, self._sources[report.source].topic, batch)
        if not batches:
            return
        parts.deadline.succeeded()
        parts.signs.moved()
        rows, size = sum(batch.rows for batch in batches), sum(batch.bytes for batch in batches)
        oldest = min((batch.moved_at for batch in batches if batch.moved_at), default=None)
        emit(
            "committed",
            f"published {counted(rows, 'row')} in {counted(len(batches), 'batch', 'batches')}",
            export=self._config.name,
            rows=rows,
            bytes=size,
            batches=len(batches),
            ship_seconds=round(sum(report.publish_seconds for report in reports), 3),
            commit_seconds=round(self._moved_seconds + sum(report.settle_seconds for report in reports), 3),
            lag=round((datetime.now(UTC) - oldest).total_seconds(), 3) if oldest else 0.0,
        )
        self._moved_seconds = 0.0
        self._tell_letters(reports, sum(batch.letters for batch in batches))

    def _tell_letters(self, reports: Sequence[ShardPublished], records: int) -> None:
        if not records:
            return
        reasons: Counter[str] = Counter()
        for report in reports:
            reasons.update(report.reasons)
        topic = self._config.errors.dead_letter_topic
        emit(
            "dead_letters",
            f"{counted(records, 'row')} could not become messages" + (f"; published to {topic}" if topic else ""),
            export=self._parts.report.export,
            level=logging.WARNING,
            records=records,
            letters=records if topic else 0,
            reasons=dict(reasons),
        )

    def _look_again(self) -> None:
        """The sources as they are now. Raises ClaimAgainError where there are others: the export claims them."""
        found = self._find(self._connection)
        if found.keys() != self._sources.keys():
            raise ClaimAgainError("There are other sources than those that were claimed.")
        self._sources = found

    def _check_staleness(self) -> None:
        """Warn of each stream that becomes stale soon. Raises TerminalError for one that is: its changes are lost."""
        if time.monotonic() - self._looked < STALE_SECONDS:
            return
        self._looked = time.monotonic()
        for source in self._sources.values():
            for name in source.streams:
                if (found := find_stream(self._connection, name)) is not None:
                    self._check_stream(source, found)

    def _check_stream(self, source: Source, stream: StreamInfo) -> None:
        name, after = written(stream.name), stream.stale_after
        if stream.stale:
            raise TerminalError(
                f"Stream {name} is stale: the changes since it was consumed last are lost.",
                where=f"source {source.name}",
                next_step="Publish all rows of its table again with `firn export resync`. A longer "
                "MAX_DATA_EXTENSION_TIME_IN_DAYS of the table, or firn.export.task.schedule, keeps it from happening.",
            )
        if after is not None and after - datetime.now(UTC) < STALE_WARNING:
            emit(
                "stale_soon",
                f"stream {name} becomes stale at {after:%Y-%m-%d %H:%M} UTC",
                export=self._parts.report.export,
                level=logging.WARNING,
                source=source.name,
                stale_after=after.isoformat(),
            )
