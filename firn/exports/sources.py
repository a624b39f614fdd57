"""What the sources of a configuration are in Snowflake: streams and tables found, columns described, names resolved.

Only metadata is asked (SHOW, DESCRIBE, the description of a query), so none of it needs a warehouse. Making and
removing what a source needs is here too, because a pattern is only known with the tables that it finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig, SourceConfig, SourceKind
from firn.errors import ConfigError
from firn.exports import names
from firn.exports.columns import describe_table, selected
from firn.exports.source import Source
from firn.exports.streams import require_stream
from firn.snowflake.grants import name_parts
from firn.snowflake.identifiers import FullName, Namespace, stored, written

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection


def discover(connection: SnowflakeConnection, config: ExportConfig, namespace: Namespace) -> tuple[Source, ...]:
    """All sources of an export as they are now, in the order of the file; of a pattern one for each table.

    Raises ConfigError for what does not exist or cannot be exported.
    """
    return tuple(source for each in config.sources for source in _sources(connection, config, each, namespace))


def _sources(
    connection: SnowflakeConnection, config: ExportConfig, source: SourceConfig, namespace: Namespace
) -> list[Source]:
    match source.kind:
        case SourceKind.STREAM:
            return [_of_stream(connection, config, source, namespace)]
        case _:
            raise ConfigError(f"Source {source.name} is of kind {source.kind}.", where=f"export {config.name}")


def _of_stream(
    connection: SnowflakeConnection, config: ExportConfig, source: SourceConfig, namespace: Namespace
) -> Source:
    name = full_name(source.names[0], namespace)
    base = require_stream(connection, name, source.name).base
    columns = describe_table(connection, base)
    return Source(
        name=source.name,
        export=config.name,
        config=source,
        relation=written(name),
        base=base,
        stream=name,
        asked=(name,),
        columns=selected(source, ".".join(base[1:]), columns),
        all_columns=columns,
        outbox=namespace.qualified(names.outbox(config.name, source.name)),
        state="",
        topic=topic_of(source.topic, source.name, base, name),
    )


def full_name(name: str, namespace: Namespace) -> FullName:
    """A name as a person writes it (`t`, `schema.t`, `db."Mixed".t`), with what is left out taken from the export."""
    parts = tuple(part if f'"{part}"' in name else stored(part) for part in name_parts(name))
    if len(parts) > 3 or not all(parts):
        raise ConfigError(f"{name!r} is not the name of a table or stream.", next_step="Write database.schema.name.")
    filled = (stored(namespace.database), stored(namespace.schema))[: 3 - len(parts)] + parts
    return filled[0], filled[1], filled[2]


def topic_of(template: str, source: str, base: FullName | None, stream: FullName | None) -> str:
    """The topic of a source: the template with {database}, {schema}, {table}, {stream} and {source} filled in."""
    database, schema, table = base or ("", "", "")
    values = {"database": database, "schema": schema, "table": table, "source": source}
    values["stream"] = stream[2] if stream else ""
    topic = template
    for name, value in values.items():
        topic = topic.replace(f"{{{name}}}", value)
    return topic
