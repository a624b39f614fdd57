"""A task of Snowflake that moves a source's changes into its outbox, so that none is lost while no exporter runs.

It runs the same statements as a move (`moves.move`), in one transaction, without EPOCH: the row of FIRN_EXPORTS that
both update first keeps a task and an exporter apart. The columns' version stands in its text, so an exporter that sees
other columns moves once itself, which registers them, and replaces the task. Checks are evaluated, and their names wait
with the rows; what stops an export stops it when it publishes.

Sources: https://docs.snowflake.com/en/sql-reference/sql/create-task (SCHEDULE, WHEN, serverless without WAREHOUSE),
https://docs.snowflake.com/en/developer-guide/snowflake-scripting/blocks; a transaction that is open when a run's
session ends is rolled back (https://docs.snowflake.com/en/sql-reference/transactions). WHEN needs no warehouse.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig, SnowflakeTaskConfig
from firn.exports import names
from firn.exports.ledger import ExportLedger, SourceState
from firn.exports.moves.changes_of_stream import stream_changes
from firn.exports.moves.numbered import move_statement
from firn.exports.source import Source
from firn.snowflake.connection import execute
from firn.snowflake.identifiers import FullName, stored, text_literal, written
from firn.snowflake.tables import shown_object

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_CREATE = """
CREATE OR REPLACE TASK {task}{warehouse} SCHEDULE = {schedule} ALLOW_OVERLAPPING_EXECUTION = FALSE COMMENT = {comment}
WHEN {condition}
AS
BEGIN
  BEGIN TRANSACTION;
  UPDATE {exports} SET LAST_BATCH = LAST_BATCH + 1, UPDATED_AT = SYSDATE() WHERE {row};
  {insert};
  UPDATE {exports} SET LAST_BATCH = GREATEST(LAST_BATCH, COALESCE((SELECT MAX(BATCH) FROM {outbox}), 0)) WHERE {row};
  COMMIT;
END
"""
_RESUME, _DROP = "ALTER TASK {task} RESUME", "DROP TASK IF EXISTS {task}"
_BASE = "(SELECT MAX(LAST_BATCH) FROM {exports} WHERE {row})"
_COMMENT = "firn export {export}, source {source}, {digest}"


def ensure_task(
    connection: SnowflakeConnection, ledger: ExportLedger, config: ExportConfig, source: Source, state: SourceState
) -> bool:
    """Make and resume the task of a source, unless it is there as it shall be; whether anything changed.

    state: of a source whose first rows are moved, with the columns that the task moves as its newest. Only sources of
    streams have tasks. It is DDL: no transaction may be open.
    """
    if config.task is None or not source.asks_streams:
        return False
    name = task_name(ledger, source)
    create = _statement(ledger, config, config.task, source, state)
    shown = shown_object(connection, "TASK", name)
    if shown is not None and shown["comment"] == _comment(source, create) and shown["state"] == "started":
        return False
    execute(connection, create.replace("{comment}", text_literal(_comment(source, create))))
    execute(connection, _RESUME.format(task=written(name)))
    return True


def remove_task(connection: SnowflakeConnection, ledger: ExportLedger, source: Source) -> None:
    """Drop the task of a source, where there is one. A run of it that is under way ends first."""
    name = task_name(ledger, source)
    if shown_object(connection, "TASK", name) is not None:
        execute(connection, _DROP.format(task=written(name)))


def task_name(ledger: ExportLedger, source: Source) -> FullName:
    """The full name of a source's task."""
    namespace = ledger.namespace
    return stored(namespace.database), stored(namespace.schema), names.task(source.export, source.name)


def _statement(
    ledger: ExportLedger, config: ExportConfig, task: SnowflakeTaskConfig, source: Source, state: SourceState
) -> str:
    """CREATE TASK, but for `{comment}`, which tells the digest of all the rest."""
    row = f"EXPORT = {text_literal(source.export)} AND SOURCE = {text_literal(source.name)}"
    insert = move_statement(
        source,
        stream_changes(source, config.envelope),
        base=_BASE.format(exports=ledger.table, row=row),
        batch=config.batch,
        version=state.columns_version,
    )
    asked = (f"SYSTEM$STREAM_HAS_DATA({text_literal(written(name))})" for name in source.asked)
    warehouse = task.warehouse
    return _CREATE.format(
        task=written(task_name(ledger, source)),
        warehouse=f" WAREHOUSE = {written((stored(warehouse),))}" if warehouse else "",
        schedule=text_literal(task.schedule),
        comment="{comment}",
        condition=" OR ".join(asked),
        exports=ledger.table,
        row=row,
        insert=insert.strip(),
        outbox=source.outbox,
    )


def _comment(source: Source, statement: str) -> str:
    digest = hashlib.sha256(statement.encode()).hexdigest()[:12]
    return _COMMENT.format(export=source.export, source=source.name, digest=digest)
