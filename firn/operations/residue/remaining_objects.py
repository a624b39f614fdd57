"""What a clean never touches, as findings with the statement or command that removes it by hand.

Tables with their rows, users' pipes, the history of schema changes, the ledger, topics, logs. Statements: SHOW TABLES,
SHOW PIPES (https://docs.snowflake.com/en/sql-reference/sql/show-tables, .../show-pipes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.ledger import schema_changes
from firn.ledger.rows import TABLE
from firn.operations.residue.finding import Finding
from firn.snowflake.identifiers import FullName, Namespace, written
from firn.snowflake.tables import shown_object

TargetOfPipe: TypeAlias = Callable[[SnowflakeConnection, Namespace, SinkConfig, str], FullName | None]
"""The table that a user's pipe of this name fills; None where no rows went anywhere because of the pipe."""

_DELETE_HISTORY = "DELETE FROM {table} WHERE SINK = '{sink}';"


def find_tables(
    connection: SnowflakeConnection,
    namespace: Namespace,
    config: SinkConfig,
    tables: Mapping[str, str],
    target_of_pipe: TargetOfPipe,
) -> Iterator[Finding]:
    """The tables that rows went into, then the pipes that say so. tables: topic -> table.

    A pipe with the name of a table may fill a table of another name.
    """
    topics: dict[FullName, list[str]] = {}
    pipes = []
    for table in dict.fromkeys(tables.values()):
        name, target = namespace.full_name(table), None
        if shown_object(connection, "PIPE", name) is not None:
            target = target_of_pipe(connection, namespace, config, table)
            pipes.append(Finding("pipe", written(name), 1, None, "made by a user", f"DROP PIPE {written(name)};"))
        into = topics.setdefault(target or name, [])
        into += [topic for topic, of_topic in tables.items() if of_topic == table]
    for name, of in topics.items():
        if (shown := shown_object(connection, "TABLE", name)) is not None:
            drop = f"DROP TABLE {written(name)};"
            yield Finding("table", written(name), shown.get("rows"), shown.get("bytes"), f"of {', '.join(of)}", drop)
    yield from pipes


def find_firn_tables(connection: SnowflakeConnection, namespace: Namespace, sink: str) -> Iterator[Finding]:
    """The history of schema changes and the ledger, which other sinks use too."""
    history = namespace.full_name(schema_changes.TABLE)
    if shown_object(connection, "TABLE", history) is not None:
        delete = _DELETE_HISTORY.format(table=written(history), sink=sink)
        yield Finding("rows", written(history), None, None, "history of schema changes", delete)
    ledger = namespace.full_name(TABLE)
    if shown_object(connection, "TABLE", ledger) is not None:
        drop = f"DROP TABLE {written(ledger)}; -- with it the positions of all other sinks"
        yield Finding("ledger", written(ledger), None, None, "shared by all sinks of the schema", drop)


def find_topics(config: SinkConfig, topics: Iterable[str]) -> Iterator[Finding]:
    """The topics that the sink read, and that of its dead letters; whether they exist, nobody asks."""
    dead_letters = config.errors.dead_letter_topic
    kinds = dict.fromkeys(topics, "records") | ({dead_letters: "dead letters"} if dead_letters else {})
    for name, detail in kinds.items():
        yield Finding("topic", name, None, None, detail, f"kafka-topics --delete --topic '{name}'")


def find_log(log: Path) -> Iterator[Finding]:
    """The file that Spark writes for the sink on this machine, if there is one."""
    if log.is_file():
        yield Finding("log", str(log), 1, log.stat().st_size, "written by Spark", f"rm '{log}'")
