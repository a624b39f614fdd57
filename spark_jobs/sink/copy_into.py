"""COPY of exactly the files that a batch staged, inside the batch's transaction.

Statement: COPY INTO <table> with a transformation and FILES
(https://docs.snowflake.com/en/sql-reference/sql/copy-into-table); FILES takes 1,000 names at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from snowflake.connector import SnowflakeConnection

from firn.errors import TerminalError
from firn.snowflake import query
from spark_jobs.sink.identifiers import Namespace
from spark_jobs.sink.reports import Staged
from spark_jobs.sink.stage import Stage

FILES_PER_COPY = 1_000

_COPY = """
COPY INTO {table} (RECORD_METADATA, RECORD_CONTENT)
FROM (SELECT PARSE_JSON($1:RECORD_METADATA), PARSE_JSON($1:RECORD_CONTENT) FROM '@{stage}/{folder}')
FILES = ({files})
FILE_FORMAT = (TYPE = PARQUET)
ON_ERROR = ABORT_STATEMENT
"""


def copy_files(connection: SnowflakeConnection, namespace: Namespace, stage: Stage, files: Sequence[Staged]) -> None:
    """Load every file, table by table. Raises TerminalError unless each row that was staged was loaded."""
    for table, chunk in _chunks(files):
        folder = f"{stage.sink}/{table}/"
        names = {file.path.removeprefix(folder): file.rows for file in chunk}
        statement = _COPY.format(
            table=namespace.qualified(table),
            stage=stage.name,
            folder=folder,
            files=", ".join(f"'{name}'" for name in names),
        )
        _check(query(connection, statement), names, table)


def _chunks(files: Sequence[Staged]) -> Iterator[tuple[str, list[Staged]]]:
    ordered = sorted(files, key=lambda file: (file.table, file.path))
    for table, group in groupby(ordered, key=lambda file: file.table):
        of_table = list(group)
        for start in range(0, len(of_table), FILES_PER_COPY):
            yield table, of_table[start : start + FILES_PER_COPY]


def _check(answers: Sequence[dict[str, object]], staged: dict[str, int], table: str) -> None:
    """One answer row a file: `file` is the path inside the stage, `rows_loaded` what is in the table now."""
    loaded = {str(a["file"]): int(str(a["rows_loaded"])) for a in answers if "rows_loaded" in a}
    wrong = [
        f"{name}: {rows} rows staged, {_rows_of(name, loaded)} loaded"
        for name, rows in staged.items()
        if _rows_of(name, loaded) != rows
    ]
    if len(loaded) != len(staged):
        wrong.append(f"{len(staged)} files staged, {len(loaded)} loaded")
    if wrong:
        raise TerminalError(
            f"COPY did not load what was staged: {'; '.join(wrong)}.",
            where=f"table {table}",
            next_step="Nothing was committed; the files stay until the next start: see LIST, and who writes there.",
        )


def _rows_of(name: str, loaded: dict[str, int]) -> int | None:
    return next((rows for path, rows in loaded.items() if path == name or path.endswith(f"/{name}")), None)
