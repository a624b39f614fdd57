"""dbt's YAML of generated models: descriptions, types, contracts, and the tests that follow from the schema.

Formats: https://docs.getdbt.com/reference/model-properties and .../source-properties. An enum gives accepted_values, a
field that is never null not_null. Not for SQL (`sql`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from firn.modelling.columns import Column, Table
from firn.modelling.overrides import Overrides
from firn.modelling.sql import Names, data_type
from firn.snowflake.identifiers import quoted, stored

_RECORD = {
    "topic": ("varchar", "Kafka topic."),
    "partition": ("number(38, 0)", "Kafka partition, from 0."),
    "offset": ("number(38, 0)", "Offset in the partition. Topic, partition and offset identify the record."),
    "kafka_timestamp": (
        "timestamp_ntz",
        "The record's Kafka timestamp, CreateTime or LogAppendTime (message.timestamp.type of the topic), in UTC.",
    ),
    "pushed_at": ("timestamp_ntz", "Time when the sink converted the record (SnowflakeConnectorPushTime), in UTC."),
    "record_key": ("varchar", "The record's key as text; null if it has none."),
    "schema_id": ("number(38, 0)", "Id of the value's schema in the registry; 0 for a tombstone."),
    "headers": ("variant", "The record's headers, an object; null if it has none."),
    "is_tombstone": ("boolean", "Whether the record has no value."),
    "loaded_at": ("timestamp_ntz", "Start of the run that wrote the row, in UTC."),
}
_NEVER_NULL = {"topic", "partition", "offset", "loaded_at"}
_RECENT = "(pushed_at is null or pushed_at >= dateadd(day, -{{ var('firn_test_days', 3) }}, sysdate()))"
_WIDTH = 200
_METADATA_DOC = (
    "topic, partition, offset, CreateTime or LogAppendTime, SnowflakeConnectorPushTime (all times in Unix "
    "milliseconds), key, schema_id, headers."
)
_CONTENT_DOC = "The record's value; {} for a tombstone (a record without a value)."


def source_yaml(names: Names, table: str, place: tuple[str, str], overrides: Overrides) -> str:
    """The source: the sink's table, fresh by the time of its newest row. place: database and schema of the table."""
    (database, schema), freshness = place, overrides.freshness
    entry: dict[str, Any] = {"name": names.table, "description": f"Records of {names.subject}, filled by a Firn sink."}
    if quoted(table) != stored(table) or stored(table).lower() != names.table:
        entry |= {"identifier": stored(table), "quoting": {"identifier": True}}
    if freshness is not None:
        pushed = "to_timestamp_ntz(record_metadata:SnowflakeConnectorPushTime::number(38, 0), 3)"
        entry["config"] = {"loaded_at_field": pushed, "freshness": dict(freshness)}
    entry["columns"] = [{"name": "record_metadata", "description": _METADATA_DOC}]
    if not overrides.typed_columns:
        entry["columns"].append({"name": "record_content", "description": _CONTENT_DOC})
    source = {
        "name": names.source,
        "description": "Tables that Kafka sinks fill.",
        "database": f"{{{{ env_var('FIRN_DBT_SOURCE_DATABASE', '{database}') }}}}",
        "schema": f"{{{{ env_var('FIRN_DBT_SOURCE_SCHEMA', '{schema}') }}}}",
        "tables": [entry],
    }
    return _dumped({"version": 2, "sources": [source]})


def staging_yaml(tables: Iterable[Table], names: Names) -> str:
    """The staging views, with a test for each thing that the schema promises."""
    return _dumped({"version": 2, "models": [_staging(table, names) for table in tables]})


def mart_yaml(tables: Iterable[Table], names: Names) -> str:
    """The marts, each under an enforced contract."""
    return _dumped({"version": 2, "models": [_mart(table, names) for table in tables]})


