"""The loop guard: a table that a sink of the same schema fills is not exported into that sink's topic.

Such a pair would send each record round for ever. A sink's ledger (FIRN_OFFSETS) knows which topics go into which
tables; it is in the schema of the tables. A sink of another schema, or one that reads the topic into another table
from which a view or a model leads back, is not seen: headers `firn.source` and `firn.batch` tell a consumer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from firn.errors import ConfigError
from firn.exports.source import Source
from firn.ledger.retirement import LedgerRetirement
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace, stored

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection


_NO_SINK = "export:"
"""No sink has this name, so all of them are others."""


class Loop(NamedTuple):
    """A source whose table a sink fills from the topic that the source publishes to."""

    source: str
    sink: str
    topic: str
    table: str

    def __str__(self) -> str:
        return f"source {self.source} publishes {self.table} to {self.topic}, which sink {self.sink} loads into it"


def find_loops(connection: SnowflakeConnection, namespace: Namespace, sources: Iterable[Source]) -> list[Loop]:
    """The loops of one schema, by the targets of each sink's last claim; none without a ledger of sinks."""
    try:
        sinks = LedgerRetirement(namespace, _NO_SINK).look(connection).others
    except MissingObjectError:
        return []
    targets = [(sink, topic, stored(table)) for sink, owner in sinks.items() for topic, table in owner.targets.items()]
    schema = (stored(namespace.database), stored(namespace.schema))
    return [
        Loop(source.name, sink, topic, table)
        for source in sources
        for sink, topic, table in targets
        if source.base == (*schema, table) and source.topic == topic
    ]


def refuse_loops(loops: Iterable[Loop]) -> None:
    """Raise ConfigError where there is one."""
    found = [str(each) for each in loops]
    if found:
        raise ConfigError(
            "Records would go round for ever: " + "; ".join(found) + ".",
            where="firn.export.allow.loop",
            next_step="Publish to another topic. If something else ends the loop, set firn.export.allow.loop=true.",
        )
