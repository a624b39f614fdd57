"""What the sources of a configuration are in Snowflake: streams and tables found, columns described, names resolved.

Only metadata is asked (SHOW, DESCRIBE, the description of a query), so none of it needs a warehouse. Not for
making what a source needs (`firn.exports.preparation`). Source:
https://docs.snowflake.com/en/sql-reference/sql/show-tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig, SourceConfig, SourceKind
from firn.errors import ConfigError
from firn.exports import names
from firn.exports.columns import METADATA, SourceColumns, describe_query, describe_table, key_of, selected
from firn.exports.source import Source
from firn.exports.streams import find_stream, require_stream
from firn.snowflake.connection import query
from firn.snowflake.grants import name_parts
from firn.snowflake.identifiers import FullName, Namespace, stored, written

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_SHOW_TABLES = "SHOW TABLES IN DATABASE {database}"


def discover(connection: SnowflakeConnection, config: ExportConfig, namespace: Namespace) -> tuple[Source, ...]:
    """All sources of an export as they are now, in the order of the file; of a pattern one for each table.

    Raises ConfigError for what does not exist or cannot be exported.
    """
    finder = _Finder(connection, config, namespace)
    return tuple(source for each in config.sources for source in finder.sources(each))


@dataclass(frozen=True)
class _Finder:
    """Finds the sources of one export through one session."""

    connection: SnowflakeConnection
    config: ExportConfig
    namespace: Namespace

    def sources(self, source: SourceConfig) -> list[Source]:
        match source.kind:
            case SourceKind.STREAM:
                return [self._of_stream(source, source.name, full_name(source.names[0], self.namespace))]
            case SourceKind.TABLES:
                return self._of_tables(source)
            case SourceKind.QUERY:
                streams = tuple(full_name(name, self.namespace) for name in source.names)
                return [self._of_sql(source, streams)]
            case SourceKind.CURSOR:
                table = full_name(source.names[0], self.namespace)
                return [self._of_table(source, source.name, table, asked=(table,))]
            case SourceKind.COMPARED:
                tables = tuple(full_name(name, self.namespace) for name in source.names)
                return [self._of_sql(source, tables) if source.sql else self._compared(source, tables[0])]

    def _of_stream(self, source: SourceConfig, name: str, stream: FullName) -> Source:
        base = require_stream(self.connection, stream, source.name).base
        return self._of_table(source, name, base, asked=(stream,), stream=stream)

    def _of_tables(self, source: SourceConfig) -> list[Source]:
        """Each table with the stream that the export makes; a name that is a stream's is that stream."""
        alone = len(source.names) == 1 and not source.patterns
        found: dict[FullName, Source] = {}
        for table in (full_name(name, self.namespace) for name in source.names):
            name = source.name if alone else f"{source.name}.{'.'.join(table[1:])}"
            if find_stream(self.connection, table) is not None:
                found[table] = self._of_stream(source, name, table)
            else:
                found[table] = self._with_stream(source, name, table)
        for table in self._matching(source):
            if table not in found:
                found[table] = self._with_stream(source, f"{source.name}.{'.'.join(table[1:])}", table)
        if not found:
            raise ConfigError(
                f"No table matches {', '.join(source.patterns)}.",
                where=f"source {source.name}, database {self.namespace.database}",
                next_step="Correct table.include.list: its expressions match <schema>.<table> as a whole.",
            )
        return list(found.values())

    def _with_stream(self, source: SourceConfig, name: str, table: FullName) -> Source:
        stream = self._own(names.stream(self.config.name, name))
        return self._of_table(source, name, table, asked=(stream,), stream=stream)

    def _matching(self, source: SourceConfig) -> list[FullName]:
        """The tables that the patterns match, in the export's database, without Firn's own."""
        if not source.patterns:
            return []
        database = stored(self.namespace.database)
        rows = query(self.connection, _SHOW_TABLES.format(database=written((database,))))
        tables = [(database, str(row["schema_name"]), str(row["name"])) for row in rows]
        return sorted(table for table in tables if not _is_own(table) and _is_wanted(source, ".".join(table[1:])))

    def _compared(self, source: SourceConfig, table: FullName) -> Source:
        found = self._of_table(source, source.name, table, asked=(table,))
        if not found.key_names:
            raise ConfigError(
                f"Table {written(table)} declares no primary key, and its rows are compared by their key.",
                where=f"source {source.name}",
                next_step="Give message.key.columns.",
            )
        return found

    def _of_table(
        self,
        source: SourceConfig,
        name: str,
        table: FullName,
        *,
        asked: tuple[FullName, ...],
        stream: FullName | None = None,
    ) -> Source:
        return self._made(
            source,
            name,
            describe_table(self.connection, table),
            relation=written(stream or table),
            base=table,
            stream=stream,
            asked=asked,
        )

    def _of_sql(self, source: SourceConfig, asked: tuple[FullName, ...]) -> Source:
        """The user's SQL, described without running."""
        sql = str(source.sql)
        columns = describe_query(self.connection, sql)
        metadata = {column.name for column in columns} & set(METADATA)
        if metadata and metadata != set(METADATA):
            raise ConfigError(
                f"The query of source {source.name} returns {', '.join(sorted(metadata))} without the other columns of "
                "METADATA.",
                where="query",
                next_step=f"Select {', '.join(METADATA)}, or none of them: then every row is an INSERT.",
            )
        if source.kind is SourceKind.QUERY:
            for stream in asked:
                require_stream(self.connection, stream, source.name)
        return self._made(
            source,
            source.name,
            columns,
            relation=f"({sql})",
            base=None,
            stream=None,
            asked=asked,
            has_metadata=bool(metadata),
        )

    def _made(
        self,
        source: SourceConfig,
        name: str,
        columns: SourceColumns,
        *,
        relation: str,
        base: FullName | None,
        stream: FullName | None,
        asked: tuple[FullName, ...],
        has_metadata: bool = True,
    ) -> Source:
        where = ".".join(base[1:]) if base else name
        key = key_of(source, where, columns)
        has_state = source.kind in (SourceKind.CURSOR, SourceKind.COMPARED)
        return Source(
            name=name,
            export=self.config.name,
            config=source,
            relation=relation,
            base=base,
            stream=stream,
            asked=asked,
            columns=selected(source, where, columns, key),
            all_columns=columns,
            key_names=key,
            outbox=self.namespace.qualified(names.outbox(self.config.name, name)),
            state=self.namespace.qualified(names.state(self.config.name, name)) if has_state else "",
            topic=topic_of(source.topic, name, base, stream),
            has_metadata=has_metadata,
        )

    def _own(self, name: str) -> FullName:
        return stored(self.namespace.database), stored(self.namespace.schema), name


