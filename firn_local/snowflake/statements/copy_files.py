"""COPY INTO a table from a stage: named files, results per file, load history, one scan for many Parquet files.

Source: https://docs.snowflake.com/en/sql-reference/sql/copy-into-table. File formats and MATCH_BY_COLUMN_NAME are
fakesnow's. ON_ERROR is ABORT_STATEMENT. A file counts as loaded by its path, whatever it holds now.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from fakesnow import copy_into as fake
from fakesnow.transforms import stage
from sqlglot import Expr, exp

from firn_local.snowflake.engine import temporary_objects
from firn_local.snowflake.engine.family import Execution, Family, Handler
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import requirements
from firn_local.snowflake.sql.result_set import NUMBER, TEXT, ResultSet
from firn_local.snowflake.sql.sql_errors import TOO_LONG, sql_error, unsupported
from firn_local.snowflake.sql.statement import Statement

FILE_NOT_FOUND = (91016, "22000")
BAD_FILE = (100071, "22000")
_COLUMNS = [
    ("file", TEXT), ("status", TEXT), ("rows_parsed", NUMBER), ("rows_loaded", NUMBER), ("error_limit", NUMBER),
    ("errors_seen", NUMBER), ("first_error", TEXT), ("first_error_line", NUMBER), ("first_error_character", NUMBER),
    ("first_error_column_name", TEXT),
]  # fmt: skip


@dataclass
class Load:
    """One COPY: its statement, options, target table (with database and schema) and the files it names."""

    session: Session
    expression: exp.Copy
    options: fake.CopyParams
    table: exp.Table
    files: list[str]
    force: bool
    purge: bool

    @property
    def history(self) -> str:
        """The load history beside the target table; a temporary table's is temporary too."""
        if self.table.catalog.upper() == "TEMP":
            return temporary_objects.HISTORY
        return f'"{self.table.catalog}"._fs_information_schema._fs_load_history'

    @property
    def is_transform(self) -> bool:
        """Whether it is FROM (SELECT ...)."""
        return isinstance(self.expression.args["files"][0], exp.Subquery)


def _copy(session: Session, _: Statement, execution: Execution) -> ResultSet:
    """Load the files; answers one row a file. Raises for a missing file, a bad value, an option it lacks."""
    tree = execution.translated(execution.rewritten())
    load = _prepare(session, tree, execution.params)  # type: ignore[arg-type]  # still a Copy
    if load.history == temporary_objects.HISTORY:
        temporary_objects.make_history(session)
    if not load.files:
        return ResultSet.status("Copy executed with 0 files processed.")
    loaded_before = set() if load.force else _loaded_before(load)
    fresh = [file for file in load.files if file not in loaded_before]
    counts = _insert(load, fresh) if fresh else {}
    _remember(load, counts)
    if load.purge and session.transactions.current is not None:
        session.transactions.current.after_commit.append(lambda: _delete(fresh))
    rows = [_row(file, counts.get(file)) for file in load.files]
    return ResultSet(_COLUMNS, rows, affected=sum(counts.values()))


def _prepare(session: Session, expression: exp.Copy, params: Any) -> Load:
    if not expression.args.get("kind"):
        raise unsupported("COPY INTO <location>")
    options = fake._params(expression, params, session.duck, session.database, session.schema)
    table = fake._extract_table(expression.this)
    table.set("catalog", table.args.get("catalog") or exp.to_identifier(session.database, quoted=True))
    table.set("db", table.args.get("db") or exp.to_identifier(session.schema, quoted=True))
    source = fake._from_source(expression)
    if not source.startswith("@"):
        raise unsupported("COPY INTO from an external location")
    url = fake.stage_url_from_var(
        source[1:], session.duck, session.database, session.schema, session.table_stages, table
    )
    files = _named(url, options.files, source) if options.files else sorted(fake._source_glob(url, session.duck))
    flags = {name: _flag(expression, name) for name in ("FORCE", "PURGE")}
    return Load(session, expression, options, table, files, flags["FORCE"], flags["PURGE"])


def _named(url: str, names: list[str], source: str) -> list[str]:
    files = [f"{url.rstrip('/')}/{name}" for name in names]
    for file, name in zip(files, names, strict=True):
        if not Path(file).is_file():
            raise sql_error(
                FILE_NOT_FOUND,
                f"Remote file '{source.rstrip('/')}/{name}' was not found. There are several potential causes. The "
                "file might not exist. The required credentials may be missing or invalid.",
            )
    return files


def _flag(expression: exp.Copy, name: str) -> bool:
    """The boolean copy option `name` (fakesnow takes FORCE = FALSE for true)."""
    for param in expression.args.get("params") or []:
        if param.this.name.upper() == name:
            return isinstance(param.expression, exp.Boolean) and bool(param.expression.this)
    return False


