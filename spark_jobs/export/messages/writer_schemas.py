"""Schemas that fastavro writes a record by faster, byte for byte as by the registered one.

Two things cost it most: it tries the branches of a union, and it looks at each value of a logical type. Here values are
counts and bytes already, and a value that is None says its branch. A union is written as the number of its branch and
then the value (https://avro.apache.org/docs/1.12.0/specification/#unions-1): for each set of fields that are null there
is a schema of pairs, an int whose default is the branch, and the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fastavro

_MOST = 256
"""Sets of null fields that schemas are kept for; rows with any other are written by the registered one."""
_PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")


class WriterSchemas:
    """The schemas to write the records of one registered schema by, which is one of `avro_schema`. For one thread."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        physical = _physical(schema)
        self._fields: list[dict[str, Any]] = physical["fields"]
        self._nullable = [field["name"] for field in self._fields if _is_nullable(field["type"])]
        self._schema = fastavro.parse_schema(physical)
        self._by_nulls: dict[tuple[bool, ...], Any] = {}

    def of(self, record: Mapping[str, Any]) -> Any:
        """The parsed schema to write this record by."""
        nulls = tuple([record[name] is None for name in self._nullable])
        found = self._by_nulls.get(nulls)
        if found is not None:
            return found
        if not nulls or len(self._by_nulls) >= _MOST:
            return self._schema
        self._by_nulls[nulls] = made = self._made(dict(zip(self._nullable, nulls, strict=True)))
        return made

    def _made(self, nulls: Mapping[str, bool]) -> Any:
        fields: list[dict[str, Any]] = []
        for field in self._fields:
            name, branches = field["name"], field["type"]
            if name not in nulls:
                fields.append(field)
                continue
            branch = branches.index("null") if nulls[name] else 1 - branches.index("null")
            # A name that no field has: they are all identifiers.
            fields.append({"name": f"{name} is", "type": "int", "default": branch})
            fields.append({"name": name, "type": branches[branch]})
        return fastavro.parse_schema({"type": "record", "name": "Pairs", "fields": fields})


def _is_nullable(type_: Any) -> bool:
    """Whether it is null or one plain value: records that may be null are few, and named to fastavro."""
    return isinstance(type_, list) and len(type_) == 2 and "null" in type_ and any(each in _PLAIN for each in type_)


def _physical(schema: Any) -> Any:
    """The same schema without logical types."""
    if isinstance(schema, list):
        return [_physical(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "logicalType" in schema:
        return schema["type"]
    return {name: _physical(value) if name in ("type", "fields") else value for name, value in schema.items()}
