"""The schema registry: schemas by id, and errors that tell absent, refused and unreachable apart."""

import json
import pickle
from base64 import b64encode
from dataclasses import replace
from uuid import uuid4

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from pydantic import SecretStr

from firn.errors import AuthenticationError, ConfigError, TransientError
from firn.proxy import ProxyConfig
from firn.registry.endpoint import RegistryConfig
from firn.registry.faults import IncompatibleSchemaError, UnknownSchemaError
from firn.registry.login import RegistryLogin, login_from_config, login_from_secret, registry_client
from firn.registry.schemas import find_id, register, registered_schema, set_compatibility, subject_compatibility
from firn.secrets import RegistrySecret, read_secret
from tests.support.answering import answering

RUN = uuid4().hex[:8]
"""Part of every name, so that a stack may serve more than one test run."""
DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
SCHEMA = json.dumps({"schema": '"string"'}).encode()


def client_for(url):
    return registry_client(login_from_secret(RegistrySecret(url=url, api_key="key", api_secret="p4ssw0rd")))


def record(name, *fields, namespace="test"):
    return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error_code": 401, "message": "Unauthorized"}', AuthenticationError),
        (401, b"", AuthenticationError),
        (403, b'{"error_code": 40301, "message": "Denied"}', AuthenticationError),
        (404, b'{"error_code": 40403, "message": "Schema not found"}', UnknownSchemaError),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}', ConfigError),
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
    assert not any(internal in str(refused.value) for internal in ("b'", "code -1"))


def test_a_refused_login_names_secret_and_parameters_to_check():
    with answering(401, b"") as url, pytest.raises(AuthenticationError) as refused:
        registered_schema(client_for(url), 7)
    assert refused.value.what == "Schema Registry authentication failed: HTTP 401."
    for name in (
        "FIRN_REGISTRY_SECRET_ID",
        "value.converter.basic.auth.user.info",
        "value.converter.bearer.auth.token",
    ):
        assert name in refused.value.next_step


def test_a_registry_that_is_down_is_transient():
    with pytest.raises(TransientError, match="does not answer"):
        registered_schema(client_for("http://127.0.0.1:1"), 1)


@pytest.mark.parametrize(
    "url", ["registry.example", "ftp://user:password@registry.example", "http://user:password@:80"]
)
def test_a_malformed_address_is_a_configuration_error_without_its_credentials(url):
    with pytest.raises(ConfigError) as refused:
        client_for(url)
    assert "password@" not in str(refused.value)


def basic(user_info):
    return f"Basic {b64encode(user_info.encode()).decode()}"


def test_the_second_url_is_asked_when_the_first_one_is_down():
    with answering(200, SCHEMA) as second:
        client = registry_client(RegistryLogin(("http://127.0.0.1:1", second)))
        assert registered_schema(client, 7).text == '"string"'


def test_basic_auth_reaches_every_url():
    first, second = [], []
    with answering(503, b"{}", first) as failing, answering(200, SCHEMA, second) as sound:
        login = RegistryLogin((failing, sound), SecretStr("user:p4ss:w0rd"))
        assert registered_schema(registry_client(login), 7).text == '"string"'
    assert {each for _, each in first + second} == {basic("user:p4ss:w0rd")}
    assert {path for path, _ in second} == {"/schemas/ids/7"}


def test_a_token_is_sent_as_such():
    seen = []
    with answering(200, SCHEMA, seen) as url:
        registered_schema(registry_client(RegistryLogin((url,), bearer_token=SecretStr("t0ken"))), 7)
    assert [each for _, each in seen] == ["Bearer t0ken"]


def test_cluster_and_pool_go_with_a_token_of_confluent_cloud():
    seen = []
    with answering(200, SCHEMA, headers=seen) as url:
        config = RegistryConfig((url,), bearer_token=SecretStr("t"), logical_cluster="lsrc-1", identity_pool="pool-1")
        registered_schema(registry_client(login_from_config(config)), 7)
    assert (seen[0]["target-sr-cluster"], seen[0]["Confluent-Identity-Pool-Id"]) == ("lsrc-1", "pool-1")


