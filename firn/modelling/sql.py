"""The SQL of generated models: a staging view over the sink's table, and an incremental mart over the view.

Grammar: https://docs.snowflake.com/en/user-guide/querying-semistructured (paths, casts),
https://docs.snowflake.com/en/sql-reference/functions/flatten (LATERAL FLATTEN) and the pages of the conversion
functions. Not for dbt's YAML (`properties`), nor for which columns there are (`columns`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from firn.errors import ConfigError
from firn.modelling.columns import Column, Flattened, Table
from firn.modelling.description import Kind, Record, Scalar, Type
from firn.snowflake.identifiers import quoted, stored, text_literal

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CASTS = {
    Kind.BOOLEAN: "{0}::boolean",
    Kind.INTEGER: "{0}::number(38, 0)",
    Kind.FLOAT: "{0}::float",
    Kind.TEXT: "{0}::varchar",
    Kind.BINARY: "to_binary({0}::varchar, 'BASE64')",
    Kind.DATE: "to_date(left({0}::varchar, 10), 'YYYY-MM-DD')",
    Kind.TIME: "to_time(left({0}::varchar, 12), 'HH24:MI:SS.FF3')",
    Kind.TIME_MICROS: "to_time(to_timestamp_ntz({0}::number(38, 0), 6))",
    Kind.TIMESTAMP_SECONDS: "to_timestamp_ntz({0}::number(38, 0), 0)",
    Kind.TIMESTAMP_MILLIS: "to_timestamp_ntz({0}::number(38, 0), 3)",
    Kind.TIMESTAMP_MICROS: "to_timestamp_ntz({0}::number(38, 0), 6)",
    Kind.TIMESTAMP_NANOS: "to_timestamp_ntz({0}::number(38, 0), 9)",
    Kind.TIMESTAMP_TEXT: "convert_timezone('UTC', {0}::varchar::timestamp_tz)::timestamp_ntz",
    Kind.VARIANT: "{0}",
}
_TYPES = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "number(38, 0)",
    Kind.FLOAT: "float",
    Kind.TEXT: "varchar",
    Kind.BINARY: "binary",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.TIME_MICROS: "time",
    Kind.VARIANT: "variant",
}
_METADATA = {
    "topic": "records.record_metadata:topic::varchar",
    "partition": "records.record_metadata:partition::number(38, 0)",
    "offset": "records.record_metadata:offset::number(38, 0)",
    "kafka_timestamp": "to_timestamp_ntz(\n"
    "        coalesce(records.record_metadata:CreateTime, records.record_metadata:LogAppendTime)::number(38, 0), 3\n"
    "    )",
    "pushed_at": "to_timestamp_ntz(records.record_metadata:SnowflakeConnectorPushTime::number(38, 0), 3)",
    "record_key": "records.record_metadata:key::varchar",
    "schema_id": "records.record_metadata:schema_id::number(38, 0)",
    "headers": "records.record_metadata:headers",
}
_KEY = ("topic", "partition", "offset")
_BELOW = (*_KEY, "pushed_at")


@dataclass(frozen=True)
class Names:
    """What the models of a subject are called. source, table: dbt's source of the sink's table; tag: of all models."""

    subject: str
    base: str
    source: str
    table: str

    def staging(self, table: Table) -> str:
        """The staging view of a table."""
        return f"stg_{self.base}{table.suffix}"

    def mart(self, table: Table) -> str:
        """The mart of a table."""
        return f"fct_{self.base}{table.suffix}"


def data_type(type: Scalar) -> str:
    """The type of a column in Snowflake, as a contract names it."""
    if type.kind is Kind.DECIMAL:
        return f"number({type.precision}, {type.scale})"
    return _TYPES.get(type.kind, "timestamp_ntz")


def staging_sql(table: Table, names: Names, value: Type, *, typed: bool) -> str:
    """The view: one row for each loaded record (or item in one), tombstones and repeated records included.

    value: the type of the records' values. typed: whether the table has a column for each first-level field.
    """
    whole = _Source(typed)
    if table.flattened:
        metadata = [f"{_METADATA[name]} as {name}" for name in _BELOW]
        keys = [f"{each.alias}.{'key' if each.is_map else 'index'} as {each.key}" for each in table.flattened]
        start = f"{table.flattened[-1].alias}.value"
        columns = [f"{_cast(column, _path(start, column.steps))} as {column.name}" for column in table.columns]
        lines = [*metadata, *keys, *columns]
    else:
        metadata = [f"{expression} as {name}" for name, expression in _METADATA.items()]
        tombstone = f"{_tombstone(value, typed=typed)} as is_tombstone"
        lines = [*metadata, tombstone, *(f"{whole.column(column)} as {column.name}" for column in table.columns)]
    joins = "".join(_flatten(each, above, whole) for each, above in _with_above(table.flattened))
    return (
        f"{{{{ config(materialized='view', tags=['firn', '{names.base}']) }}}}\n\n"
        f"{_remark(table)}select\n{_listed(lines)}\n"
        f"from {{{{ source('{names.source}', '{names.table}') }}}} as records{joins}\n"
    )


def mart_sql(table: Table, names: Names) -> str:
    """The incremental table: every record (or item in one) once, typed, tombstones left out."""
    key = [*_KEY, *table.keys]
    copied = [*_record_columns(table), *table.keys, *(column.name for column in table.columns)]
    lines = [*(f"events.{name}" for name in copied), "{{ firn_loaded_at() }} as loaded_at"]
    alive = "" if table.flattened else "not events.is_tombstone\n    and "
    partition = ", ".join(f"events.{name}" for name in key)
    listed = f"[{', '.join(repr(name) for name in key)}]"
    return (
        "{{\n    config(\n        materialized='incremental',\n        incremental_strategy='merge',\n"
        f"        unique_key={listed},\n"
        f"        on_schema_change='append_new_columns',\n        tags=['firn', '{names.base}']\n    )\n}}}}\n"
        "{% set since = firn_since() %}\n\n"
        f"select\n{_listed(lines)}\n"
        f"from {{{{ ref('{names.staging(table)}') }}}} as events\n"
        f"{{{{ firn_held(since, {listed}) }}}}\n"
        f"where\n    {alive}{{{{ firn_new_rows(since) }}}}\n"
        "-- Of a record that was written more than once, its newest copy.\n"
        f"qualify\n    row_number() over (\n        partition by {partition}\n"
        "        order by events.pushed_at desc nulls last\n    ) = 1\n"
    )


def _record_columns(table: Table) -> tuple[str, ...]:
    if table.flattened:
        return _BELOW
    return tuple(name for name in _METADATA if name != "headers")


@dataclass(frozen=True)
class _Source:
    """The sink's table: RECORD_CONTENT, or a column for each first-level field."""

    typed: bool

    def column(self, column: Column) -> str:
        """A column's expression."""
        native = self.typed and len(column.steps) == 1 and column.type.native
        path = self.path(column.steps)
        return f"{path}::{data_type(column.type)}" if native else _cast(column, path)

    def path(self, steps: tuple[str | int, ...]) -> str:
        """The way to a value of a record."""
        if not self.typed or not steps:
            return _path("records.record_content", steps)
        first = str(steps[0])
        name = first.lower() if quoted(first) == stored(first) else f'"{first.upper()}"'
        return _path(f"records.{name}", steps[1:])


