"""A registered JSON Schema with all that it refers to, for whoever walks it. Not for what its keywords mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource
from referencing.jsonschema import DRAFT7, specification_with

from firn.registry.schemas import RegisteredSchema

Parse = Callable[[str], Any]


def opened(schema: RegisteredSchema, parse: Parse) -> tuple[Any, Any]:
    """(the schema's JSON, the resolver of its `$ref`). parse: reads the text of a schema; its errors come through."""
    root = _resource(schema.text, parse)
    registry: Registry[Any] = Registry(retrieve=_Referred(schema, parse).retrieve)  # type: ignore[call-arg]
    return root.contents, registry.resolver_with_root(root)


def _resource(text: str, parse: Parse) -> Resource[Any]:
    contents = parse(text)
    dialect = contents.get("$schema") if isinstance(contents, dict) else None
    specification = specification_with(dialect, default=DRAFT7) if isinstance(dialect, str) else DRAFT7
    return specification.create_resource(contents)


class _Referred:
    """The schemas that a schema refers to, and those that they refer to, by the names they are referred to with."""

    def __init__(self, schema: RegisteredSchema, parse: Parse) -> None:
        self._resources = {name: _resource(text, parse) for name, text in _all_references(schema)}

    def retrieve(self, uri: str) -> Resource[Any]:
        """The schema of a `$ref`, of which the registry knows the end: the rest is the base uri it stands in."""
        for name, resource in self._resources.items():
            if uri == name or uri.endswith("/" + name):
                return resource
        raise NoSuchResource(uri)


def _all_references(schema: RegisteredSchema) -> Iterator[tuple[str, str]]:
    for name, referred in schema.references:
        yield name, referred.text
        yield from _all_references(referred)
