"""Avro schemas that a person hands over: read, checked, and looked over for the slip that loses a logical type.

Not for schemas from the registry (`firn.registry.schemas`). Source: https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from firn.errors import ConfigError


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
