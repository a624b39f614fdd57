"""Table FIRN_EXPORT_CHECKS: how many rows met each quality check, move by move; and whether a move may go on.

Checks are evaluated where rows are moved (`firn.exports.moves.numbered.failed_checks`), so a row waits in the outbox
with the names of those that it failed. Deletes are not checked. Statements: CREATE TABLE, COUNT_IF, CONTAINS
(https://docs.snowflake.com/en/sql-reference/functions/count_if, .../functions/contains).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firn.connector.export.config import QualityCheck
from firn.errors import TerminalError
from firn.exports import names
from firn.exports.source import Source
from firn.snowflake.connection import execute, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace, text_literal
from firn.snowflake.tables import make_unless_there

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

# ROWS is a reserved word: https://docs.snowflake.com/en/sql-reference/reserved-keywords.
_CREATE = """
CREATE TABLE {table} (
  EXPORT VARCHAR, SOURCE VARCHAR, BATCH NUMBER(19, 0), CHECK_NAME VARCHAR, ROW_COUNT NUMBER(19, 0),
  FAILED NUMBER(19, 0), ACTION VARCHAR, CHECKED_AT TIMESTAMP_NTZ
)
"""
_COUNT = "SELECT COUNT(*) AS CHECKED{failed} FROM {outbox} WHERE BATCH >= {base} AND ACTION = 'INSERT'"
_FAILED = ", COUNT_IF(CONTAINS(TO_JSON(FAILED), {name})) AS F{number}"
_INSERT = """
INSERT INTO {table} (EXPORT, SOURCE, BATCH, CHECK_NAME, ROW_COUNT, FAILED, ACTION, CHECKED_AT)
SELECT ?, ?, ?, COLUMN1, COLUMN2, COLUMN3, COLUMN4, SYSDATE() FROM VALUES {values}
"""
_READ = """
SELECT EXPORT, SOURCE, BATCH, CHECK_NAME, ROW_COUNT, FAILED, ACTION, CHECKED_AT
FROM {table} WHERE EXPORT = {export} ORDER BY CHECKED_AT DESC, SOURCE, CHECK_NAME LIMIT {limit}
"""


@dataclass(frozen=True)
class CheckResult:
    """How many rows of one move a check was evaluated for, and how many failed it."""

    check: QualityCheck
    rows: int
    failed: int


class QualityError(TerminalError):
    """Rows fail a check that stops the export; nothing was moved. Exit code 6, as for a bad record of a sink."""

    exit_code = 6
    batch: int = 0
    """The number that the move had taken."""
    results: tuple[CheckResult, ...] = ()


def ensure_checks(connection: SnowflakeConnection, namespace: Namespace) -> None:
    """Make the table unless it is there."""
    create = _CREATE.format(table=namespace.qualified(names.CHECKS))
    make_unless_there(connection, namespace, names.CHECKS, lambda: execute(connection, create))


def evaluate(connection: SnowflakeConnection, source: Source, base: int) -> tuple[CheckResult, ...]:
    """The results of all checks over the rows moved from batch `base` on; none for a source without checks."""
    checks = source.config.checks
    if not checks:
        return ()
    failed = "".join(
        _FAILED.format(name=text_literal(f'"{check.name}"'), number=number) for number, check in enumerate(checks)
    )
    (row,) = query(connection, _COUNT.format(failed=failed, outbox=source.outbox, base=int(base)))
    counts = ((check, int(row[f"F{number}"] or 0)) for number, check in enumerate(checks))
    return tuple(CheckResult(check, int(row["CHECKED"]), found) for check, found in counts)


def check_may_move(source: Source, batch: int, results: tuple[CheckResult, ...]) -> None:
    """Raise QualityError where rows fail a check whose action is stop."""
    failed = [each for each in results if each.failed and each.check.action == "stop"]
    if not failed:
        return
    listed = ", ".join(f"{each.check.name} ({each.failed} of {each.rows})" for each in failed)
    error = QualityError(
        f"Rows of source {source.name} fail quality checks: {listed}. Nothing was moved.",
        where=f"export {source.export}",
        next_step="Correct the rows, or change firn.export.checks.<name>.action to dead letter or warn; then start the "
        f"export again. {names.CHECKS} has the counts.",
    )
    error.batch, error.results = batch, results
    raise error


def record(
    connection: SnowflakeConnection,
    namespace: Namespace,
    source: Source,
    batch: int,
    results: Sequence[CheckResult],
) -> None:
    """Write results down, in the caller's transaction if there is one. Without results nothing is run."""
    if not results:
        return
    values = [v for each in results for v in (each.check.name, each.rows, each.failed, each.check.action)]
    statement = _INSERT.format(
        table=namespace.qualified(names.CHECKS), values=", ".join(["(?, ?, ?, ?)"] * len(results))
    )
    execute(connection, statement, (source.export, source.name, batch, *values))


def read_checks(
    connection: SnowflakeConnection, namespace: Namespace, export: str, limit: int = 100
) -> list[dict[str, Any]]:
    """The newest results of an export; none without a table."""
    table = namespace.qualified(names.CHECKS)
    try:
        return query(connection, _READ.format(table=table, export=text_literal(export), limit=int(limit)))
    except MissingObjectError:
        return []
