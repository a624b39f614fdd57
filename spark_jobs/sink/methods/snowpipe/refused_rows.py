"""Which rows of a batch a user's pipe refuses: found by halves, after its INSERT failed and was rolled back.

The pipe's own INSERT is tried on a range of offsets and taken back, whatever it says; a range that fails is cut in two.
A row costs about 2 * log2(rows of its file) tries, a batch MAX_TRIES at most: rows behind those are found when the
batch is tried again without the ones that are known. Nothing of it outlives the session, so it may be killed anywhere.
Statements: those of `pipe_input_table`, and ROLLBACK.
"""

from __future__ import annotations

from collections.abc import Sequence

from snowflake.connector import SnowflakeConnection

from firn.snowflake.connection import execute
from spark_jobs.sink.columns.staged_columns import OFFSET, RECORD
from spark_jobs.sink.methods.snowpipe.copy_into import copy_numbered
from spark_jobs.sink.methods.snowpipe.pipe_input_table import PipeInputTable, RefusedByPipeError, blaming_the_pipe
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.values.batches import RejectedRows
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import PipeLoader

MAX_TRIES = 500
_CREATE = "CREATE OR REPLACE TEMPORARY TABLE {rows} ({offset} NUMBER, {record} VARIANT)"
_DELETE = "DELETE FROM {table}"
_PICK = "INSERT INTO {input} SELECT {record} FROM {rows} WHERE {offset} BETWEEN {first} AND {last}"


class RowSearch:
    """The search within one batch that failed; no transaction is open. `found`: the rows, and what Snowflake says.

    first_only: whether the first row of a partition is enough (errors.tolerance=none).
    """

    def __init__(self, connection: SnowflakeConnection, stage: Stage, *, first_only: bool) -> None:
        self._connection, self._stage, self._first_only = connection, stage, first_only
        self._tries = 0
        self.found: RejectedRows = {}

    def look(self, waiting: PipeInputTable, loader: PipeLoader, files: Sequence[Receipt]) -> None:
        """Search the staged files of one table, partition by partition and in order of their offsets.

        Raises as statements do, and RefusedFilesError for a file that cannot be read.
        """
        rows = f"{waiting.name}_ROWS"
        execute(self._connection, _CREATE.format(rows=rows, offset=OFFSET, record=RECORD))
        for file in sorted(files, key=lambda each: (each.where, each.first)):
            if self._tries < MAX_TRIES and not (self._first_only and file.where in self.found):
                execute(self._connection, _DELETE.format(table=rows))
                copy_numbered(self._connection, rows, self._stage, file)
                self._halve(waiting, loader, file, file.first, file.last)
        execute(self._connection, _DELETE.format(table=waiting.name))

    def _halve(self, waiting: PipeInputTable, loader: PipeLoader, file: Receipt, first: int, last: int) -> None:
        """Find what is refused from offset `first` to `last`; the latter half only where it still matters."""
        if self._tries >= MAX_TRIES:
            return
        fault = self._try(waiting, loader, first, last)
        if fault is None:
            return
        if first == last:
            self.found.setdefault(file.where, {})[first] = fault
            return
        middle = (first + last) // 2
        self._halve(waiting, loader, file, first, middle)
        if not (self._first_only and file.where in self.found):
            self._halve(waiting, loader, file, middle + 1, last)

    def _try(self, waiting: PipeInputTable, loader: PipeLoader, first: int, last: int) -> str | None:
        """Why the pipe refuses these rows together; None where it takes them. They are not kept."""
        self._tries += 1
        execute(self._connection, _DELETE.format(table=waiting.name))
        pick = _PICK.format(
            input=waiting.name, record=RECORD, rows=f"{waiting.name}_ROWS", offset=OFFSET, first=first, last=last
        )
        execute(self._connection, pick)
        execute(self._connection, "BEGIN TRANSACTION")
        try:
            with blaming_the_pipe(waiting.pipe):
                execute(self._connection, waiting.insert(loader))
        except RefusedByPipeError as error:
            return error.what
        finally:
            execute(self._connection, "ROLLBACK")
        return None
