"""The schema registry: schemas by id, and subjects. Logging in is `firn.registry.login`'s.

Not for decoding: what a schema means for a record is the decoder's subject. Speaks the Confluent Schema Registry API
(https://docs.confluent.io/platform/current/schema-registry/develop/api.html), which Apicurio offers too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from firn.registry.avro_schema import inline_references
from firn.registry.faults import UnknownSchemaError, registry_errors

SchemaKind: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]


class InvalidSchemaError(ValueError):
    """A schema that no value can be decoded with; the message says what is wrong, and where."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as the registry holds it, with the schemas it refers to under the names it has for them.

    references: Protobuf import paths, or the names that `$ref` uses in JSON Schema; none for Avro, whose text holds
        what it refers to.
    """

    kind: str
    text: str
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


def registered_schema(client: SchemaRegistryClient, schema_id: int) -> RegisteredSchema:
    """The schema with this id and all that it refers to, directly or not.

    Raises UnknownSchemaError, AuthenticationError or TransientError. Successful answers are cached in the client.
    """
    with registry_errors(client, f"schema id {schema_id}"):
        return _resolved(client, client.get_schema(schema_id))


def subject_versions(client: SchemaRegistryClient, subject: str) -> list[tuple[int, RegisteredSchema]]:
    """The versions of a subject and their schemas, oldest first; those that were deleted are not among them.

    Raises UnknownSchemaError where the registry has no such subject, and what `registered_schema` raises.
    """
    with registry_errors(client, f"subject {subject}"):
        versions = sorted(client.get_versions(subject))
        return [(version, _resolved(client, client.get_version(subject, version).schema)) for version in versions]


def _resolved(client: SchemaRegistryClient, schema: Schema) -> RegisteredSchema:
    """`schema` with its references. Must run inside `registry_errors`."""
    kind, text = schema.schema_type or "AVRO", schema.schema_str or ""
    references = tuple(
        (each.name or "", _resolved(client, _referred(client, each))) for each in schema.references or []
    )
    if kind == "AVRO" and references:
        text = json.dumps(inline_references(json.loads(text), [json.loads(other.text) for _, other in references]))
        return RegisteredSchema(kind, text)
    return RegisteredSchema(kind, text, references)


def _referred(client: SchemaRegistryClient, reference: SchemaReference) -> Schema:
    return client.get_version(reference.subject or "", reference.version or -1).schema


def find_id(client: SchemaRegistryClient, subject: str, schema: str, kind: SchemaKind = "AVRO") -> int | None:
    """The id under which `subject` already holds exactly this schema, or None."""
    try:
        with registry_errors(client, f"subject {subject}"):
            return client.lookup_schema(subject, Schema(schema, kind)).schema_id
    except UnknownSchemaError:
        return None


def latest_text(client: SchemaRegistryClient, subject: str) -> str | None:
    """The newest schema of a subject as it was registered; None for a subject without versions."""
    try:
        with registry_errors(client, f"subject {subject}"):
            return client.get_latest_version(subject).schema.schema_str
    except UnknownSchemaError:
        return None


def register(client: SchemaRegistryClient, subject: str, schema: str, kind: SchemaKind = "AVRO") -> int:
    """Register a schema (its text) under `subject` and give its id; the same schema keeps its id.

    Raises IncompatibleSchemaError with the registry's reasons, ConfigError for a schema the registry cannot parse.
    """
    with registry_errors(client, f"subject {subject}"):
        return client.register_schema(subject, Schema(schema, kind))


def is_compatible(client: SchemaRegistryClient, subject: str, schema: str, kind: SchemaKind = "AVRO") -> bool:
    """Whether the registry would take this schema now; a subject without versions takes any."""
    try:
        with registry_errors(client, f"subject {subject}"):
            return bool(client.test_compatibility(subject, Schema(schema, kind)))
    except UnknownSchemaError:
        return True


def subject_compatibility(client: SchemaRegistryClient, subject: str) -> str | None:
    """The compatibility mode set for `subject` itself; None where it follows the registry's default."""
    try:
        with registry_errors(client, f"subject {subject}"):
            return str(client.get_compatibility(subject))
    except UnknownSchemaError:
        return None


def set_compatibility(client: SchemaRegistryClient, subject: str, mode: str) -> None:
    """Set the compatibility mode of `subject`, which need not hold a schema yet."""
    with registry_errors(client, f"subject {subject}"):
        client.set_compatibility(subject, mode)
