"""What a clean never touches, as findings with the statement or command that removes it by hand.

Tables with their rows, pipes, the history of schema changes, topics, logs. Statements: SHOW TABLES, SHOW PIPES
(https://docs.snowflake.com/en/sql-reference/sql/show-tables, .../show-pipes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.snowflake import query
from spark_jobs.sink import schema_changes
from spark_jobs.sink.identifiers import Namespace, quoted, stored
from spark_jobs.sink.ledger_table import TABLE
from spark_jobs.sink.leftovers.finding import Finding
from spark_jobs.sink.stage import STAGE
from spark_jobs.sink.tables import like

_SHOW = "SHOW {kind} LIKE '{pattern}' IN SCHEMA {schema}"
_FORGET = "DELETE FROM {table} WHERE SINK = '{sink}';"
# What a sink's supervisor keeps, by name: it is a level above.
_OF_A_SINK = {schema_changes.TABLE: "history of schema changes", "FIRN_SINKS": "what its supervisor keeps"}
_SHARED = "shared by all sinks of the schema"


def find_objects(
    connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, tables: Mapping[str, str], log: Path
) -> list[Finding]:
    """Everything that stays. tables: topic -> table. log: the file that Spark writes for the sink on this machine."""
    return [
        *_tables(connection, namespace, tables),
        *_pipes(connection, namespace, tables.values()),
        *_shared(connection, namespace, config.name),
        *_topics(config, tables),
        *([Finding("log", str(log), 1, log.stat().st_size, "of Spark", f"rm '{log}'")] if log.is_file() else []),
    ]


def _tables(connection: SnowflakeConnection, namespace: Namespace, tables: Mapping[str, str]) -> Iterator[Finding]:
    for table in dict.fromkeys(tables.values()):
        if (shown := _shown(connection, namespace, "TABLES", table)) is not None:
            of = ", ".join(topic for topic, name in tables.items() if name == table)
            drop = f"DROP TABLE {namespace.qualified(table)};"
            yield Finding("table", namespace.qualified(table), shown.get("rows"), shown.get("bytes"), f"of {of}", drop)


def _pipes(connection: SnowflakeConnection, namespace: Namespace, tables: Iterable[str]) -> Iterator[Finding]:
    for table in dict.fromkeys(tables):
        if _shown(connection, namespace, "PIPES", table) is not None:
            name = namespace.qualified(table)
            yield Finding("pipe", name, 1, None, "of a person", f"DROP PIPE {name};")


def _shared(connection: SnowflakeConnection, namespace: Namespace, sink: str) -> Iterator[Finding]:
    for name, detail in _OF_A_SINK.items():
        if _shown(connection, namespace, "TABLES", name) is not None:
            forget = _FORGET.format(table=namespace.qualified(name), sink=sink)
            yield Finding("rows", namespace.qualified(name), None, None, detail, forget)
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
    wanted = stored(name)
    schema = f"{quoted(namespace.database)}.{quoted(namespace.schema)}"
    rows = query(connection, _SHOW.format(kind=kind, pattern=like(wanted), schema=schema))
    return next((row for row in rows if row["name"] == wanted), None)
