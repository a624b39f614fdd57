"""A source as a move and a publisher need it: what is read, asked and written, with all names resolved. A plain value.

Not for finding sources (`firn.exports.sources`). It travels to Spark's tasks, so it holds nothing secret but masks'
salts, which stay masked.
"""

from __future__ import annotations

from dataclasses import dataclass

from firn.connector.export.config import SourceConfig, SourceKind
from firn.exports.columns import SourceColumn, SourceColumns
from firn.snowflake.identifiers import FullName, stored


@dataclass(frozen=True)
class Source:
    """One stream, table or query whose changes are exported.

    name: unique in the export; of a table that a pattern found `<schema>.<table>`. export: its export. relation: what
    stands behind FROM. base: the table or view that its columns come from; None for the user's SQL. stream: the stream
    that a move consumes, as the export makes or finds it; None for CURSOR and COMPARED. asked: streams
    (`asks_streams`) or tables whose changes say that there may be data; empty: only a move can tell. columns: those
    that are exported, as they are now. position: cursor columns, which need not be exported. all_columns: every
    column of the source but METADATA's. outbox, state: full names, ready for a statement; state empty where none is
    kept. topic: with all that the template names filled in.
    """

    name: str
    export: str
    config: SourceConfig
    relation: str
    base: FullName | None
    stream: FullName | None
    asked: tuple[FullName, ...]
    columns: SourceColumns
    all_columns: SourceColumns
    outbox: str
    state: str
    topic: str
    has_metadata: bool = True

    @property
    def kind(self) -> SourceKind:
        """How its changes are found."""
        return self.config.kind

    @property
    def asks_streams(self) -> bool:
        """Whether what is asked are streams; else tables and views."""
        return self.kind in (SourceKind.STREAM, SourceKind.TABLES, SourceKind.QUERY)

    @property
    def key(self) -> SourceColumns:
        """The key columns in the order in which the configuration names them; none: messages have no key."""
        return self._named(self.config.key_columns)

    @property
    def order(self) -> SourceColumns:
        """The columns by which the changes of one key are ordered."""
        return self._named(self.config.order_columns)

    @property
    def position(self) -> SourceColumns:
        """The cursor columns, the most significant one first."""
        return self._named(self.config.cursor_columns)

    @property
    def where(self) -> str:
        """`<schema>.<table>` of its base, which expressions over names see; the source's name without one."""
        return ".".join(self.base[1:]) if self.base else self.name

    @property
    def stopping_checks(self) -> frozenset[str]:
        """The names of the quality checks that stop the export."""
        return frozenset(check.name for check in self.config.checks if check.action == "stop")

    def _named(self, names: tuple[str, ...]) -> tuple[SourceColumn, ...]:
        by_name = {column.name: column for column in self.all_columns}
        return tuple(by_name[stored(name)] for name in names)
