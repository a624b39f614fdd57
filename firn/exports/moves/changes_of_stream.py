"""The query of changes of a stream, or of the user's SQL over streams. Pure SQL.

An update is a DELETE and an INSERT of one row id
(https://docs.snowflake.com/en/user-guide/streams-intro#stream-columns): the INSERT gets the old row beside it, and the
DELETE is left out, unless the key changed, or the envelope shows each row of the stream as it is. SQL that returns no
METADATA columns returns rows that were added.
"""

from __future__ import annotations

from firn.connector.export.config import Envelope
from firn.exports.moves import numbered
from firn.exports.moves.numbered import Changes, failed_checks, key_object, order_members
from firn.exports.source import Source
from firn.exports.values import row_object

_CHANGES = """
SELECT FIRN$PAIRED.* FROM (
  SELECT FIRN$ROWS.*,
    IFF(FIRN$ISUPDATE AND FIRN$ACTION = 'INSERT', LAG(FIRN$PAYLOAD) OVER ({pair}), NULL) AS FIRN$OLD,
    LEAD(TO_JSON(FIRN$KEY)) OVER ({pair}) AS FIRN$NEXT_KEY
  FROM ({rows}) FIRN$ROWS
) FIRN$PAIRED
WHERE {kept}
"""
_PAIR = "PARTITION BY FIRN$ROW_ID ORDER BY FIRN$ACTION"
_ROWS = """
SELECT {action} AS FIRN$ACTION, {is_update} AS FIRN$ISUPDATE, {row_id} AS FIRN$ROW_ID, {key} AS FIRN$KEY,
  {payload} AS FIRN$PAYLOAD, {failed} AS FIRN$FAILED, NULL AS FIRN$HASH, NULL AS FIRN$POSITION{order}
FROM {relation} S
"""
_KEPT = "NOT FIRN$ISUPDATE OR FIRN$ACTION = 'INSERT' OR TO_JSON(FIRN$KEY) IS DISTINCT FROM FIRN$NEXT_KEY"


def stream_changes(source: Source, envelope: Envelope) -> Changes:
    """The changes of a source whose kind is STREAM, TABLES or QUERY."""
    metadata = source.has_metadata
    ordered = list(order_members(source.order, "S"))
    payload = row_object(source.columns, "S")
    action = "S.METADATA$ACTION" if metadata else "'INSERT'"
    rows = _ROWS.format(
        action=action,
        is_update="S.METADATA$ISUPDATE" if metadata else "FALSE",
        row_id="S.METADATA$ROW_ID" if metadata else f"SHA1(TO_JSON({payload}))",
        key=key_object(source, "S"),
        payload=payload,
        failed=failed_checks(source.config.checks, f"{action} = 'DELETE'"),
        order="".join(f", {expression} AS {name}" for expression, name in ordered),
        relation=source.relation,
    )
    kept = "TRUE" if envelope is Envelope.CHANGE else _KEPT
    members = [f"TO_JSON({numbered.KEY})", numbered.ACTION, *(name for _, name in ordered), numbered.ROW_ID]
    by = f"TO_JSON({numbered.KEY})" if source.key_names else numbered.ROW_ID
    return Changes(_CHANGES.format(pair=_PAIR, rows=rows, kept=kept), ", ".join(members), by)
