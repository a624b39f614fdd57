"""The query of all rows of a table or view as they are now, for a source that is published again. Pure SQL.

It stands in a transaction that consumes the source's stream first. A stream's position advances to the time at which
that transaction began, and this query sees what is committed when it runs, which is later: so every change between the
two comes with the next move, a delete included, and nothing is missed. What changed between them comes twice.

Sources: https://docs.snowflake.com/en/user-guide/streams-intro#repeatable-read-isolation (the position after COMMIT),
https://docs.snowflake.com/en/sql-reference/transactions (READ COMMITTED: a statement sees what is committed before it).
"""

from __future__ import annotations

from firn.exports.moves import numbered
from firn.exports.moves.numbered import Changes, failed_checks, key_object, order_members
from firn.exports.source import Source
from firn.exports.values import row_object
from firn.snowflake.identifiers import FullName, written

_ROWS = """
SELECT 'INSERT' AS FIRN$ACTION, FALSE AS FIRN$ISUPDATE, SHA1(TO_JSON({payload})) AS FIRN$ROW_ID, {key} AS FIRN$KEY,
  NULL AS FIRN$OLD, {payload} AS FIRN$PAYLOAD, {failed} AS FIRN$FAILED, NULL AS FIRN$HASH, NULL AS FIRN$POSITION{order}
FROM {base} S
"""


def all_rows(source: Source, base: FullName) -> Changes:
    """Each row of `base` as an INSERT. A table does not tell its rows' ids: a hash of the row stands for one."""
    ordered = list(order_members(source.order, "S"))
    sql = _ROWS.format(
        payload=row_object(source.columns, "S"),
        key=key_object(source, "S"),
        failed=failed_checks(source.config.checks, "FALSE"),
        order="".join(f", {expression} AS {name}" for expression, name in ordered),
        base=written(base),
    )
    by = f"TO_JSON({numbered.KEY})" if source.key_names else numbered.ROW_ID
    return Changes(sql, ", ".join((f"TO_JSON({numbered.KEY})", *(name for _, name in ordered), numbered.ROW_ID)), by)
