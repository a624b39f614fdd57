"""Avro schemas as text: read from a file, checked for mistakes, and made whole where they refer to named types.

Not for asking the registry (`firn.registry.schemas`), nor for resolving a reader against a writer schema. Source:
https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from firn.errors import ConfigError

_NAMED = {"record", "error", "enum", "fixed"}
_KEYS_WITH_TYPES = {"type", "items", "values"}


def read_schema(path: Path) -> str:
    """The JSON text of an Avro schema file as it stands. Raises ConfigError naming the file and the fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The schema file cannot be read ({error}).", where=str(path), next_step="Name an Avro schema (.avsc)."
        ) from None
    parse(text, where=str(path))
    return text


def parse(text: str, *, where: str) -> Any:
    """The schema as fastavro's parsed form. Raises ConfigError for text that is not an Avro schema."""
    try:
        return fastavro.parse_schema(json.loads(text))
    except json.JSONDecodeError as error:
        fault = f"line {error.lineno}: {error.msg}"
    except UnknownType as error:
        fault = f"unknown type {error.name}"
    except (SchemaParseException, KeyError, TypeError, AttributeError, ValueError) as error:
        fault = f"{type(error).__name__}: {error}"
    raise ConfigError(
        f"This is not a valid Avro schema ({fault}).", where=where, next_step="Correct the schema and try again."
    )


def misplaced_logical_types(text: str) -> list[str]:
    """One warning for each field whose logicalType stands beside its type, where Avro ignores it, not inside."""
    warnings: list[str] = []
    _look(json.loads(text), "", warnings)
    return warnings


def _look(node: Any, path: str, warnings: list[str]) -> None:
    if isinstance(node, list):
        for branch in node:
            _look(branch, path, warnings)
    if not isinstance(node, dict):
        return
    for field in node.get("fields", []):
        where = f"{path}.{field['name']}" if path else field["name"]
        if "logicalType" in field:
            warnings.append(_warning(field, where))
        _look(field["type"], where, warnings)
    for key in ("type", "items", "values"):
        _look(node.get(key), path, warnings)


def _warning(field: dict[str, Any], where: str) -> str:
    attributes = {key: field[key] for key in ("logicalType", "precision", "scale") if key in field}
    inner = json.dumps({"type": field["type"], **attributes})
    return (
        f"Field {where}: logicalType stands beside type, where Avro ignores it: values stay plain. "
        f'To correct it write "type": {inner}.'
    )


def inline_references(schema: Any, referred: list[Any]) -> Any:
    """`schema` (parsed JSON) with each type of `referred` defined where it is first used and named afterwards."""
    definitions: dict[str, Any] = {}
    for other in referred:
        _collect(other, "", definitions)
    return _Inliner(definitions).expand(schema, "")


def full_name(name: str, namespace: str) -> str:
    """A name as Avro resolves it inside `namespace`."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _own_name(node: dict[str, Any], namespace: str) -> str:
    return full_name(node["name"], node.get("namespace", namespace))


def _children(node: Any) -> list[Any]:
    if isinstance(node, list):
        return node
    fields = [field["type"] for field in node.get("fields", [])]
    return fields + [node[key] for key in _KEYS_WITH_TYPES if isinstance(node.get(key), list | dict)]


def _collect(node: Any, namespace: str, definitions: dict[str, Any]) -> None:
    """Note every named type in `node` under its full name, with names inside it made independent of where it stood."""
    if isinstance(node, dict) and node.get("type") in _NAMED:
        name = _own_name(node, namespace)
        namespace = name.rpartition(".")[0]
        definitions.setdefault(name, {**node, "name": name.rpartition(".")[2], "namespace": namespace})
    if isinstance(node, list | dict):
        for child in _children(node):
            _collect(child, namespace, definitions)


class _Inliner:
    """Walks a schema in the order a parser reads it, remembering which types it has defined on the way."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._defined: set[str] = set()

    def expand(self, node: Any, namespace: str) -> Any:
        if isinstance(node, str):
            return self._reference(node, namespace)
        if isinstance(node, list):
            return [self.expand(branch, namespace) for branch in node]
        if node.get("type") in _NAMED:
            return self._definition(node, namespace)
        return {key: self._attribute(key, value, namespace) for key, value in node.items()}

    def _reference(self, name: str, namespace: str) -> Any:
        known = full_name(name, namespace)
        if known not in self._definitions:
            known = name
        if known not in self._definitions or known in self._defined:
            return known if known in self._defined else name
        return self._definition(self._definitions[known], "")

    def _definition(self, node: dict[str, Any], namespace: str) -> Any:
        name = _own_name(node, namespace)
        if name in self._defined:
            return name
        self._defined.add(name)
        inside = name.rpartition(".")[0]
        expanded = dict(node)
        if "fields" in node:
            expanded["fields"] = [{**field, "type": self.expand(field["type"], inside)} for field in node["fields"]]
        return expanded

    def _attribute(self, key: str, value: Any, namespace: str) -> Any:
        is_type = key in _KEYS_WITH_TYPES and isinstance(value, str | list | dict)
        return self.expand(value, namespace) if is_type else value
