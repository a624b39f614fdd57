"""What fakesnow keeps beside a database, schema or table (stages, comments, ...) and forgets to remove; pipes too."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from sqlglot import exp

from firn_local.snowflake.privileges import grant_table
from firn_local.snowflake.statements import pipe_table

if TYPE_CHECKING:
    from firn_local.snowflake.sql.statement import Statement
    from firn_local.snowflake.store.duckdb_store import Engine

_KEPT = "_fs_global._fs_information_schema"


def forget(engine: Engine, database: str, schema: str | None = None) -> None:
    """Remove what was kept for a dropped database or schema, staged files included."""
    prefix = [database] if schema is None else [database, schema]
    for table, columns in (
        ("_fs_stages", ("database_name", "schema_name")),
        ("_fs_file_formats", ("database_name", "schema_name")),
        ("_fs_tables_ext", ("ext_table_catalog", "ext_table_schema")),
        ("_fs_columns_ext", ("ext_table_catalog", "ext_table_schema")),
    ):
        where = " AND ".join(f"{column} = ?" for column in columns[: len(prefix)])
        engine.query(f"DELETE FROM {_KEPT}.{table} WHERE {where}", prefix)  # noqa: S608  (our own names)
    grant_table.forget(engine, "DATABASE" if schema is None else "SCHEMA", ".".join(prefix))
    pipe_table.forget(engine, ".".join(prefix))
    shutil.rmtree(engine.stages_dir.joinpath(*prefix), ignore_errors=True)


def before_replace(engine: Engine, statement: Statement) -> None:
    """A table about to be replaced loses its comment."""
    if isinstance(statement.expression, exp.Create) and statement.expression.args.get("replace"):
        _forget_comments(engine, statement)


def after_drop(engine: Engine, statement: Statement) -> None:
    """A dropped table or schema leaves nothing behind."""
    drop = statement.expression
    if not isinstance(drop, exp.Drop):
        return
    if drop.kind == "SCHEMA":
        for target in statement.targets():
            database, schema, _ = target.split(".")  # a name without a table
            forget(engine, database, schema)
    else:
        _forget_comments(engine, statement)
        for target in statement.targets():
            grant_table.forget(engine, str(drop.args.get("kind")), target)


def _forget_comments(engine: Engine, statement: Statement) -> None:
    for target in statement.targets():
        for table in ("_fs_tables_ext", "_fs_columns_ext"):
            where = "ext_table_catalog = ? AND ext_table_schema = ? AND ext_table_name = ?"
            sql = f"DELETE FROM {_KEPT}.{table} WHERE {where}"  # noqa: S608  (our own names)
            engine.query(sql, target.split(".", 2))
