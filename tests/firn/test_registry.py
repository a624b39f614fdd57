"""The schema registry: schemas by id, and errors that tell absent, refused and unreachable apart."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from firn.errors import AuthenticationError, ConfigError, TransientError
from firn.registry import (
    IncompatibleSchemaError,
    UnknownSchemaError,
    find_id,
    login_from_config,
    login_from_secret,
    register,
    registered_schema,
    registry_client,
    set_compatibility,
    subject_compatibility,
)
from firn.secrets import RegistrySecret, read_secret

RUN = uuid4().hex[:8]
"""Part of every name, so that a stack may serve more than one test run."""


def client_for(url):
    return registry_client(login_from_secret(RegistrySecret(url=url, api_key="key", api_secret="p4ssw0rd")))


def record(name, *fields, namespace="test"):
    return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


@contextmanager
def answering(status, body):
    """The address of a server that gives every request the same answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error_code": 401, "message": "Unauthorized"}', AuthenticationError),
        (403, b'{"error_code": 40301, "message": "Denied"}', AuthenticationError),
        (404, b'{"error_code": 40403, "message": "Schema not found"}', UnknownSchemaError),
        (404, b"<html>nothing here</html>", ConfigError),
        (200, b"<html>another server</html>", ConfigError),
        (500, b'{"error_code": 50001, "message": "Error in the backend"}', TransientError),
        (429, b'{"error_code": 429, "message": "Too many requests"}', TransientError),
    ],
)
def test_each_answer_has_its_kind_and_names_the_address(status, body, kind):
    with answering(status, body) as url, pytest.raises(kind) as refused:
        registered_schema(client_for(url), 7)
    assert type(refused.value) is kind
    assert url in refused.value.where
    assert "p4ssw0rd" not in str(refused.value)


def test_a_registry_that_is_down_is_transient():
    with pytest.raises(TransientError, match="does not answer"):
        registered_schema(client_for("http://127.0.0.1:1"), 1)


@pytest.mark.parametrize("url", ["registry.example", "ftp://user:password@registry.example", "http://user:password@:80"])
def test_a_malformed_address_is_a_configuration_error_without_its_credentials(url):
    with pytest.raises(ConfigError) as refused:
        client_for(url)
    assert "password@" not in str(refused.value)


@pytest.fixture
def client(stack):
    settings = stack.settings
    return registry_client(login_from_secret(read_secret(settings, settings.registry_secret_id, RegistrySecret)))


@pytest.mark.stack
def test_a_schema_is_registered_once_and_found_by_its_id(client):
    schema = record(f"Once{RUN}", {"name": "a", "type": "int"})
    assert find_id(client, f"once-{RUN}-value", schema) is None
    schema_id = register(client, f"once-{RUN}-value", schema)
    assert register(client, f"once-{RUN}-value", schema) == schema_id == find_id(client, f"once-{RUN}-value", schema)
    assert json.loads(registered_schema(client, schema_id).text) == json.loads(schema)


@pytest.mark.stack
def test_an_unknown_id_is_named(client):
    with pytest.raises(UnknownSchemaError, match="999999"):
        registered_schema(client, 999_999)


@pytest.mark.stack
def test_an_incompatible_schema_is_refused_with_the_reasons(client):
    set_compatibility(client, f"strict-{RUN}-value", "BACKWARD")
    assert subject_compatibility(client, f"strict-{RUN}-value") == "BACKWARD"
    register(client, f"strict-{RUN}-value", record("Strict", {"name": "a", "type": "int"}))
    with pytest.raises(IncompatibleSchemaError, match="/fields/0/type"):
        register(client, f"strict-{RUN}-value", record("Strict", {"name": "a", "type": "string"}))


@pytest.mark.stack
def test_a_schema_with_references_stands_alone(client):
    client.register_schema(f"part-{RUN}", Schema(record("Part", {"name": "p", "type": "string"}), "AVRO"))
    whole = record("Whole", {"name": "one", "type": "test.Part"}, {"name": "two", "type": ["null", "test.Part"]})
    schema_id = client.register_schema(
        f"whole-{RUN}-value", Schema(whole, "AVRO", [SchemaReference("test.Part", f"part-{RUN}", 1)])
    )
    parsed = fastavro.parse_schema(json.loads(registered_schema(client, schema_id).text))
    assert fastavro.validate({"one": {"p": "x"}, "two": None}, parsed)