def test_an_at_sign_behind_the_host_is_part_of_the_path():
    login = login_from_config(RegistryConfig(("https://gw.corp/registry@eu",)))
    assert (login.urls, login.user_info) == (("https://gw.corp/registry@eu",), None)


def test_credentials_inside_the_urls_count_where_no_others_are_named_and_never_stay_there():
    urls = ("http://u%40x:p%3Aw@one.example:8081/api", "https://two.example")
    login = login_from_config(RegistryConfig(urls))
    assert login.urls == ("http://one.example:8081/api", "https://two.example")
    assert login.user_info.get_secret_value() == "u@x:p:w"
    named = login_from_config(RegistryConfig(urls, SecretStr("other:secret")))
    assert named.user_info.get_secret_value() == "other:secret"


def test_a_secret_may_hold_several_urls():
    login = login_from_secret(RegistrySecret(url="http://a.example, http://b.example/", api_key="k", api_secret="s"))
    assert login.urls == ("http://a.example", "http://b.example")


def test_a_login_travels_to_executors_serves_as_a_key_and_shows_no_secret():
    login = RegistryLogin(("http://a.example",), SecretStr("user:p4ssw0rd"), SecretStr("t0ken"))
    assert {login: 1}[pickle.loads(pickle.dumps(login))] == 1
    assert "p4ssw0rd" not in repr(login)
    assert "t0ken" not in repr(login)


def test_certificates_that_are_not_there_are_a_configuration_error():
    with pytest.raises(ConfigError, match="certificates") as refused:
        registry_client(RegistryLogin(("https://a.example",), ca_location="/nowhere/ca.pem"))
    assert "/nowhere/ca.pem" in refused.value.where


def test_all_urls_go_one_way_through_the_proxy_or_past_it():
    proxy = ProxyConfig("proxy.example", 3128, bypass=("*.internal",))
    registry_client(RegistryLogin(("http://a.internal", "http://b.internal"), proxy=proxy))
    with pytest.raises(ConfigError, match="Some urls"):
        registry_client(RegistryLogin(("http://a.internal", "http://b.example"), proxy=proxy))


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


@pytest.mark.stack
@pytest.mark.parametrize(
    ("kind", "inner", "middle", "outer"),
    [
        (
            "PROTOBUF",
            'syntax = "proto3"; message Inner { int32 a = 1; }',
            'syntax = "proto3"; import "inner"; message Middle { Inner inner = 1; }',
            'syntax = "proto3"; import "middle"; message Outer { Middle middle = 1; }',
        ),
        ("JSON", *(json.dumps(DRAFT | each) for each in ({"type": "integer"}, {"$ref": "inner"}, {"$ref": "middle"}))),
    ],
    ids=["PROTOBUF", "JSON"],
)
def test_references_of_references_come_with_a_schema(client, kind, inner, middle, outer):
    def put(name, text, referred=None):
        references = [SchemaReference(referred, f"{kind}-{referred}-{RUN}", 1)] if referred else []
        return client.register_schema(f"{kind}-{name}-{RUN}", Schema(text, kind, references))

    put("inner", inner)
    put("middle", middle, "inner")
    found = registered_schema(client, put("outer", outer, "middle"))
    assert (found.kind, [name for name, _ in found.references]) == (kind, ["middle"])
    assert [name for name, _ in found.references[0][1].references] == ["inner"]
    assert found.references[0][1].references[0][1].references == ()


@pytest.mark.stack
def test_several_urls_of_a_real_registry_with_the_first_one_dead(stack, client):
    login = login_from_secret(read_secret(stack.settings, stack.settings.registry_secret_id, RegistrySecret))
    behind = registry_client(replace(login, urls=("http://127.0.0.1:1", *login.urls)))
    assert register(behind, f"behind-{RUN}-value", '"string"') == find_id(client, f"behind-{RUN}-value", '"string"')


@pytest.mark.stack
def test_a_real_registry_refuses_wrong_credentials(stack):
    login = login_from_secret(read_secret(stack.settings, stack.settings.registry_secret_id, RegistrySecret))
    with pytest.raises(AuthenticationError):
        registered_schema(registry_client(replace(login, user_info=SecretStr("nobody:wrong"))), 1)
