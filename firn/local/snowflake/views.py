"""fakesnow's catalog views where they differ from Snowflake in what Firn or dbt reads. Run at every start."""

from __future__ import annotations

from fakesnow import info_schema
from fakesnow.transforms import show

_INTEGERS = "('BIGINT', 'INTEGER', 'SMALLINT', 'TINYINT', 'HUGEINT', 'UBIGINT')"

# Every DuckDB integer is Snowflake's NUMBER(38,0): CREATE TABLE AS SELECT 1 makes an INTEGER column.
_COLUMNS = info_schema.SQL_CREATE_GLOBAL_INFORMATION_SCHEMA_COLUMNS_VIEW.replace(
    "columns.data_type='BIGINT'", f"columns.data_type in {_INTEGERS}"
)

# SHOW TABLES with its comments and row counts; without temporary tables of other sessions and fakesnow's own schemas.
_TABLES = (
    show.SQL_CREATE_VIEW_SHOW_TABLES.replace("'' as comment", "coalesce(ext.comment, '') as comment")
    .replace("0 as rows", "counted.estimated_size as rows")
    .replace(
        "from information_schema.tables",
        """from information_schema.tables
left join _fs_global._fs_information_schema._fs_tables_ext ext
  on ext_table_catalog = table_catalog and ext_table_schema = table_schema and ext_table_name = table_name
left join duckdb_tables() counted
  on counted.database_name = table_catalog and counted.schema_name = table_schema
 and counted.table_name = tables.table_name""",
    )
    .replace("    table_name as name", "    tables.table_name as name")
)

REPLACED = [view.replace("create view if not exists", "create or replace view") for view in (_COLUMNS, _TABLES)]
