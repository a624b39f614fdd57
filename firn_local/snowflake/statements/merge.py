"""MERGE by DuckDB's own MERGE INTO, which refuses a target row with several source rows, as Snowflake does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from fakesnow.transforms.merge import operations
from sqlglot import Expr, exp

from firn_local.snowflake.sql.errors import sql_error
from firn_local.snowflake.sql.result_set import NUMBER, Answer

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session

DUPLICATE_ROW = (100090, "42P18")
_ACTIONS = {"inserted": "INSERT", "updated": "UPDATE", "deleted": "DELETE"}


def merge(session: Session, expression: Expr, params: Any) -> Answer:
    """Run a MERGE; answers the counts of the operations it may perform. Source: the MERGE page of the SQL reference."""
    performed = [name for name, clauses in operations(expression).items() if clauses]  # type: ignore[arg-type]
    expression.set("returning", exp.Returning(expressions=[exp.column("merge_action")]))
    try:
        actions: pa.Table = session.duck.execute(expression.sql(dialect="duckdb"), params).to_arrow_table()
    except duckdb.InvalidInputException as error:
        if "more than once" in str(error):
            raise sql_error(DUPLICATE_ROW, "Duplicate row detected during DML action") from error
        raise
    counted = Counter({v["values"]: v["counts"] for v in actions.column(0).value_counts().to_pylist()})
    counts = tuple(counted[_ACTIONS[name]] for name in performed)
    return Answer([(f"number of rows {name}", NUMBER) for name in performed], [counts], affected=sum(counts))
