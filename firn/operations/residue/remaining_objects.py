"""What a clean never touches, as findings with the statement or command that removes it by hand.

Tables with their rows, pipes, the history of schema changes, topics, logs. Statements: SHOW TABLES, SHOW PIPES
(https://docs.snowflake.com/en/sql-reference/sql/show-tables, .../show-pipes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.errors import ConfigError
from firn.ledger import schema_changes
from firn.ledger.table import TABLE
from firn.operations.residue.finding import Finding
from firn.snowflake.connection import query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import FullName, Namespace, written
from firn.snowflake.tables import like
from spark_jobs.sink.methods.snowpipe.stage import STAGE
from spark_jobs.sink.tables.pipes import user_pipe

_SHOW = "SHOW {kind} LIKE '{pattern}' IN SCHEMA {schema}"
_FORGET = "DELETE FROM {table} WHERE SINK = '{sink}';"
_SHARED = "shared by all sinks of the schema"


def find_objects(
    connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, tables: Mapping[str, str], log: Path
) -> list[Finding]:
    """Everything that stays. tables: topic -> table. log: the file that Spark writes for the sink on this machine."""
    return [
        *_tables(connection, namespace, config, tables),
        *_shared(connection, namespace, config.name),
        *_topics(config, tables),
        *([Finding("log", str(log), 1, log.stat().st_size, "of Spark", f"rm '{log}'")] if log.is_file() else []),
    ]


def _tables(
    connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, tables: Mapping[str, str]
) -> Iterator[Finding]:
    """The tables that rows went into, and the pipes that say so: a pipe's COPY may fill a table of another name."""
    topics: dict[FullName, list[str]] = {}
    pipes = []
    for table in dict.fromkeys(tables.values()):
        piped = _pipe(connection, namespace, config, table)
        pipes += [piped.finding] if piped else []
        into = topics.setdefault(piped.target if piped else namespace.full_name(table), [])
        into += [topic for topic, name in tables.items() if name == table]
    for name, of in topics.items():
        if (shown := _shown_at(connection, name, "TABLES")) is not None:
            drop = f"DROP TABLE {written(name)};"
            yield Finding("table", written(name), shown.get("rows"), shown.get("bytes"), f"of {', '.join(of)}", drop)
    yield from pipes


@dataclass(frozen=True)
class _Pipe:
    """A pipe that has a table's name, and the table that rows go into because of it."""

    finding: Finding
    target: FullName


def _pipe(connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, table: str) -> _Pipe | None:
    if _shown(connection, namespace, "PIPES", table) is None:
        return None
    name = namespace.qualified(table)
    try:
        load = user_pipe(connection, namespace, table, fields=config.schematization)
    except ConfigError:  # a pipe that no sink can use: no rows went anywhere because of it
        load = None
    target = load.table if load else namespace.full_name(table)
    return _Pipe(Finding("pipe", name, 1, None, "of a person", f"DROP PIPE {name};"), target)


def _shared(connection: SnowflakeConnection, namespace: Namespace, sink: str) -> Iterator[Finding]:
    if _shown(connection, namespace, "TABLES", schema_changes.TABLE) is not None:
        history = namespace.qualified(schema_changes.TABLE)
        forget = _FORGET.format(table=history, sink=sink)
        yield Finding("rows", history, None, None, "history of schema changes", forget)
    if _shown(connection, namespace, "TABLES", TABLE) is not None:
        drop = f"DROP TABLE {namespace.qualified(TABLE)}; -- with it the positions of all others"
        yield Finding("ledger", namespace.qualified(TABLE), None, None, _SHARED, drop)
    if _shown(connection, namespace, "STAGES", STAGE) is not None:
        drop = f"DROP STAGE {namespace.qualified(STAGE)}; -- with it the files of all others"
        yield Finding("stage", namespace.qualified(STAGE), None, None, _SHARED, drop)


def _topics(config: SinkConfig, topics: Iterable[str]) -> Iterator[Finding]:
    letters = config.errors.dead_letter_topic
    kinds = dict.fromkeys(topics, "records") | ({letters: "dead letters"} if letters else {})
    for name, detail in kinds.items():
        yield Finding("topic", name, None, None, detail, f"kafka-topics --delete --topic '{name}'")


def _shown(connection: SnowflakeConnection, namespace: Namespace, kind: str, name: str) -> dict[str, Any] | None:
    """What SHOW says of an object by its name as `quoted` writes it; None where the role may do nothing with it."""
    return _shown_at(connection, namespace.full_name(name), kind)


def _shown_at(connection: SnowflakeConnection, name: FullName, kind: str) -> dict[str, Any] | None:
    """The same, by the full name as Snowflake keeps it; None too where its schema is not to be seen."""
    statement = _SHOW.format(kind=kind, pattern=like(name[2]), schema=written(name[:2]))
    try:
        rows = query(connection, statement)
    except MissingObjectError:
        return None
    return next((row for row in rows if row["name"] == name[2]), None)
