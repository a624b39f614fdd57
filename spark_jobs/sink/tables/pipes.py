"""A user's own pipe of a table: found by its name, and read for its SELECT.

As the official connector 4 does it ("user-defined pipe mode"), a pipe with the table's own name replaces the default
mapping; the table that it fills may have another name. Statement: SHOW PIPES
(https://docs.snowflake.com/en/sql-reference/sql/show-pipes), which lists the pipes that the role may do something with.
Not for reading its text (`pipe_definition`), nor for loading through it (`methods`).
"""

from __future__ import annotations

import logging

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.errors import ConfigError
from firn.snowflake.connection import query
from firn.snowflake.identifiers import FullName, Namespace, quoted, stored, written
from firn.snowflake.tables import like
from spark_jobs.sink.tables.pipe_definition import UnreadableError, read_definition
from spark_jobs.sink.values.table_loaders import PipeLoader

_SHOW = "SHOW PIPES LIKE '{pattern}' IN SCHEMA {schema}"
_EXAMPLE = "COPY INTO {table} FROM (SELECT ... FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))"
log = logging.getLogger(__name__)


def user_pipe(connection: SnowflakeConnection, namespace: Namespace, table: str, *, fields: bool) -> PipeLoader | None:
    """The load of the pipe that has the table's own name; None where the default mapping counts.

    That is: where the role sees no such pipe, where it does not read streamed rows, and where it matches columns by
    name as the default mapping does. fields: see `PipeLoader`. Raises ConfigError for a pipe that cannot be run.
    """
    text = _definition(connection, namespace, table)
    if text is None:
        return None
    pipe = namespace.qualified(table)
    try:
        definition = read_definition(text)
    except UnreadableError as error:
        raise ConfigError(
            f"The table's pipe cannot be used: {error}.",
            where=f"pipe {pipe}",
            next_step=f"Make it again as CREATE OR REPLACE PIPE {pipe} AS {_EXAMPLE.format(table=pipe)}, or rename it: "
            "a pipe with a table's own name replaces the default mapping.",
        ) from error
    if definition is None:
        log.info("pipe %s does not read DATA_SOURCE(TYPE => 'STREAMING'): it is left alone", pipe)
        return None
    own = namespace.full_name(table)
    target = _full_name(definition.table, own)
    if definition.select is not None:
        return PipeLoader(fields, target, definition.targets, definition.select)
    if target != own:
        raise _elsewhere(pipe, target)
    log.info("pipe %s has no SELECT: columns are found as without it", pipe)
    return None


def streams_by_its_name(connection: SnowflakeConnection, namespace: Namespace, table: str) -> bool:
    """Whether the role sees a pipe with the table's own name that takes streamed rows, with a SELECT or without."""
    text = _definition(connection, namespace, table)
    try:
        return text is not None and read_definition(text) is not None
    except UnreadableError:
        return True


def target_of_pipe(
    connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, table: str
) -> FullName | None:
    """The table that the pipe with the table's own name fills; None where no sink can load through the pipe."""
    try:
        load = user_pipe(connection, namespace, table, fields=config.schematization)
    except ConfigError:
        return None
    return load.table if load else None


def _definition(connection: SnowflakeConnection, namespace: Namespace, table: str) -> str | None:
    name, schema = stored(table), f"{quoted(namespace.database)}.{quoted(namespace.schema)}"
    rows = query(connection, _SHOW.format(pattern=like(name), schema=schema))
    return next((str(row["definition"]) for row in rows if row["name"] == name), None)


def _full_name(parts: tuple[str, ...], pipe: FullName) -> FullName:
    """The full name that its last 1 to 3 parts mean in a pipe: what is left out is the pipe's own."""
    database, schema, name = (*pipe[: 3 - len(parts)], *parts)
    return database, schema, name


def _elsewhere(pipe: str, target: FullName) -> ConfigError:
    """Without a SELECT a pipe only says which table it is, and that is the configuration's to say."""
    return ConfigError(
        f"The table's pipe cannot be used: its COPY goes into {written(target)}, and it has no SELECT.",
        where=f"pipe {pipe}",
        next_step=f"Let snowflake.topic2table.map name table {written(target)}, or rename the pipe: a pipe with a "
        "table's own name replaces the default mapping.",
    )
