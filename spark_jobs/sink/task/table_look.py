"""Whether a table has changed since its loader was made, asked by a task that lives long.

Statements that describe a table, which change nothing. Not for changing one: that is the driver's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from firn.sinks.context import SinkContext
from firn.snowflake.identifiers import table_for
from spark_jobs.sink.tables.loaders import loader_of
from spark_jobs.sink.task.worker import session_of
from spark_jobs.sink.values.table_loaders import TableLoader

LOOK_SECONDS = 30.0
"""What was looked at within this time counts as looked at: a topic of bad records asks for it with each of them."""


class TableLook:
    """The table of one topic, as it was when `loader` was made."""

    def __init__(
        self, context: SinkContext, topic: str, loader: TableLoader, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context, self._table = context, table_for(topic, context.config.table_map)
        self._loader, self._clock = loader, clock
        self._looked = float("-inf")

    def changed(self) -> bool:
        """Whether the table is another one by now, so that its loader must be made again. Raises as statements do."""
        if self._clock() - self._looked < LOOK_SECONDS:
            return False
        found: list[TableLoader] = []
        context = self._context
        session_of(context)(
            lambda connection: found.append(loader_of(connection, context.namespace, context.config, self._table))
        )
        self._looked = self._clock()
        return found[-1] != self._loader
