"""What fakesnow keeps beside a database, schema or table (stages, comments, ...) and forgets to remove."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from firn_local.snowflake.store.duckdb_store import Store

_KEPT = "_fs_global._fs_information_schema"
_BY_SCHEMA = {
    "_fs_stages": ("database_name", "schema_name"),
    "_fs_file_formats": ("database_name", "schema_name"),
    "_fs_tables_ext": ("ext_table_catalog", "ext_table_schema"),
    "_fs_columns_ext": ("ext_table_catalog", "ext_table_schema"),
}


def forget_inside(store: Store, name: str) -> None:
    """Remove what is kept for a dropped database (`DB`) or schema (`DB.SCHEMA`), staged files included."""
    parts = name.split(".")
    for table, columns in _BY_SCHEMA.items():
        where = " AND ".join(f"{column} = ?" for column in columns[: len(parts)])
        store.query(f"DELETE FROM {_KEPT}.{table} WHERE {where}", parts)  # noqa: S608  (our own names)
    shutil.rmtree(store.stages_dir.joinpath(*parts), ignore_errors=True)


def forget_comments(store: Store, tables: Iterable[str]) -> None:
    """Remove the comments and lengths of columns that are kept for tables (full names)."""
    for name in tables:
        for table in ("_fs_tables_ext", "_fs_columns_ext"):
            where = "ext_table_catalog = ? AND ext_table_schema = ? AND ext_table_name = ?"
            sql = f"DELETE FROM {_KEPT}.{table} WHERE {where}"  # noqa: S608  (our own names)
            store.query(sql, name.split(".", 2))
