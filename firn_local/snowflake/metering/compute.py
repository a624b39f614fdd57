"""Whether a statement needs a running warehouse, from its syntax tree. Not for whether one is there (`privileges`).

Sources, all of Snowflake's documentation: "Virtual warehouses" (SELECT that retrieves rows, DML, COPY), "Monitor query
activity with Query History" (DDL, transaction commands and metadata-based results, with COUNT(*) and CURRENT_DATABASE()
as its examples, are not processed by a warehouse), "Snowflake Information Schema" (SHOW needs none, its views do). What
no document names as free counts: MIN and MAX, TRUNCATE, a DELETE without a condition.
"""

from __future__ import annotations

from enum import StrEnum

from sqlglot import Expr, exp

from firn_local.snowflake.sql.statement import Kind, Statement


class Compute(StrEnum):
    """What answers a statement."""

    SERVICES = "CLOUD SERVICES"
    """Cloud services alone: DDL, SHOW, USE, transaction control, PUT, a SELECT without a table."""
    METADATA = "METADATA"
    """The row counts that Snowflake keeps of its micro-partitions."""
    REUSE = "PERSISTED RESULT"
    """The persisted result of an earlier query (`persisted_results`)."""
    WAREHOUSE = "WAREHOUSE"
    """A running warehouse."""


def compute_of(statement: Statement) -> Compute:
    """What a statement needs where no persisted result answers it; statements that no parser knows need nothing."""
    tree = statement.expression
    if isinstance(tree, exp.Create):
        fills = tree.kind == "TABLE" and tree.expression is not None
        return Compute.WAREHOUSE if fills else Compute.SERVICES
    if statement.kind in (Kind.APPEND, Kind.CHANGE):
        return Compute.WAREHOUSE
    if statement.kind is not Kind.QUERY or not _reads_rows(tree):
        return Compute.SERVICES
    return Compute.METADATA if _counts_a_table(tree) else Compute.WAREHOUSE


def _reads_rows(tree: Expr) -> bool:
    """Whether a query has a source; table functions and VALUES are sources too."""
    return any(True for _ in tree.find_all(exp.Table, exp.TableFromRows, exp.Values, exp.Lateral, exp.UDTF))


def _counts_a_table(tree: Expr) -> bool:
    """Whether it is SELECT COUNT(*) of one whole table."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return False
    clauses = {name for name, value in tree.args.items() if value}
    counted, source = tree.expressions[0].unalias(), tree.args.get("from_")
    if clauses != {"expressions", "from_"} or not isinstance(source, exp.From):
        return False
    table = source.this
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and not table.args.get("joins")
    return (
        isinstance(counted, exp.Count)
        and isinstance(counted.this, exp.Star)
        and plain
        and table.db.upper() not in {"INFORMATION_SCHEMA", "ACCOUNT_USAGE"}
    )