def _staging(table: Table, names: Names) -> dict[str, Any]:
    metadata = ("topic", "partition", "offset", "pushed_at") if table.flattened else tuple(_RECORD)[:-1]
    alive = _RECENT if table.flattened else f"not is_tombstone and {_RECENT}"
    columns = [_record_column(name) for name in metadata] + [_key_column(*each) for each in _keys(table)]
    return {
        "name": names.staging(table),
        "description": f"{_what(table, names)}, one column per field. Repeated records are still here.",
        "columns": columns + [_column(each) | _tests(each, alive) for each in table.columns],
    }


def _mart(table: Table, names: Names) -> dict[str, Any]:
    metadata = tuple(name for name in _RECORD if name not in ("headers", "is_tombstone", "loaded_at"))
    if table.flattened:
        metadata = ("topic", "partition", "offset", "pushed_at")
    columns = [_record_column(name) | _required(name in _NEVER_NULL) for name in metadata]
    columns += [_key_column(*each) | _required(True) for each in _keys(table)]
    columns += [_column(each) | _required(not each.nullable) for each in table.columns]
    columns.append(_record_column("loaded_at") | _required(True))
    tests: list[Any] = [
        {"firn_unique_combination": {"arguments": {"columns": ["topic", "partition", "offset", *table.keys]}}}
    ]
    if not table.flattened:
        staging = f"ref('{names.staging(table)}')"
        tests.append({"firn_holds_every_record": {"arguments": {"staging": staging}}})
    return {
        "name": names.mart(table),
        "description": f"{_what(table, names)} once, typed. Incremental. Tombstones are left out.",
        "config": {"contract": {"enforced": True}},
        "data_tests": tests,
        "columns": columns,
    }


def _what(table: Table, names: Names) -> str:
    if not table.flattened:
        return f"Every record of {names.subject}"
    doc = f" ({_plain(table.doc).rstrip('.')})" if table.doc else ""
    return f"Every item of {table.suffix.lstrip('_').replace('__', ' within ')}{doc} in the records of {names.subject}"


def _keys(table: Table) -> list[tuple[str, bool, str]]:
    return [(each.key, each.is_map, each.alias) for each in table.flattened]


def _record_column(name: str) -> dict[str, Any]:
    type, doc = _RECORD[name]
    return {"name": name, "description": doc, "data_type": type}


def _key_column(name: str, is_map: bool, alias: str) -> dict[str, Any]:
    if is_map:
        return {"name": name, "description": f"Key of the entry of {alias}.", "data_type": "varchar"}
    return {"name": name, "description": f"Position in {alias}, from 0.", "data_type": "number(38, 0)"}


def _column(column: Column) -> dict[str, Any]:
    doc = _plain(column.doc) or f"Field {column.field} of the record."
    return {"name": column.name, "description": doc, "data_type": data_type(column.type)}


def _tests(column: Column, alive: str) -> dict[str, Any]:
    tests: list[Any] = []
    if not column.nullable:
        tests.append({"not_null": {"config": {"where": alive}}})
    if column.type.symbols:
        values = {"values": list(column.type.symbols)}
        tests.append({"accepted_values": {"arguments": values, "config": {"where": alive}}})
    return {"data_tests": tests} if tests else {}


def _required(required: bool) -> dict[str, Any]:
    return {"constraints": [{"type": "not_null"}]} if required else {}


def _plain(text: str) -> str:
    """A text that dbt's template language leaves alone."""
    for sign in ("{{", "{%", "{#"):
        text = text.replace(sign, f"{sign[0]} {sign[1]}")
    return text


def _dumped(document: Mapping[str, Any]) -> str:
    text: str = yaml.dump(dict(document), Dumper=_Indented, sort_keys=False, width=_WIDTH, allow_unicode=True)
    return text


class _Indented(yaml.SafeDumper):
    """Writes the items of lists further in than what holds them, as people do."""

    def increase_indent(self, flow: bool = False, *_: object, **__: object) -> None:
        """PyYAML's hook: it would ask for no indent where a list begins."""
        super().increase_indent(flow, indentless=False)