def _loaded_before(load: Load) -> set[str]:
    where = "SCHEMA_NAME = ? AND TABLE_NAME = ? AND list_contains(?, FILE_NAME)"
    sql = f"SELECT FILE_NAME FROM {load.history} WHERE {where}"  # noqa: S608  (a name of our own)
    rows = load.session.duck.execute(sql, [load.table.db, load.table.name, load.files]).fetchall()
    return {row[0] for row in rows}


def _insert(load: Load, files: list[str]) -> dict[str, int]:
    """Insert the files' rows; rows by file."""
    try:
        if load.is_transform and isinstance(load.options.file_format, fake.ReadParquet):
            return _insert_in_one_scan(load, files)
        inserts = fake._inserts(load.expression, load.options, files, _parquet_info(load, files))
        return {file: _execute(load, insert) for file, insert in zip(files, inserts, strict=True)}
    except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.IOException) as error:
        raise _blame(load, files, error) from error


def _insert_in_one_scan(load: Load, files: list[str]) -> dict[str, int]:
    insert = fake._inserts(load.expression, load.options, files[:1])[0]
    insert.expression.find(exp.Table).replace(_scan(files))
    counted = load.session.duck.execute("SELECT file_name, num_rows FROM parquet_file_metadata(?)", [files]).fetchall()
    _execute(load, insert)
    return {str(name): int(rows) for name, rows in counted}


def _scan(files: list[str]) -> exp.Table:
    literals = [fake.FileTypeHandler.file_literal(file) for file in files]
    return exp.Table(this=exp.func("read_parquet", exp.array(*literals)))


def _execute(load: Load, insert: Expr) -> int:
    return int(load.session.duck.execute(insert.sql(dialect="duckdb")).fetchall()[0][0])


def _parquet_info(load: Load, files: list[str]) -> fake.ParquetLoadInfo | None:
    """What fakesnow needs to know to load Parquet without a SELECT."""
    if load.is_transform or not isinstance(load.options.file_format, fake.ReadParquet):
        return None
    conn, database, schema = load.session.duck, load.table.catalog, load.table.db
    names = {file: fake._get_parquet_column_names(file, conn) for file in files}
    if load.options.match_by_column_name is not fake.MatchByColumnName.NONE:
        return fake.ParquetLoadInfo(names, target_columns=fake._get_table_columns(load.table, conn, database, schema))
    columns = fake._describe_table(load.table, conn, database, schema)
    if [kind for _, kind in columns] != ["JSON"]:
        raise sql_error(
            (2019, "0A000"),
            "SQL compilation error:\nPARQUET file format can produce one and only one column of type variant, object, "
            "or array. Load data into separate columns using the MATCH_BY_COLUMN_NAME copy option or copy with "
            "transformation.",
        )
    return fake.ParquetLoadInfo(names, is_single_variant=True)


def _blame(load: Load, files: list[str], error: duckdb.Error) -> Exception:
    """The error with the name of the file that caused it: each is read alone, outside the failed transaction."""
    reason = str(error.args[0]).split("\n", 1)[0]
    with load.session.store.duck_conn.cursor() as conn:
        for file in files:
            select = fake._inserts(load.expression, load.options, [file], None)[0].expression
            try:
                conn.execute(f"SELECT count(COLUMNS(*)) FROM ({select.sql(dialect='duckdb')})")  # noqa: S608
            except duckdb.Error:
                name = stage.internal_file_name(file)
                code = TOO_LONG if "is too long and would be truncated" in reason else BAD_FILE
                return sql_error(code, f"{reason}\n  File '{name}', ON_ERROR = ABORT_STATEMENT: nothing was loaded.")
    return error


def _remember(load: Load, counts: dict[str, int]) -> None:
    now = datetime.datetime.now(datetime.UTC)
    rows = [
        [load.table.db, file, load.table.name, now, "LOADED", n, n, None, None, None, None, 0, 1]
        for file, n in counts.items()
    ]
    if rows:
        sql = f"INSERT INTO {load.history} VALUES ({', '.join('?' * 13)})"  # noqa: S608  (a name of our own)
        load.session.duck.executemany(sql, rows)


def _row(file: str, count: int | None) -> tuple[Any, ...]:
    name = stage.internal_file_name(file)
    if count is None:
        return (name, "LOAD_SKIPPED", 0, 0, None, 1, "File was loaded before.", None, None, None)
    return (name, "LOADED", count, count, 1, 0, None, None, None, None)


def _delete(files: list[str]) -> None:
    for file in files:
        Path(file).unlink(missing_ok=True)


FAMILY = Family(handlers={(exp.Copy, ""): Handler(_copy, requirements.to_copy)})
