"""Changes of tables that the records of a continuous run need, made on the driver while the group that asked rests.

Several groups may ask for the same change, each with the table as its task saw it: only the first one makes it. Not for
how a change becomes a statement (`tables.evolution`), nor for batches (`dispatch`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from firn.snowflake.faults import MissingObjectError
from spark_jobs.sink.dispatch import claim_again
from spark_jobs.sink.methods.base import EpochSession
from spark_jobs.sink.tables.evolution import SchemaChange
from spark_jobs.sink.tables.loaders import TableLoaders
from spark_jobs.sink.values.reports import Reports, SchemaChangeRequest, SuspectedStaleSchema
from spark_jobs.sink.values.table_loaders import ColumnsLoader, TableLoader


class TableChanges:
    """Changes tables in the session of one epoch. on_change: gets what was done."""

    def __init__(
        self, session: EpochSession, loaders: TableLoaders, on_change: Callable[[Sequence[SchemaChange]], None]
    ) -> None:
        self._session, self._loaders, self._on_change = session, loaders, on_change

    def apply(self, before: Mapping[str, TableLoader], reports: Reports) -> list[str]:
        """Do what the reports of one task ask for; gives the tables that it made, which no channel leads to yet.

        before: how the task loaded its tables, by topic. Tables that are only suspected to have changed are described
        again. Raises FencedError where another run owns the sink, ClaimAgainError for an object that is gone.
        """
        requests = reports.of(SchemaChangeRequest)
        stale = {each.table for each in reports.of(SuspectedStaleSchema)}
        if not requests and not stale:
            return []
        # A run that lost the sink must change no table: perhaps it was dropped when the sink was cleaned away.
        self._session.ledger.check_epoch(self._session.connection, self._session.epoch)
        try:
            now = self._loaders.of_topics({each.topic for each in requests})
            # Another group's records may have had it changed meanwhile.
            current = [each for each in requests if now[each.topic] == before[each.topic]]
            self._loaders.refresh(stale)
            if current:
                self._on_change(self._loaders.evolve(current))
        except MissingObjectError as error:
            raise claim_again(error) from error
        return sorted({each.table for each in current if _is_unmade(now[each.topic])})


def _is_unmade(loader: TableLoader) -> bool:
    return isinstance(loader, ColumnsLoader) and not loader.exists
