"""DESCRIBE TABLE and VIEW for any database and for temporary objects, whatever the current database is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.privileges.requirements import ANY, Need
from firn_local.snowflake.sql import data_types
from firn_local.snowflake.sql.errors import missing
from firn_local.snowflake.sql.result_set import Answer, text_columns
from firn_local.snowflake.sql.tokenizer import Words
from firn_local.snowflake.store import table_annotations

if TYPE_CHECKING:
    from collections.abc import Callable

    from firn_local.snowflake.engine.session import Session
    from firn_local.snowflake.store.table_annotations import KnownColumn

_LENGTHS = """
SELECT ext_column_name, ext_character_maximum_length FROM _fs_global._fs_information_schema._fs_columns_ext
WHERE ext_table_catalog = ? AND ext_table_schema = ? AND ext_table_name = ?
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
    enforcement.demand(session, Need(ANY, "TABLE", ".".join(parts)))
    place = table_annotations.place_of(session, ".".join(parts))
    # On the session's own connection: it sees temporary objects and what its transaction made.
    columns = table_annotations.columns(session.duck, place)
    if not columns:
        raise missing("Object", name)
    # Where older servers, which kept no notes, have the lengths of texts.
    lengths = dict(session.duck.execute(_LENGTHS, list(place)).fetchall())
    return Answer(_NAMES, [_row(column, lengths.get(column.name)) for column in columns])


def _row(column: KnownColumn, length: int | None) -> tuple[str | None, ...]:
    kind = column.note.get("type") or data_types.of_duckdb(column.duck_type)
    if "type" not in column.note and length is not None:
        kind = f"VARCHAR({length})"
    default = column.note.get("default") if column.note else column.duck_default
    nulls = "Y" if column.nullable else "N"
    return (column.name, kind, "COLUMN", nulls, default, "N", "N", None, None, column.note.get("comment"), None, None)


COMMANDS: dict[tuple[str, ...], Callable[[Session, str], Answer | None]] = {
    (verb, kind): _describe for verb in ("DESC", "DESCRIBE") for kind in ("TABLE", "VIEW")
}  # the other kinds are fakesnow's or `principals`'
