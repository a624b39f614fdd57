"""Where `firn sink validate --live` looks for Snowpipe Streaming: where its client does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from firn.channels.client import service_address
from firn.errors import ConfigError
from firn.operations.validation.endpoints import Trust
from firn.operations.validation.kafka_and_registry import streaming_endpoint
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin


def login(protocol: str = "https") -> SnowflakeLogin:
    names = ("acme", "U", "R", "W", "D", "S", "acme.eu-west-2.aws.snowflakecomputing.com")
    return SnowflakeLogin(*names, 443, protocol, SecretStr("unused"))  # type: ignore[arg-type]


def test_without_a_setting_it_is_the_accounts_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    found = streaming_endpoint(login(), Settings())
    assert (found.host, found.port) == service_address(login(), Settings())
    assert (found.host, found.trust) == (login().host, Trust(None))


def test_settings_name_another_address_and_whom_to_trust() -> None:
    ca = Path("/ca.pem")
    found = streaming_endpoint(
        login(), Settings(snowflake_streaming_url="https://127.0.0.1:8443", snowflake_ca_file=ca)
    )
    assert (found.host, found.port, found.trust) == ("127.0.0.1", 8443, Trust("/ca.pem"))
    assert found.name == "snowpipe streaming 127.0.0.1:8443"


def test_an_address_without_tls_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match="needs https"):
        streaming_endpoint(login("http"), Settings())
