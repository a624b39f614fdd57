"""What a pipe does with its rows, as DuckDB's SQL over a relation of JSON texts: the default pipe's and a SELECT's.

The default pipe matches the first-level keys of a row to columns by name, in any case; other keys are ignored, and a
column without a key is NULL, whatever its default. A pipe with a SELECT is a COPY statement whose source is
TABLE(DATA_SOURCE(TYPE => 'STREAMING')); it is translated as any query is. Source:
https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-pipe-object and the CREATE PIPE page.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb
from sqlglot import Expr, exp

from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.privileges.role_grants import ADMIN
from firn_local.snowflake.sql import parsing
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.table_annotations import KnownColumn
from firn_local.snowflake.streaming import value_casts
from firn_local.snowflake.streaming.pipes import Pipe
from firn_local.snowflake.streaming.protocol_errors import INVALID_PIPE, ProtocolError

ROWS = "streamed_rows"
"""The relation that a plan reads: `batch`, `position` (both numbers) and `line`, a JSON text."""
_LINE = "line"
# json() leaves no blanks: where a row is stored as a whole.
_COMPACT = f"(SELECT batch, position, json({_LINE}) AS {_LINE} FROM {ROWS}) AS {ROWS}"  # noqa: S608


@dataclass(frozen=True)
class Plan:
    """How rows get into a table.

    `checks` are the values as TRY may evaluate them: without defaults. `nulls`: (column, whether a row leaves it NULL),
    for columns that are NOT NULL.
    """

    target: str
    columns: tuple[str, ...]
    values: tuple[str, ...]
    checks: tuple[str, ...]
    source: str = ROWS
    condition: str | None = None
    nulls: tuple[tuple[str, str], ...] = ()

    @property
    def insert(self) -> str:
        """Insert every row; the first value that cannot be fails it as a whole."""
        return f"INSERT INTO {self.target} ({', '.join(self.columns)}) {self.select}"

    @property
    def select(self) -> str:
        """The values of every row."""
        where = f" WHERE {self.condition}" if self.condition else ""
        return f"SELECT {', '.join(self.values)} FROM {self.source}{where}"  # noqa: S608

    @property
    def kept(self) -> str:
        """(batch, rows that the condition keeps)."""
        return f"SELECT batch, count(*) FROM {self.source} WHERE {self.condition} GROUP BY batch"  # noqa: S608

    @property
    def rejected(self) -> str:
        """(batch, position) of every row with a value that cannot be. Never fails for what is in a row."""
        condition = self.condition or "true"
        # hash() makes DuckDB compute every value; TRY makes NULL of the first that fails.
        values = f"TRY(CASE WHEN {condition} THEN hash({', '.join(self.checks)}) ELSE 0 END) IS NULL"
        nulls = "".join(f" OR coalesce(TRY(({condition}) AND ({null})), false)" for _, null in self.nulls)
        return f"SELECT batch, position FROM {self.source} WHERE {values}{nulls}"  # noqa: S608


def by_name(target: str, columns: Sequence[KnownColumn], keys: Iterable[str]) -> Plan:
    """The plan of a default pipe for rows that have these keys."""
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for key in sorted(keys):
        spellings[key.lower()].append(key)
    matched = [(column, spellings[column.name.lower()]) for column in columns if column.name.lower() in spellings]
    names = {column.name for column, _ in matched}
    left = [column for column in columns if column.name not in names]
    left_null = tuple((column.name, "true") for column in left if not column.nullable)
    if not matched:
        return Plan(target, _names(columns), ("NULL",) * len(columns), ("NULL",), nulls=left_null)
    structure = json.dumps({keys[0]: "JSON" for _, keys in matched if len(keys) == 1}, ensure_ascii=False)
    fields = f"json_transform({_LINE}, {_literal(structure)})" if structure != "{}" else "NULL"
    values, nulls = [], []
    for column, keys_of_it in matched:
        value = value_casts.cast(_field(keys_of_it), column)
        if not column.nullable:
            nulls.append((column.name, f"({value}) IS NULL"))
        values.append(value)
    return Plan(
        target,
        _names([*(column for column, _ in matched), *left]),
        (*values, *["NULL"] * len(left)),
        tuple(values),
        source=f"(SELECT batch, position, {_LINE}, {fields} AS fields FROM {ROWS}) AS streamed",  # noqa: S608
        nulls=(*nulls, *left_null),
    )


def _names(columns: Sequence[KnownColumn]) -> tuple[str, ...]:
    return tuple(_quoted(column.name) for column in columns)


def selected(snowflake: LocalSnowflake, pipe: Pipe, columns: Sequence[KnownColumn]) -> Plan:
    """The plan of a pipe with a SELECT. Raises ProtocolError where it cannot be understood."""
    copy = parsing.parse(pipe.copy or "")
    insert = _as_insert(copy, pipe)
    session = snowflake.session("SNOWFLAKE", ADMIN)
    try:
        session.use(pipe.database, pipe.schema)
        with snowflake.statement(session) as cursor:
            translated = cursor.translation(insert)
    except Exception as error:
        raise _invalid(pipe, str(getattr(error, "raw_msg", None) or error)) from error
    finally:
        session.close()
    names = _columns_of(translated, columns)
    return _plan_of(pipe, translated.expression, names, columns)


def check(snowflake: LocalSnowflake, pipe: Pipe) -> None:
    """Raise ProtocolError where the SELECT of a pipe cannot be evaluated over its table as it is."""
    with snowflake.account.store.duck_conn.cursor() as conn:
        columns = table_annotations.columns(conn, pipe.place)
        plan = selected(snowflake, pipe, columns)
        conn.execute(f"SET schema = '{pipe.database}.{pipe.schema}'")
        conn.execute(f"CREATE TEMP TABLE {ROWS} (batch INTEGER, position BIGINT, {_LINE} VARCHAR)")
        try:
            conn.execute(f"EXPLAIN {plan.insert}")
        except duckdb.Error as error:
            raise _invalid(pipe, str(error).split("\n", 1)[0]) from error


def matches_by_name(pipe: Pipe) -> bool:
    """Whether its rows go to columns by their keys: a default pipe, or a COPY without a SELECT."""
    if pipe.copy is None:
        return True
    files = parsing.parse(pipe.copy).args.get("files") or []
    return not any(isinstance(source, exp.Subquery) for source in files)


def _as_insert(copy: Expr, pipe: Pipe) -> exp.Insert:
    """`INSERT INTO <table> SELECT ...` over the relation of rows; `$1` is the whole row."""
    source = (copy.args.get("files") or [None])[0]
    select = source.unnest() if isinstance(source, exp.Subquery) else None
    if (
        not isinstance(select, exp.Select)
        or not isinstance(_from(select), exp.TableFromRows)
        or select.args.get("joins")
    ):
        raise _invalid(pipe, "it is no SELECT from TABLE(DATA_SOURCE(TYPE => 'STREAMING')) alone")
    select = select.copy()
    for parameter in list(select.find_all(exp.Parameter)):
        if parameter.name != "1":
            raise _invalid(pipe, f"a streamed row is $1 as a whole, so there is no ${parameter.name}")
        qualified = parameter.parent if isinstance(parameter.parent, exp.Column) else parameter
        qualified.replace(exp.column(_LINE))
    select.args["from_"].set("this", exp.to_table(ROWS))
    database, schema, name = pipe.place
    table = exp.table_(name, db=schema, catalog=database, quoted=True)
    given = copy.this.expressions if isinstance(copy.this, exp.Schema) else []
    target = exp.Schema(this=table, expressions=[each.copy() for each in given]) if given else table
    return exp.Insert(this=target, expression=select)


def _from(select: exp.Select) -> Expr | None:
    clause = select.args.get("from_")
    table = clause.this if clause is not None else None
    return table.this if isinstance(table, exp.Table) and isinstance(table.this, exp.TableFromRows) else table


def _columns_of(insert: Expr, columns: Sequence[KnownColumn]) -> list[str]:
    given = [each.name for each in insert.this.expressions] if isinstance(insert.this, exp.Schema) else []
    return given or [column.name for column in columns]


def _plan_of(pipe: Pipe, select: exp.Query, names: list[str], columns: Sequence[KnownColumn]) -> Plan:
    values = [_sql(each.unalias()) for each in select.selects]
    if len(values) != len(names):
        raise _invalid(pipe, f"it selects {len(values)} values for {len(names)} columns")
    by_key = {column.name.lower(): column for column in columns}
    if unknown := [name for name in names if name.lower() not in by_key]:
        raise _invalid(pipe, f"table {pipe.table} has no column {', '.join(unknown)}")
    targets = [by_key[name.lower()] for name in names]
    given = [(c.name, f"({value}) IS NULL") for c, value in zip(targets, values, strict=True) if not c.nullable]
    where = select.args.get("where")
    return Plan(
        table_annotations.quoted(pipe.place),
        tuple(_quoted(column.name) for column in targets),
        tuple(values),
        tuple(values),
        source=_COMPACT if any(value.lower() == _LINE for value in values) else ROWS,
        condition=_sql(where.this) if where is not None else None,
        nulls=(*given, *_left_null(columns, {column.name for column in targets})),
    )


def _sql(expression: Expr) -> str:
    """In DuckDB's words, with errors that TRY can catch."""
    tree = expression.copy()
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.lower() == "error":
            reason = call.expressions[0].sql(dialect="duckdb")
            refusal: Expr = exp.maybe_parse(value_casts.refusal(f"({reason})"), dialect="duckdb")
            if call is tree:
                tree = refusal
            else:
                call.replace(refusal)
    return tree.sql(dialect="duckdb")


def _left_null(columns: Sequence[KnownColumn], filled: set[str]) -> tuple[tuple[str, str], ...]:
    """NOT NULL columns that no row fills and no default either."""
    return tuple((c.name, "true") for c in columns if not (c.nullable or c.duck_default or c.name in filled))


def _field(keys: list[str]) -> str:
    """The value under a key; where rows spell it differently, the first spelling that a row has."""
    if len(keys) == 1:
        return f"fields.{_quoted(keys[0])}"
    each = [f"json_transform({_LINE}, {_literal(json.dumps({key: 'JSON'}))}).{_quoted(key)}" for key in keys]
    return f"coalesce({', '.join(each)})"


def _path(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return _literal(f'$."{escaped}"')


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))


def _invalid(pipe: Pipe, reason: str) -> ProtocolError:
    return ProtocolError(400, INVALID_PIPE, f"The definition of pipe {pipe.full_name} cannot be used: {reason}")
