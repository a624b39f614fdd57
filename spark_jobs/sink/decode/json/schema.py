"""Confluent-framed JSON with a JSON Schema in the registry, as Confluent's JsonSchemaConverter reads it.

Rules: io.confluent.connect.json.JsonSchemaData (schema-registry 7), where everit's loader tells a schema's kind.
Different on purpose: a value that is not of its type is a bad record, not 0 or null; properties that the schema does
not declare are kept; a property that is not `required` may be absent; what the official converter has no type for (no
`type`, tuples, `const`) is kept as it stands. Not for validating: bounds, patterns and formats are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from firn.registry.json_references import opened
from firn.registry.schemas import InvalidSchemaError, RegisteredSchema
from spark_jobs.sink.decode.base import json_text
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.rows import Budget
from spark_jobs.sink.decode.connect import schema as connect
from spark_jobs.sink.decode.json.values import Anything, ArrayOf, Leaf, MapOf, Null, OneOf, Slot, Struct, Type

MAX_DEPTH = 64
"""Levels of a schema. Far below Python's own limit, at which `referencing` (Rust) panics instead of raising."""

_NUMBERS = {each.value: each for each in connect.Type if each.value.startswith(("int", "float"))}
# Keywords that tell the type where there is no `type`.
_TELLING = {
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties"},
    "array": {"items", "minItems", "maxItems", "uniqueItems"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "string": {"minLength", "maxLength", "pattern"},
}
_SUMS = ("oneOf", "anyOf")


def compiled(schema: RegisteredSchema, time_zone: str, null_defaults: bool, budget: Budget) -> Slot:
    """What the schema says of whole values, whose texts `budget` pays for. Raises InvalidSchemaError."""
    compiler = _Compiler(budget, time_zone, null_defaults)
    try:
        contents, resolver = opened(schema, json_text.parse)
        return compiler.slot(contents, resolver, "value")
    except Unresolvable as error:
        raise InvalidSchemaError(f"$ref {error.ref!r} leads nowhere; is it among the schema's references?") from error
    except InvalidSchemaError:
        raise
    except RecursionError:
        raise InvalidSchemaError("nested too deeply") from None
    except MalformedError as error:
        raise InvalidSchemaError(error.detail) from None
    except Exception as error:  # nothing outside the schema is asked, so whatever its keywords cause is its fault
        raise InvalidSchemaError(f"no JSON Schema ({type(error).__name__}: {error})") from error


class _Compiler:
    """Compiles one schema. A node is compiled once, whatever refers to it."""

    def __init__(self, budget: Budget, time_zone: str, null_defaults: bool) -> None:
        self._budget, self._time_zone, self._null_defaults = budget, time_zone, null_defaults
        self._slots: dict[int, Slot] = {}  # by node
        self._structs: dict[int, Struct] = {}  # by node; the node may be only half compiled
        self._depth = 0

    def slot(self, node: Any, resolver: Any, path: str) -> Slot:
        """What a schema says of the values at `path`."""
        if isinstance(node, bool):
            return Slot(Anything(), path, optional=True)
        if not isinstance(node, dict):
            raise InvalidSchemaError(f"{path}: a schema is an object, not {str(node)[:40]}")
        if id(node) not in self._slots:
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise InvalidSchemaError(f"{path}: nested too deeply, or a schema that refers to nothing but itself")
            self._slots[id(node)] = self._new(node, resolver, path)
            self._depth -= 1
        return self._slots[id(node)]

    def _new(self, node: dict[str, Any], resolver: Any, path: str) -> Slot:
        if "$ref" in node:
            found = resolver.lookup(node["$ref"])
            return self.slot(found.contents, found.resolver, path)
        resolver = resolver.in_subresource(DRAFT7.create_resource(node))
        kind = node.get("type")
        if isinstance(kind, list):
            return self._sum([self._of_kind(each, node, resolver, path) for each in kind], path)
        if "connect.type" not in node and kind in (None, "object"):
            properties = dict(_properties(node, resolver, set()))
            if properties:
                return self._required(self._struct(node, properties, path), node, path)
        branches = next((node[each] for each in _SUMS if each in node), None)
        if branches is not None:
            return self._sum([self.slot(each, resolver, path) for each in sorted(branches, key=_is_simple)], path)
        if "allOf" in node and kind is None:
            return self.slot(_telling(node["allOf"]), resolver, path)
        return self._of_kind(_told(node) if kind is None else kind, node, resolver, path)

    def _of_kind(self, kind: Any, node: dict[str, Any], resolver: Any, path: str) -> Slot:
        if kind in (None, "null"):
            return Slot(Null() if kind else Anything(), path, optional=True)
        return self._required(self._typed(kind, node, resolver, path), node, path)

    def _required(self, found: Type, node: dict[str, Any], path: str) -> Slot:
        return Slot(found, path, optional=False, default=node.get("default"), budget=self._budget)

    def _typed(self, kind: Any, node: dict[str, Any], resolver: Any, path: str) -> Type:
        named = str(node.get("connect.type"))
        match kind:
            case "boolean":
                return self._leaf(connect.Type.BOOLEAN, node, path)
            case "integer" | "number" if named == "bytes":
                return self._leaf(connect.Type.BYTES, node, path)
            case "integer":
                return self._leaf(_NUMBERS.get(named, connect.Type.INT64), node, path)
            case "number":
                return self._leaf(_NUMBERS.get(named, connect.Type.FLOAT64), node, path)
            case "string":
                return self._leaf(connect.Type.BYTES if named == "bytes" else connect.Type.STRING, node, path)
            case "array":
                return self._array(node, resolver, path)
            case "object" if named == "map":
                return MapOf(None, self.slot(node.get("additionalProperties", True), resolver, f"{path}{{}}"), path)
            case "object":
                return self._struct(node, dict(_properties(node, resolver, set())), path)
        raise InvalidSchemaError(f"{path} has the unknown type {str(kind)[:80]!r}")

    def _leaf(self, kind: connect.Type, node: dict[str, Any], path: str) -> Leaf:
        title, parameters = node.get("title"), node.get("connect.parameters", {})
        name = title if isinstance(title, str) else None
        parameters = {key: str(value) for key, value in parameters.items()}
        return Leaf(connect.Schema(kind, name, parameters=parameters), path, self._time_zone)

    def _array(self, node: dict[str, Any], resolver: Any, path: str) -> Type:
        items = node.get("items", True)
        if isinstance(items, list) or "prefixItems" in node:
            return ArrayOf(Slot(Anything(), path, optional=True), path)  # each item has a type of its own
        if node.get("connect.type") == "map" and isinstance(items, dict):
            properties = items.get("properties", {})
            key, value = (
                self.slot(properties.get(each, True), resolver, f"{path}[].{each}") for each in ("key", "value")
            )
            return MapOf(key, value, path)
        return ArrayOf(self.slot(items, resolver, f"{path}[]"), path)

    def _struct(self, node: dict[str, Any], properties: dict[str, tuple[Any, Any, bool]], path: str) -> Struct:
        if id(node) in self._structs:
            return self._structs[id(node)]
        struct = self._structs[id(node)] = Struct(path, self._budget)
        for name, (child, resolver, required) in properties.items():
            slot = self.slot(child, resolver, f"{path}.{name}")
            struct.add(name, slot if required else self._optional(slot))
        return struct

    def _optional(self, slot: Slot) -> Slot:
        return replace(slot, optional=True, default=slot.default if self._null_defaults else None)

    def _sum(self, branches: list[Slot], path: str) -> Slot:
        """A type and null are an optional type, other sums a struct; a null among the branches makes it optional."""
        others = [each for each in branches if not isinstance(each.type, Null)]
        optional = len(others) < len(branches)
        if optional and len(branches) == 2 and others:
            return self._optional(others[0])
        return Slot(OneOf([each.type for each in others], path, self._budget), path, optional)


def _properties(node: dict[str, Any], resolver: Any, seen: set[int]) -> Iterator[tuple[str, tuple[Any, Any, bool]]]:
    """The properties of an object and of all that it is `allOf`, with where to resolve them and whether required."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if "$ref" in node:
        found = resolver.lookup(node["$ref"])
        yield from _properties(found.contents, found.resolver, seen)
        return
    required = node.get("required", [])
    for name, child in node.get("properties", {}).items():
        yield name, (child, resolver, name in required)
    for part in node.get("allOf", []):
        yield from _properties(part, resolver, seen)


def _is_simple(node: Any) -> bool:
    """What stands behind the combined schemas of a sum: everit sorts those first, and fields are numbered so."""
    combined = isinstance(node, dict) and (
        any(each in node for each in ("oneOf", "anyOf", "allOf"))
        or isinstance(node.get("type"), list)
        or ("type" in node and ("enum" in node or "const" in node))
    )
    return not combined


def _telling(parts: list[Any]) -> Any:
    """The part of an `allOf` that tells the type: a sum before all others."""
    told = [part for part in parts if isinstance(part, dict) and ("type" in part or "$ref" in part or _told(part))]
    sums = [part for part in parts if isinstance(part, dict) and any(each in part for each in _SUMS)]
    return next(iter(sums + told), True)


def _told(node: dict[str, Any]) -> str | None:
    return next((kind for kind, keywords in _TELLING.items() if keywords & node.keys()), None)
