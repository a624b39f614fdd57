"""fakesnow's catalog views where they differ from Snowflake in what Firn or dbt reads. Run at every start."""

from __future__ import annotations

from fakesnow import info_schema
from fakesnow.transforms import show

_NOTED = "json_extract_string(try_cast(ddb_columns.comment as json), '$.{}')"
_INTEGERS = "('BIGINT', 'INTEGER', 'SMALLINT', 'TINYINT', 'HUGEINT', 'UBIGINT')"

# Every DuckDB integer is Snowflake's NUMBER(38,0): CREATE TABLE AS SELECT 1 makes an INTEGER column.
# What a column's annotation says goes before what DuckDB knows.
_COLUMNS = (
    info_schema.SQL_CREATE_GLOBAL_INFORMATION_SCHEMA_COLUMNS_VIEW.replace(
        "columns.data_type='BIGINT'", f"columns.data_type in {_INTEGERS}"
    )
    .replace(
        "case when starts_with(columns.data_type, 'DECIMAL')",
        f"case when {_NOTED.format('type')} like 'VARCHAR(%' then 'TEXT' when {_NOTED.format('type')} is not null "
        f"then split_part({_NOTED.format('type')}, '(', 1) when starts_with(columns.data_type, 'DECIMAL')",
    )
    .replace(
        "ext_character_maximum_length as",
        rf"coalesce(try_cast(regexp_extract({_NOTED.format('type')}, '^VARCHAR\((\d+)\)', 1) as integer), "
        "ext_character_maximum_length) as",
    )
    .replace("columns.column_default AS", f"coalesce({_NOTED.format('default')}, columns.column_default) AS")
    .replace("ddb_columns.comment as COMMENT", f"{_NOTED.format('comment')} as COMMENT")
)

_TABLE_NOTED = "json_extract_string(try_cast(counted.comment as json), '$.{}')"
_FLAG = f"case when {_TABLE_NOTED} = 'true' then 'Y' else 'N' end"

# SHOW TABLES with its comments and row counts; without temporary tables of other sessions and fakesnow's own schemas.
_TABLES = (
    show.SQL_CREATE_VIEW_SHOW_TABLES.replace("'' as comment", "coalesce(ext.comment, '') as comment")
    .replace("0 as rows", "counted.estimated_size as rows")
    .replace("'TABLE' as kind", f"coalesce({_TABLE_NOTED.format('kind')}, 'TABLE') as kind")
    .replace("'' as cluster_by", f"coalesce({_TABLE_NOTED.format('cluster_by')}, '') as cluster_by")
    .replace("'N' as enable_schema_evolution", f"{_FLAG.format('evolves')} as enable_schema_evolution")
    .replace(
        "'OFF' as change_tracking",
        "case when counted.comment like '%\"tracked\"%' then 'ON' else 'OFF' end as change_tracking",
    )
    .replace("'N' as is_immutable", f"'N' as is_immutable, {_FLAG.format('interactive')} as is_interactive")
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

# INFORMATION_SCHEMA.TABLES with views, owners, transient tables and clustering keys; fakesnow has base tables alone.
_RELATIONS = """(
  select database_name, schema_name, table_name, 'BASE TABLE' as kind, comment, estimated_size from duckdb_tables()
  where not temporary
  union all select database_name, schema_name, view_name, 'VIEW', comment, null from duckdb_views() where not internal
) tables left join _fs_global._firn.grants owned on owned.privilege = 'OWNERSHIP'
  and owned.granted_on in ('TABLE', 'VIEW')
  and owned.name = tables.database_name || '.' || tables.schema_name || '.' || tables.table_name"""
_RELATION_NOTED = "json_extract_string(try_cast(tables.comment as json), '$.{}')"


def tables_of(database: str) -> str:
    """The view INFORMATION_SCHEMA.TABLES of a database."""
    noted = _RELATION_NOTED
    return (
        info_schema.SQL_CREATE_INFORMATION_SCHEMA_TABLES_VIEW.substitute(catalog=f'"{database}"')
        .replace("create view if not exists", "create or replace view")
        .replace(f"'\"{database}\"'", f"'{database}'")
        .replace("from duckdb_tables tables", f"from {_RELATIONS}")
        .replace("'SYSADMIN' AS \"TABLE_OWNER\"", 'owned.grantee AS "TABLE_OWNER"')
        .replace("'BASE TABLE' AS \"TABLE_TYPE\"", 'tables.kind AS "TABLE_TYPE"')
        .replace(
            "'NO' AS \"IS_TRANSIENT\"", f"if({noted.format('kind')} = 'TRANSIENT', 'YES', 'NO') AS \"IS_TRANSIENT\""
        )
        .replace('NULL::VARCHAR AS "CLUSTERING_KEY"', f'{noted.format("cluster_by")} AS "CLUSTERING_KEY"')
    )


REPLACED = [view.replace("create view if not exists", "create or replace view") for view in (_COLUMNS, _TABLES)]
