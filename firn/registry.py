"""The schema registry: a client with bounded time-outs, schemas by id, and errors a person can act on.

Not for decoding: what a schema means for a record is the decoder's subject. Speaks the Confluent Schema Registry API
(https://docs.confluent.io/platform/current/schema-registry/develop/api.html), which Apicurio offers too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.common._httpx_compat import httpx  # the flavour this client raises errors from
from confluent_kafka.schema_registry.error import SchemaRegistryError

from firn.avro_inline import inline_references
from firn.errors import AuthenticationError, ConfigError, FirnError, TerminalError, TransientError
from firn.secrets import RegistrySecret
from firn.settings import Settings

REQUEST_SECONDS = 5.0
"""Time-out of one request; the client tries twice, so a dead registry is noticed after about ten seconds."""

_ASK_AGAIN = {408, 425, 429}


class UnknownSchemaError(TerminalError):
    """The registry holds no schema with this id (error code 40403)."""


class ForeignSchemaError(TerminalError):
    """The id belongs to a schema of another kind (JSON Schema, Protobuf)."""


class IncompatibleSchemaError(TerminalError):
    """The registry refuses a schema that breaks the subject's compatibility (HTTP 409)."""


def registry_client(settings: Settings, secret: RegistrySecret) -> SchemaRegistryClient:
    """A client with basic auth. It connects on its first request; a malformed url raises ConfigError here."""
    try:
        return SchemaRegistryClient(
            {
                "url": secret.url,
                "basic.auth.user.info": f"{secret.api_key.get_secret_value()}:{secret.api_secret.get_secret_value()}",
                "timeout": REQUEST_SECONDS,
                "max.retries": 1,
                "retries.wait.ms": 200,
                "retries.max.wait.ms": 500,
            }
        )
    except ValueError:
        raise ConfigError(
            "The address of the schema registry is malformed.",
            where=f"url in secret {settings.registry_secret_id}",
            next_step="Store http(s)://host[:port][/path], without a user or password in it.",
        ) from None


def schema_by_id(client: SchemaRegistryClient, schema_id: int) -> str:
    """The Avro schema with this id as JSON text that stands alone: types it refers to are written into it.

    Raises UnknownSchemaError, ForeignSchemaError, AuthenticationError or TransientError. Successful
    answers are cached in the client.
    """
    with registry_errors(client, f"schema id {schema_id}"):
        schema = client.get_schema(schema_id)
        if schema.schema_type not in (None, "AVRO"):
            raise ForeignSchemaError(
                f"Schema id {schema_id} is a {schema.schema_type} schema, not Avro.",
                where=f"schema registry {address(client)}",
                next_step="Produce this topic as Avro, or name the converter that fits it.",
            )
        return standalone(client, schema)


def standalone(client: SchemaRegistryClient, schema: Schema) -> str:
    """The text of `schema` with its references written in. Must run inside `registry_errors`."""
    text = schema.schema_str or ""
    if not schema.references:
        return text
    referred = [json.loads(standalone(client, _referred(client, reference))) for reference in schema.references]
    return json.dumps(inline_references(json.loads(text), referred))


def _referred(client: SchemaRegistryClient, reference: SchemaReference) -> Schema:
    return client.get_version(reference.subject or "", reference.version or -1).schema


def find_id(client: SchemaRegistryClient, subject: str, schema: str) -> int | None:
    """The id under which `subject` already holds exactly this Avro schema, or None."""
    try:
        with registry_errors(client, f"subject {subject}"):
            return client.lookup_schema(subject, Schema(schema, "AVRO")).schema_id
    except UnknownSchemaError:
        return None


def register(client: SchemaRegistryClient, subject: str, schema: str) -> int:
    """Register an Avro schema (JSON text) under `subject` and give its id; the same schema keeps its id.

    Raises IncompatibleSchemaError with the registry's reasons, ConfigError for a schema the registry cannot parse.
    """
    with registry_errors(client, f"subject {subject}"):
        return client.register_schema(subject, Schema(schema, "AVRO"))


def is_compatible(client: SchemaRegistryClient, subject: str, schema: str) -> bool:
    """Whether the registry would take this schema now; a subject without versions takes any."""
    try:
        with registry_errors(client, f"subject {subject}"):
            return bool(client.test_compatibility(subject, Schema(schema, "AVRO")))
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


def address(client: SchemaRegistryClient) -> str:
    """The registry's url, for messages."""
    return str(client._conf["url"])


@contextmanager
def registry_errors(client: SchemaRegistryClient, subject: str) -> Iterator[None]:
    """Turn the client's errors into those of `firn.errors`; `subject` says what was asked for."""
    try:
        yield
    except SchemaRegistryError as error:
        raise explained(error, address(client), subject) from error
    except json.JSONDecodeError as error:
        raise ConfigError(
            "What answers at this address is not a schema registry: it does not speak JSON.",
            where=f"{subject}, schema registry {address(client)}",
            next_step="Correct url in the registry secret.",
        ) from error
    except httpx.TransportError as error:
        raise TransientError(
            f"The schema registry does not answer ({type(error).__name__}: {error}).",
            where=f"{subject}, schema registry {address(client)}",
            next_step="Check url in the registry secret and the network; for the local stack see `firn status`.",
        ) from error


def explained(error: SchemaRegistryError, url: str, subject: str) -> FirnError:
    """The registry's answer as an error of its kind, decided by HTTP status alone."""
    status, where = error.http_status_code, f"{subject}, schema registry {url}"
    reason = f"{error.error_message} (HTTP {status}, code {error.error_code})"
    if status in (401, 403):
        return AuthenticationError(
            f"Schema Registry authentication failed: {reason}.",
            where=where,
            next_step="Correct api_key and api_secret in the registry secret, or make a new key.",
        )
    if status == 404 and str(error.error_code).startswith("404"):
        return UnknownSchemaError(
            f"The schema registry does not know {subject}: {reason}.",
            where=where,
            next_step="Check that producer and secret name the same registry, and that the schema was not deleted.",
        )
    if status == 404:
        return ConfigError(
            f"There is no schema registry at this address: {reason}.",
            where=where,
            next_step="Correct url in the registry secret; its path must be that of the Confluent API.",
        )
    if status == 409:
        return IncompatibleSchemaError(
            f"The schema is not compatible with those before it: {reason}.",
            where=where,
            next_step="Correct the schema (give new fields a default), or change the subject's compatibility mode.",
        )
    if status >= 500 or status in _ASK_AGAIN:
        return TransientError(f"The schema registry failed: {reason}.", where=where, next_step="Try again later.")
    return ConfigError(
        f"The schema registry refuses this: {reason}.", where=where, next_step="Correct the schema or the subject."
    )
