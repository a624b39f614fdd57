"""A table or the user's SQL, compared with what it returned before: a hash per key, kept in Snowflake.

A key that is new is an INSERT, one whose hash differs an update (an INSERT with ISUPDATE), one that is gone a DELETE,
which has the key's columns alone: old values are not kept. A key that comes back is an INSERT again. A change of the
exported columns changes every hash, so every row is published once more, with the new columns. Sources: SHA2
(https://docs.snowflake.com/en/sql-reference/functions/sha2), full outer joins
(https://docs.snowflake.com/en/sql-reference/constructs/join).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.errors import TerminalError
from firn.exports.moves import numbered
from firn.exports.moves.numbered import Changes, failed_checks, key_object, order_members
from firn.exports.source import Source
from firn.exports.values import row_object
from firn.snowflake.connection import execute, query

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

STATE_COLUMNS = "KEY_TEXT VARCHAR, HASH VARCHAR"
_CHANGES = """
SELECT IFF(FIRN$NOW.FIRN$KEY_TEXT IS NULL, 'DELETE', 'INSERT') AS FIRN$ACTION,
  FIRN$NOW.FIRN$KEY_TEXT IS NOT NULL AND FIRN$WAS.KEY_TEXT IS NOT NULL AS FIRN$ISUPDATE,
  SHA1(COALESCE(FIRN$NOW.FIRN$KEY_TEXT, FIRN$WAS.KEY_TEXT)) AS FIRN$ROW_ID,
  PARSE_JSON(COALESCE(FIRN$NOW.FIRN$KEY_TEXT, FIRN$WAS.KEY_TEXT)) AS FIRN$KEY, NULL AS FIRN$OLD,
  PARSE_JSON(COALESCE(FIRN$NOW.FIRN$PAYLOAD_TEXT, FIRN$WAS.KEY_TEXT)) AS FIRN$PAYLOAD,
  COALESCE(FIRN$NOW.FIRN$FAILED, ARRAY_CONSTRUCT()) AS FIRN$FAILED, FIRN$NOW.FIRN$HASH AS FIRN$HASH,
  NULL AS FIRN$POSITION{names}
FROM (
  SELECT FIRN$ROWS.*, SHA2(FIRN$PAYLOAD_TEXT, 256) AS FIRN$HASH,
    COUNT(*) OVER (PARTITION BY FIRN$KEY_TEXT) AS FIRN$COPIES
  FROM ({rows}) FIRN$ROWS
) FIRN$NOW
FULL OUTER JOIN {state} FIRN$WAS ON FIRN$WAS.KEY_TEXT = FIRN$NOW.FIRN$KEY_TEXT
WHERE FIRN$WAS.KEY_TEXT IS NULL OR FIRN$NOW.FIRN$KEY_TEXT IS NULL OR FIRN$WAS.HASH <> FIRN$NOW.FIRN$HASH
  OR FIRN$NOW.FIRN$COPIES > 1
"""
_ROWS = """
SELECT TO_JSON({key}) AS FIRN$KEY_TEXT, TO_JSON({payload}) AS FIRN$PAYLOAD_TEXT, {failed} AS FIRN$FAILED{order}
FROM {relation} S
"""
_TWICE = """
SELECT TO_JSON("KEY") AS TWICE FROM {outbox} WHERE BATCH >= {base}
GROUP BY TO_JSON("KEY") HAVING COUNT(*) > 1 ORDER BY 1 LIMIT 3
"""
_FORGET = 'DELETE FROM {state} WHERE KEY_TEXT IN (SELECT TO_JSON("KEY") FROM {outbox} WHERE BATCH >= {base})'
_REMEMBER = """
INSERT INTO {state} (KEY_TEXT, HASH)
SELECT TO_JSON("KEY"), HASH FROM {outbox} WHERE BATCH >= {base} AND ACTION = 'INSERT'
"""


def compared_changes(source: Source) -> Changes:
    """What differs from the state of the last move."""
    order = list(order_members(source.order, "S"))
    rows = _ROWS.format(
        key=key_object(source, "S"),
        payload=row_object(source.columns, "S"),
        failed=failed_checks(source.config.checks, "FALSE"),
        order="".join(f", {expression} AS {name}" for expression, name in order),
        relation=source.relation,
    )
    names = "".join(f", FIRN$NOW.{name} AS {name}" for _, name in order)
    key = f"TO_JSON({numbered.KEY})"
    return Changes(_CHANGES.format(rows=rows, state=source.state, names=names), f"{key}, {numbered.ACTION}", key)


def follow_compared(connection: SnowflakeConnection, source: Source, base: int) -> None:
    """Keep the hashes of the moved rows, in the transaction of the move.

    Raises TerminalError for a key that the rows have more than once: they cannot be told apart.
    """
    where = {"state": source.state, "outbox": source.outbox, "base": int(base)}
    if twice := [str(row["TWICE"]) for row in query(connection, _TWICE.format(**where))]:
        raise TerminalError(
            f"The key of source {source.name} is not unique: {', '.join(twice)} has several rows.",
            where=f"export {source.export}",
            next_step="Add columns to message.key.columns, or make the query return one row for each key.",
        )
    execute(connection, _FORGET.format(**where))
    execute(connection, _REMEMBER.format(**where))
