"""DESCRIBE TABLE and VIEW for any database and for temporary objects, whatever the current database is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.local.snowflake import enforce
from firn.local.snowflake.answers import Answer, text_columns
from firn.local.snowflake.errors import missing
from firn.local.snowflake.privileges import ANY, Need
from firn.local.snowflake.words import Words

if TYPE_CHECKING:
    from collections.abc import Callable

    from firn.local.snowflake.session import Session

_COLUMNS_SQL = """
SELECT column_name,
    CASE data_type WHEN 'NUMBER' THEN 'NUMBER(' || numeric_precision || ',' || numeric_scale || ')'
         WHEN 'TEXT' THEN 'VARCHAR(' || coalesce(character_maximum_length, 16777216) || ')'
         WHEN 'TIMESTAMP_NTZ' THEN 'TIMESTAMP_NTZ(9)' WHEN 'TIMESTAMP_TZ' THEN 'TIMESTAMP_TZ(9)'
         WHEN 'TIME' THEN 'TIME(9)' WHEN 'BINARY' THEN 'BINARY(8388608)' ELSE data_type END,
    'COLUMN', CASE is_nullable WHEN 'YES' THEN 'Y' ELSE 'N' END, column_default, 'N', 'N', NULL, NULL, comment,
    NULL, NULL
FROM _fs_global._fs_information_schema._fs_columns
WHERE table_catalog = ? AND table_schema = ? AND table_name = ? ORDER BY ordinal_position
"""
_NAMES = text_columns(
    "name", "type", "kind", "null?", "default", "primary key", "unique key", "check", "expression", "comment",
    "policy name", "privacy domain",
)  # fmt: skip


def _describe(session: Session, sql: str) -> Answer | None:
    words = Words(sql)
    words.skip("DESC")
    words.skip("DESCRIBE")
    if not (words.skip("TABLE") or words.skip("VIEW")):
        return None
    name = words.name()
    parts = session.full_name(name).split(".")
    if parts[1] == "INFORMATION_SCHEMA":
        return None
    enforce.demand(session, Need(ANY, "TABLE", ".".join(parts)))
    place = ("temp", "main", parts[2]) if ".".join(parts) in session.temporary else tuple(parts)
    # On the session's own connection: it sees temporary objects and what its transaction made.
    rows = session.duck.execute(_COLUMNS_SQL, list(place)).fetchall()
    if not rows:
        raise missing("Object", name)
    return Answer(_NAMES, rows)


COMMANDS: dict[tuple[str, ...], Callable[[Session, str], Answer | None]] = {
    (verb, kind): _describe for verb in ("DESC", "DESCRIBE") for kind in ("TABLE", "VIEW")
}  # the other kinds are fakesnow's or `principals`'
