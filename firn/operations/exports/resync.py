"""Re-sync on request: claims an export that nobody runs, and marks its sources so that the next run brings all rows.

What happens to each kind of source, and what is missed: `firn.exports.resync`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from firn.connector.export.config import SourceKind
from firn.errors import ConfigError, TerminalError
from firn.exports.context import ExportContext
from firn.exports.ledger import ExportLedger, ExportStanding
from firn.exports.preparation import prepare
from firn.exports.resync import is_stale, resync
from firn.exports.source import Source
from firn.exports.sources import discover
from firn.ledger.control import requester
from firn.operations.exports.liveness import check_over
from firn.snowflake.identifiers import written

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

COLUMNS = ("source", "kind", "topic", "how")
_ROWS = "all rows, taken with the changes; no delete is missed"
_HOW = {
    SourceKind.STREAM: _ROWS,
    SourceKind.TABLES: _ROWS,
    SourceKind.QUERY: "its streams are made again; a row deleted at that moment is not told of",
    SourceKind.CURSOR: "all rows; the cursor begins again",
    SourceKind.COMPARED: "all rows as updates; what is gone as deletes",
}
_STALE = "its stale stream is made again; what was deleted since then is not told of"


@dataclass(frozen=True)
class ResyncPlan:
    """What a re-sync does with one source."""

    source: str
    kind: str
    topic: str
    how: str

    def row(self) -> dict[str, Any]:
        """By the names of COLUMNS."""
        return asdict(self)


class Resync:
    """One re-sync, looked at and then done, in a session that nobody else uses. chosen: names; empty: all sources."""

    def __init__(self, connection: SnowflakeConnection, context: ExportContext, chosen: Collection[str] = ()) -> None:
        self._connection, self._context = connection, context
        self._ledger = ExportLedger(context.namespace, context.config.name)
        self._all = discover(connection, context.config, context.namespace)
        self._chosen = _chosen(self._all, chosen)

    def plan(self) -> list[ResyncPlan]:
        """What it would do. Changes nothing."""
        return [
            ResyncPlan(
                each.name, each.kind.value, each.topic, _STALE if is_stale(self._connection, each) else _HOW[each.kind]
            )
            for each in self._chosen
        ]

    def check(self) -> None:
        """Raise TerminalError for an export that never ran, ExportRunsError for one that runs."""
        check_over(self._context, self._standing())

    def run(self) -> None:
        """Claim the export and mark its sources. May be repeated. Raises as `check`, and as `resync`."""
        self.check()
        connection, config = self._connection, self._context.config
        prepare(connection, self._ledger, config, self._all)
        streams = [written(stream) for each in self._all for stream in each.streams]
        by = {"run_id": "", "resync": requester()}
        claimed = self._ledger.claim(connection, [each.name for each in self._all], by, streams)
        for source in self._chosen:
            resync(connection, self._ledger, claimed, source, config)

    def _standing(self) -> ExportStanding:
        found = self._ledger.standing(self._connection)
        if found is None:
            raise TerminalError(
                f"Export {self._context.config.name} never ran: there is nothing to publish again.",
                where=self._ledger.table,
                next_step="Run it. With snapshot.mode=initial it begins with the rows that are there.",
            )
        return found


def _chosen(sources: Collection[Source], names: Collection[str]) -> tuple[Source, ...]:
    known = [each.name for each in sources]
    if absent := sorted(set(names) - set(known)):
        raise ConfigError(
            f"The export has no source {', '.join(absent)}.", where="--source", next_step=f"It has {', '.join(known)}."
        )
    return tuple(each for each in sources if not names or each.name in names)
