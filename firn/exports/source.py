"""A source as a move and a publisher need it: what is read, asked and written, with all names resolved. A plain value.

Not for finding sources (`firn.exports.sources`). It travels to Spark's tasks, so it holds nothing secret but masks'
salts, which stay masked.
"""

from __future__ import annotations

from dataclasses import dataclass

from firn.connector.export.config import SourceConfig, SourceKind
from firn.exports import names
from firn.exports.columns import SourceColumn, SourceColumns, stored_column
from firn.snowflake.identifiers import FullName


@dataclass(frozen=True)
class Source:
    """One stream, table or query whose changes are exported.

    name: unique in the export; of a table that a pattern found `<source>.<schema>.<table>`. export: its export.
    relation: what stands behind FROM. base: the table or view that its columns come from; None for the user's SQL.
    stream: the stream that a move consumes, as the export makes or finds it; None for the other kinds. asked: streams
    (`asks_streams`) or tables whose changes say that there may be data; empty: only a move can tell. columns: those
    that are exported, as they are now. all_columns: every column of the source. key_names: as Snowflake keeps them.
    outbox, state: full names, ready for a statement; state is empty where none is kept. topic: with all that the
    template names filled in. has_metadata: whether the rows say what happened to them, as a stream's do.
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
    key_names: tuple[str, ...]
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
    def streams(self) -> tuple[FullName, ...]:
        """The streams that a move consumes."""
        return self.asked if self.asks_streams else ()

    @property
    def makes_stream(self) -> bool:
        """Whether the export makes the stream, and may remove it; one that somebody made stays theirs."""
        return self.stream is not None and self.stream[2] == names.stream(self.export, self.name)

    @property
    def key(self) -> SourceColumns:
        """The key columns in the order of the configuration; none: messages have no key."""
        return self._named(self.key_names)

    @property
    def order(self) -> SourceColumns:
        """The columns by which the changes of one key are ordered."""
        return self._named(tuple(map(stored_column, self.config.order_columns)))

    @property
    def position(self) -> SourceColumns:
        """The cursor columns, the most significant one first."""
        return self._named(tuple(map(stored_column, self.config.cursor_columns)))

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
        return tuple(by_name[name] for name in names)