def _is_own(table: FullName) -> bool:
    """Whether it is a table of Firn's, which no pattern means."""
    return table[1] == "INFORMATION_SCHEMA" or table[2].startswith("FIRN_")


def _is_wanted(source: SourceConfig, name: str) -> bool:
    if any(re.fullmatch(each, name, re.IGNORECASE) for each in source.excluded):
        return False
    return any(re.fullmatch(each, name, re.IGNORECASE) for each in source.patterns)


def full_name(name: str, namespace: Namespace) -> FullName:
    """A name as a person writes it (`t`, `schema.t`, `db."Mixed".t`), with what is left out taken from the export."""
    parts = tuple(part if f'"{part}"' in name else stored(part) for part in name_parts(name))
    if len(parts) > 3 or not all(parts):
        raise ConfigError(f"{name!r} is not the name of a table or stream.", next_step="Write database.schema.name.")
    filled = (stored(namespace.database), stored(namespace.schema))[: 3 - len(parts)] + parts
    return filled[0], filled[1], filled[2]


def topic_of(template: str, source: str, base: FullName | None, stream: FullName | None) -> str:
    """The topic of a source: the template with {database}, {schema}, {table}, {stream} and {source} filled in."""
    database, schema, table = base or ("", "", source)
    values = {"database": database, "schema": schema, "table": table, "source": source}
    values["stream"] = stream[2] if stream else ""
    topic = template
    for name, value in values.items():
        topic = topic.replace(f"{{{name}}}", value)
    return topic
