"""Queries, INSERT, UPDATE, DELETE and TRUNCATE, which are fakesnow's, and MERGE, which is DuckDB's.

DuckDB refuses a target row with several source rows, as Snowflake does. COPY is `copy_files`. Source: the MERGE page of
Snowflake's SQL reference.
"""

from __future__ import annotations

from collections import Counter

import duckdb
import pyarrow as pa
from fakesnow.transforms.merge import operations
from sqlglot import exp

from firn_local.snowflake.engine.family import Execution, Family, Handler, as_it_is
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import requirements as needs
from firn_local.snowflake.sql.result_set import NUMBER, ResultSet
from firn_local.snowflake.sql.sql_errors import sql_error
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store import table_annotations

DUPLICATE_ROW = (100090, "42P18")
_ACTIONS = {"inserted": "INSERT", "updated": "UPDATE", "deleted": "DELETE"}


def _merge(session: Session, _: Statement, execution: Execution) -> ResultSet:
    """Run a MERGE; answers the counts of the operations it may perform."""
    tree = execution.translated(execution.rewritten())
    performed = [name for name, clauses in operations(tree).items() if clauses]  # type: ignore[arg-type]
    tree.set("returning", exp.Returning(expressions=[exp.column("merge_action")]))
    try:
        actions: pa.Table = session.duck.execute(tree.sql(dialect="duckdb"), execution.params).to_arrow_table()
    except duckdb.InvalidInputException as error:
        if "more than once" in str(error):
            raise sql_error(DUPLICATE_ROW, "Duplicate row detected during DML action") from error
        raise
    counted = Counter({v["values"]: v["counts"] for v in actions.column(0).value_counts().to_pylist()})
    counts = tuple(counted[_ACTIONS[name]] for name in performed)
    return ResultSet([(f"number of rows {name}", NUMBER) for name in performed], [counts], affected=sum(counts))


def _truncate(session: Session, statement: Statement, execution: Execution) -> ResultSet | None:
    """TRUNCATE TABLE [IF EXISTS]."""
    tree = execution.rewritten()
    if tree.args.get("exists"):
        if not all(table_annotations.columns(session.duck, session.place_of(name)) for name in statement.targets()):
            return ResultSet.status()
        tree.set("exists", False)
    execution.run(tree)
    return None


_QUERIES = (exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Subquery)
FAMILY = Family(
    handlers={
        **{(node, ""): Handler(as_it_is, needs.to_query) for node in _QUERIES},
        (exp.Insert, ""): Handler(as_it_is, needs.to_insert),
        (exp.Update, ""): Handler(as_it_is, needs.to_change("UPDATE")),
        (exp.Delete, ""): Handler(as_it_is, needs.to_change("DELETE")),
        (exp.TruncateTable, ""): Handler(_truncate, needs.to_change("TRUNCATE")),
        (exp.Merge, ""): Handler(_merge, needs.to_merge),
    }
)
