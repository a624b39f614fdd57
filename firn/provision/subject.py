"""The subject: a schema registered as it is given, and the subject's compatibility mode."""

from __future__ import annotations

from confluent_kafka.schema_registry import SchemaRegistryClient

from firn.provision.findings import CAUTIOUS, Finding, Mode
from firn.registry import schemas
from firn.registry.avro_schema import misplaced_logical_types
from firn.registry.schemas import SchemaKind


def ensure_subject(
    client: SchemaRegistryClient,
    subject: str,
    schema: str,
    compatibility: str,
    mode: Mode = CAUTIOUS,
    kind: SchemaKind = "AVRO",
) -> list[Finding]:
    """Register `schema` under `subject` as given, and set the compatibility of a subject that has none of its own.

    Raises IncompatibleSchemaError with the registry's reasons, or the other errors of `firn.registry.schemas`.
    """
    held = schemas.subject_compatibility(client, subject)
    known = schemas.find_id(client, subject, schema, kind)
    findings = [_subject(client, subject, schema, known, mode, kind)]
    if kind == "AVRO":
        findings += [Finding("schema", subject, "warning", text) for text in misplaced_logical_types(schema)]
    return [*findings, _compatibility(client, subject, held, compatibility, mode)]


def _subject(
    client: SchemaRegistryClient, subject: str, schema: str, known: int | None, mode: Mode, kind: SchemaKind
) -> Finding:
    if known is not None:
        return Finding("schema", subject, "found", f"id {known}")
    if mode.dry_run:
        if not schemas.is_compatible(client, subject, schema, kind):
            return Finding("schema", subject, "would fail", "the registry would refuse it as incompatible")
        return Finding("schema", subject, "would make", "a new version of the subject")
    return Finding("schema", subject, "made", f"id {schemas.register(client, subject, schema, kind)}")


def _compatibility(client: SchemaRegistryClient, subject: str, held: str | None, wanted: str, mode: Mode) -> Finding:
    kind = "compatibility"
    if held == wanted:
        return Finding(kind, subject, "found", wanted)
    if held is not None:
        if mode.writes:
            schemas.set_compatibility(client, subject, wanted)
        return mode.change(kind, subject, f"{held} -> {wanted}")
    if mode.dry_run:
        return Finding(kind, subject, "would make", wanted)
    schemas.set_compatibility(client, subject, wanted)
    return Finding(kind, subject, "made", wanted)
