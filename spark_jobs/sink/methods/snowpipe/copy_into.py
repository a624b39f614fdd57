"""COPY of exactly the files that a batch staged, inside the batch's transaction.

Statement: COPY INTO <table> with a transformation and FILES
(https://docs.snowflake.com/en/sql-reference/sql/copy-into-table); FILES takes 1,000 names at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from snowflake.connector import SnowflakeConnection

from firn.errors import FirnError, TerminalError
from firn.snowflake.columns import CONTENT, METADATA, Column, Kind
from firn.snowflake.connection import query
from firn.snowflake.identifiers import always_quoted
from spark_jobs.sink.columns.staged_columns import OFFSET, RECORD, file_columns
from spark_jobs.sink.methods.base import RefusedRowsError
from spark_jobs.sink.methods.snowpipe.pipe_input_table import PipeInputTable
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import (
    ColumnsLoader,
    PipeLoader,
    RecordLoader,
    TableLoader,
    VariantLoader,
)

FILES_PER_COPY = 1_000

_COPY = """
COPY INTO {table} ({columns})
FROM (SELECT {values} FROM '@{stage}/{folder}')
FILES = ({files})
FILE_FORMAT = (TYPE = PARQUET NULL_IF = ())
ON_ERROR = ABORT_STATEMENT
"""


class RefusedFilesError(RefusedRowsError):
    """COPY would not load what was staged; `files` are the paths in the stage that it named, if any."""

    files: tuple[str, ...] = ()


def copy_files(
    connection: SnowflakeConnection,
    stage: Stage,
    files: Sequence[Receipt],
    loaders: Mapping[str, TableLoader],
    inputs: Mapping[str, PipeInputTable],
) -> None:
    """Load every file, table by table. Raises RefusedFilesError unless each row that was staged was loaded.

    loaders: of each table in this session. inputs: where records wait for a user's SELECT, for each PipeLoader.
    """
    for table, of_table in groupby(sorted(files, key=lambda file: (file.table, file.detail)), lambda file: file.table):
        loader = loaders[table]
        waiting = inputs[table] if isinstance(loader, PipeLoader) else None
        into = waiting.name if waiting else stage.namespace.qualified(table)
        for chunk in _chunks(list(of_table)):
            _copy(connection, into, copied_columns(loader), stage, table, chunk)
        if waiting and isinstance(loader, PipeLoader):
            waiting.fill_target(connection, loader)


def copy_numbered(connection: SnowflakeConnection, into: str, stage: Stage, file: Receipt) -> None:
    """Load one file of pipe records into a table of OFFSET and RECORD. Raises RefusedFilesError as `copy_files`."""
    columns = {OFFSET: f"$1:{OFFSET}::NUMBER", RECORD: f"PARSE_JSON($1:{RECORD})"}
    _copy(connection, into, columns, stage, file.table, [file])


def _copy(
    connection: SnowflakeConnection,
    into: str,
    columns: Mapping[str, str],
    stage: Stage,
    table: str,
    files: Sequence[Receipt],
) -> None:
    folder = f"{stage.sink}/{table}/"
    names = {file.detail.removeprefix(folder): file.rows for file in files}
    statement = _COPY.format(
        table=into,
        columns=", ".join(columns),
        values=", ".join(columns.values()),
        stage=stage.name,
        folder=folder,
        files=", ".join(f"'{name}'" for name in names),
    )
    _load(connection, statement, names, table, folder)


def copied_columns(loader: TableLoader) -> dict[str, str]:
    """By column, as it stands in a statement: the expression over a staged file's columns that gives its value."""
    match loader:
        case VariantLoader():
            return {METADATA: f"PARSE_JSON($1:{METADATA})", CONTENT: f"PARSE_JSON($1:{CONTENT})"}
        case ColumnsLoader():
            staged = zip(file_columns(loader), loader.columns, strict=True)
            # What nothing can be fitted to (Kind.OTHER) gets its default: not even a NULL of theirs need be castable.
            written = [(n, c) for n, c in staged if not c.generated and c.type.kind is not Kind.OTHER]
            return {always_quoted(column.name): _value(name, column) for name, column in written}
        case PipeLoader():
            return {RECORD: f"PARSE_JSON($1:{RECORD})"}
        case RecordLoader():
            raise FirnError("Only a streaming method has tables that take whole records.")


def _value(name: str, column: Column) -> str:
    """A column's canonical text as its type, which takes each text that `columns.cells` writes."""
    match column.type.kind:
        case Kind.VARIANT:
            value = f"PARSE_JSON($1:{name})"
        case Kind.OBJECT | Kind.ARRAY:
            value = f"PARSE_JSON($1:{name})::{column.type.kind}"
        case Kind.BINARY:
            value = f"TO_BINARY($1:{name}::VARCHAR, 'HEX')"
        case _:
            value = f"$1:{name}::{column.type}"
    return value if column.default is None else f"NVL({value}, {column.default})"


def _load(connection: SnowflakeConnection, statement: str, names: dict[str, int], table: str, folder: str) -> None:
    try:
        answers = query(connection, statement)
    except TerminalError as error:
        if type(error) is not TerminalError:  # a privilege, a missing object: nothing that the files are guilty of
            raise
        # Snowflake names the file that it cannot read; where it names none, the fault is not a file's.
        raise _refused(error.what, table, [folder + name for name in names if name in error.what]) from error
    wrong = _wrong(answers, names)
    if wrong:
        raise _refused("; ".join(wrong.values()), table, [folder + name for name in wrong])


def _refused(what: str, table: str, files: list[str]) -> RefusedFilesError:
    shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    error = RefusedFilesError(
        f"COPY refused what was staged: {what}",
        where=f"table {table}" + (f", staged file {shown}" if files else ""),
        next_step="Nothing was committed. Files named here stay in the stage: look at them, and at who else writes "
        "there or changes the table; then start the sink again.",
    )
    error.files = tuple(files)
    return error


def _chunks(files: Sequence[Receipt]) -> Iterator[Sequence[Receipt]]:
    for start in range(0, len(files), FILES_PER_COPY):
        yield files[start : start + FILES_PER_COPY]


def _wrong(answers: Sequence[dict[str, object]], staged: dict[str, int]) -> dict[str, str]:
    """What is wrong with which file. One answer row a file: `file` is its path in the stage, `rows_loaded` a count."""
    rows_by_path = {str(a["file"]): int(str(a["rows_loaded"])) for a in answers if "rows_loaded" in a}
    loaded = {_end(path): rows for path, rows in rows_by_path.items()}
    wrong = {
        name: f"{name}: {rows} rows staged, {loaded.get(_end(name))} loaded"
        for name, rows in staged.items()
        if loaded.get(_end(name)) != rows
    }
    if not wrong and len(rows_by_path) != len(staged):
        wrong = dict.fromkeys(staged, f"{len(staged)} files staged, {len(rows_by_path)} loaded")
    return wrong


def _end(path: str) -> str:
    """<topic>/<partition>/<file>: how much stands before it is Snowflake's choice."""
    return "/".join(path.rsplit("/", 3)[-3:])
