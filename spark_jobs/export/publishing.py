"""Dispatches what waits in the outboxes to tasks: one Spark job after the other, until nothing waits.

At most `tasks.max` tasks at once; the shards of a snapshot run side by side, the changes behind them afterwards.
Not for what a task does (`task`), nor for what is moved into outboxes (`run`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from firn.errors import FirnError, TransientError
from firn.exports.columns import ColumnVersions
from firn.exports.context import ExportContext
from firn.exports.ledger import ClaimedExport
from firn.exports.outbox import WaitingBatches, waiting
from firn.exports.source import Source
from firn.logs import log_fields
from spark_jobs.export.reports import ShardPublished, errors_of, load
from spark_jobs.export.task import PublishPlan, PublishWork, run_task
from spark_jobs.spark.engine import Engine

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection


class Publishing:
    """Publishes the outboxes of one claim. published: told of each task's report, also of one that ended early."""

    def __init__(
        self,
        context: ExportContext,
        engine: Engine,
        claimed: ClaimedExport,
        stop: threading.Event,
        published: Callable[[Sequence[ShardPublished]], None],
    ) -> None:
        self._context, self._engine, self._claimed = context, engine, claimed
        self._stop, self._published = stop, published
        self._markers: dict[tuple[str, int], int] = {}

    def run(
        self,
        connection: SnowflakeConnection,
        sources: Mapping[str, Source],
        names: Iterable[str],
        versions: Mapping[str, ColumnVersions],
    ) -> None:
        """Publish all that waits of the sources with these names. Raises what ended a task, the gravest first."""
        plan = PublishPlan(self._context, self._claimed, sources, versions, log_fields())
        left = list(names)
        while left and not self._stop.is_set():
            waits = {name: waiting(connection, sources[name]) for name in left}
            works = [work for name, found in waits.items() for work in self._works(name, found)]
            left = [name for name, found in waits.items() if found.next != found.shards]
            if works:
                self._run_job(plan, works)

    def _works(self, source: str, waits: WaitingBatches) -> list[PublishWork]:
        return [
            PublishWork(source, each.shard, each.first, each.last, self._markers.get((source, each.shard), -1))
            for each in waits.next
        ]

    def _run_job(self, plan: PublishPlan, works: list[PublishWork]) -> None:
        most = min(self._engine.slots, self._context.config.tasks_max or len(works), len(works))
        groups = [tuple(works[number::most]) for number in range(most)]
        reports = [load(text) for text in self._engine.run(partial(run_task, plan), groups)]
        for report in reports:
            if report.marker_offset >= 0:
                self._markers[report.source, report.shard] = report.marker_offset
        self._published(reports)
        if errors := errors_of(reports):
            raise gravest(errors)


def gravest(errors: Sequence[FirnError]) -> FirnError:
    """The one that a run ends with: whatever a person must act on before what may pass."""
    return min(errors, key=lambda error: isinstance(error, TransientError))
