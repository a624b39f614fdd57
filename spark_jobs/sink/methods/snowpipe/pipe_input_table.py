"""Where the records of a table with a user's own pipe wait for its SELECT, within the batch's transaction.

A COPY from a stage takes neither WHERE nor FLATTEN, so records are copied into a table of one VARIANT column first.
It belongs to the session and to nobody else; `$1` is its column to the SELECT, as it is the streamed row to the pipe.
Statements: CREATE TEMPORARY TABLE (outside of any transaction), INSERT ... SELECT, DELETE
(https://docs.snowflake.com/en/user-guide/tables-temp-transient, .../sql-reference/sql/insert, .../sql/delete).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from snowflake.connector import SnowflakeConnection

from firn.errors import ConfigError, TerminalError
from firn.plural import counted
from firn.snowflake.columns import Columns
from firn.snowflake.connection import execute
from firn.snowflake.faults import MissingObjectError, translated
from firn.snowflake.identifiers import Namespace, always_quoted, written
from firn.snowflake.tables import describe_named
from spark_jobs.sink.columns.staged_columns import RECORD
from spark_jobs.sink.tables.target_tables import check_columns
from spark_jobs.sink.values.table_loaders import PipeLoader

_CREATE = "CREATE OR REPLACE TEMPORARY TABLE {input} ({record} VARIANT)"
_INSERT = "INSERT INTO {table}{columns} {select}"
_EMPTY = "DELETE FROM {input}"


class RefusedByPipeError(TerminalError):
    """The SELECT of a user's pipe, or the table behind it, cannot take a value of what waits for it."""


class PipeInputTable:
    """The pipe input table of one sink's table in one session. `name`, `pipe`: full names, ready for a statement.

    table: the one that the sink's records go to by its configuration, which is the pipe's own name.
    """

    def __init__(self, namespace: Namespace, sink: str, table: str) -> None:
        digest = hashlib.sha256(f"{len(sink)} {sink} {table}".encode()).hexdigest()[:8]
        self.pipe = namespace.qualified(table)
        self.name = namespace.qualified(f"FIRN_LANDING_{digest.upper()}")

    def prepare(self, connection: SnowflakeConnection) -> None:
        """Make it, empty. DDL: never inside a transaction."""
        execute(connection, _CREATE.format(input=self.name, record=RECORD))

    def select(self, loader: PipeLoader) -> str:
        """The SELECT of the pipe over the records that wait here."""
        return loader.select.format(source=self.name)

    def insert(self, loader: PipeLoader) -> str:
        """The statement that puts what the SELECT makes of the waiting records into the table of the pipe's COPY."""
        columns = f" ({', '.join(map(always_quoted, loader.targets))})" if loader.targets else ""
        return _INSERT.format(table=written(loader.table), columns=columns, select=self.select(loader))

    def fill_target(self, connection: SnowflakeConnection, loader: PipeLoader) -> int:
        """Move what waits here into the pipe's table, through the SELECT; returns how many rows it made of it.

        DML only. Raises ConfigError where pipe and table do not fit together any more, RefusedByPipeError where the
        SELECT cannot take a value; transient errors and conflicts as they are.
        """
        with blaming_the_pipe(self.pipe):
            rows = execute(connection, self.insert(loader))
        execute(connection, _EMPTY.format(input=self.name))
        return rows


@contextmanager
def blaming_the_pipe(pipe: str) -> Iterator[None]:
    """Tell whose fault it is that a pipe's SELECT fails; a privilege or a quota has a step of its own.

    pipe: its full name.
    """
    try:
        yield
    except TerminalError as error:
        if isinstance(error, MissingObjectError) or "compilation error" in error.what:
            raise _unfit(error, pipe) from error
        if type(error) is TerminalError:
            raise _refused(error, pipe) from error
        raise


def _unfit(error: TerminalError, pipe: str) -> ConfigError:
    return ConfigError(
        f"The SELECT of the pipe does not work: {error.what}",
        where=f"pipe {pipe}",
        next_step="Correct it (CREATE OR REPLACE PIPE), or what it names and the rights of the sink's role on it, "
        "then start again. Nothing was committed.",
    )


def _refused(error: TerminalError, pipe: str) -> RefusedByPipeError:
    return RefusedByPipeError(
        f"The SELECT of the pipe cannot take a value: {error.what}",
        where=f"pipe {pipe}",
        next_step="Use TRY_CAST or the like in the pipe, leave such records out by WHERE, or change the column; then "
        "start again. Nothing was committed.",
    )


def check_pipe(connection: SnowflakeConnection, namespace: Namespace, table: str, loader: PipeLoader) -> None:
    """Raise ConfigError, with what to do, unless the SELECT of the pipe works and its columns fit the table's.

    The batch's own statements are tried on no record at all; nothing is made but a table of the session.
    """
    pipe, name, shape = namespace.qualified(table), written(loader.table), describe_named(connection, loader.table)
    if shape is None:
        raise ConfigError(
            f"Table not found: {name}.",
            where=f"pipe {pipe}",
            next_step="Make the table that the pipe fills: the sink makes none for a pipe. If it exists: "
            f"GRANT SELECT, INSERT ON TABLE {name} TO ROLE {connection.role or '<role>'};",
        )
    check_columns(name, shape.columns, loader)
    waiting = PipeInputTable(namespace, "", table)
    waiting.prepare(connection)
    with blaming_the_pipe(pipe):
        _check_count(pipe, shape.columns, loader, _selected(connection, waiting.select(loader)))
        _try(connection, waiting.insert(loader))


def _try(connection: SnowflakeConnection, insert: str) -> None:
    """Run it and take it back: a SELECT may make a row out of none."""
    execute(connection, "BEGIN TRANSACTION")
    try:
        execute(connection, insert)
    finally:
        execute(connection, "ROLLBACK")


def _selected(connection: SnowflakeConnection, select: str) -> list[str]:
    """The names of a SELECT's columns."""
    with translated(sql=select, role=connection.role or ""), connection.cursor() as cursor:
        cursor.execute(select)
        return [column.name for column in cursor.description]


def _check_count(pipe: str, columns: Columns, loader: PipeLoader, selected: list[str]) -> None:
    targets = loader.targets or tuple(column.name for column in columns)
    if len(selected) != len(targets):
        raise ConfigError(
            f"The SELECT of the pipe gives {counted(len(selected), 'column')} ({', '.join(selected)}), and they go "
            f"into {len(targets)} ({', '.join(targets)}).",
            where=f"pipe {pipe}",
            next_step="Correct the pipe's SELECT, or name its columns: "
            f"COPY INTO {written(loader.table)} (<column>, ...) FROM (SELECT ...).",
        )