def _cast(column: Column, path: str) -> str:
    if column.type.kind is Kind.DECIMAL:
        return f"{path}::{data_type(column.type)}"
    return _CASTS[column.type.kind].format(path)


def _path(start: str, steps: Iterable[str | int]) -> str:
    """A path into a VARIANT: names after a colon and dots, what is no plain name in brackets. Names keep their case."""
    found, colon = start, False
    for step in steps:
        if "{{" in str(step) or "{%" in str(step) or "{#" in str(step):
            raise ConfigError(
                "A field's name has signs of dbt's template language.",
                where=str(step),
                next_step="Leave it out: in the overrides, give it `skip: true`.",
            )
        if isinstance(step, int):
            found += f"[{step}]"
        elif not _NAME.fullmatch(step) or quoted(step) != stored(step):
            found += f"[{text_literal(step)}]"
        else:
            found, colon = f"{found}{'.' if colon else ':'}{step}", True
    return found


def _flatten(each: Flattened, above: Flattened | None, whole: _Source) -> str:
    source = _path(f"{above.alias}.value", each.steps) if above else whole.path(each.steps)
    return f",\n    lateral flatten(input => {source}) as {each.alias}"


def _with_above(flattened: tuple[Flattened, ...]) -> list[tuple[Flattened, Flattened | None]]:
    return list(zip(flattened, (None, *flattened), strict=False))


def _tombstone(value: Type, *, typed: bool) -> str:
    """Whether the record had no value: the sink writes `{}` and schema id 0 for it."""
    if isinstance(value, Record) and not typed:
        return "coalesce(array_size(object_keys(records.record_content)), 0) = 0"
    return "coalesce(records.record_metadata:schema_id::number(38, 0), 0) = 0"


def _remark(table: Table) -> str:
    what = "item of a record" if table.flattened else "loaded record"
    return f"-- One row per {what}: repeated records{'' if table.flattened else ' and tombstones'} are still here.\n"


def _listed(lines: Iterable[str]) -> str:
    return ",\n".join(f"    {line}" for line in lines)
