"""Proxy settings: which hosts go through it, and Snowflake sessions through a real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest
from pydantic import SecretStr

from firn.errors import AuthenticationError, TerminalError, TransientError
from firn.proxy import ProxyConfig, bypasses, open_tunnel, probe, url_for
from firn.registry.login import RegistryLogin, login_from_secret, registry_client
from firn.registry.schemas import find_id
from firn.secrets import RegistrySecret, read_secret
from firn.snowflake import connection
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query
from tests.support.proxies import LocalProxy, closed_port, running_proxy
from tests.support.sinks import login_of

USER, PASSWORD = "us@er", "p:s/w%rd"


def url(proxy: ProxyConfig | None, host: str) -> str | None:
    found = url_for(proxy, host)
    return found.get_secret_value() if found else None


def test_without_a_proxy_there_is_no_url():
    assert url_for(None, "host.example") is None


def test_credentials_are_percent_encoded_and_masked():
    proxy = ProxyConfig("proxy.example", 8080, USER, SecretStr(PASSWORD))
    assert url(proxy, "host.example") == "http://us%40er:p%3As%2Fw%25rd@proxy.example:8080"
    assert PASSWORD not in repr(proxy) + repr(url_for(proxy, "host.example"))
    assert "p%3A" not in repr(url_for(proxy, "host.example"))


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [
        (ProxyConfig("proxy.example", 3128), "http://proxy.example:3128"),
        (ProxyConfig("proxy.example", 3128, "user"), "http://user:@proxy.example:3128"),
        (ProxyConfig("2001:db8::1", 3128), "http://[2001:db8::1]:3128"),
    ],
)
def test_the_url_of_a_proxy(proxy: ProxyConfig, expected: str):
    assert url(proxy, "host.example") == expected


@pytest.mark.parametrize(
    ("pattern", "host", "direct"),
    [
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "A.Example.COM", True),
        ("*.EXAMPLE.com", "a.example.com", True),
        ("*.example.com", "example.com", False),
        ("example.com", "example.com", True),
        ("example.com", "a.example.com", False),
        ("example.com", "notexample.com", False),
        ("10.0.*", "10.0.3.4", True),
        ("10.0.*", "10.1.0.0", False),
        ("*internal*", "db.internal.example", True),
        ("*", "anything", True),
        ("a.c", "abc", False),
        ("[::1]", "::1", True),
        ("::1", "[::1]", True),
        ("[2001:DB8::*", "2001:db8::7", True),
    ],
)
def test_patterns_of_hosts_without_proxy(pattern: str, host: str, direct: bool):
    proxy = ProxyConfig("proxy.example", 3128, bypass=("first.example", pattern))
    assert bypasses(proxy, host) is direct
    assert (url_for(proxy, host) is None) is direct


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProxy]:
    with running_proxy(tmp_path_factory.mktemp("proxy"), user=USER, password=PASSWORD) as running:
        yield running


@pytest.fixture
def login(stack) -> SnowflakeLogin:
    return login_of(stack.settings)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOGIN_TIMEOUT_SECONDS", 2)


def requests_of(proxy: LocalProxy, login: SnowflakeLogin) -> int:
    return proxy.served().count(f" {login.host}:{login.port}/")


def test_a_wrong_password_is_told_apart_and_never_shown(proxy: LocalProxy):
    wrong = replace(proxy.config, password=SecretStr("hunter2"))
    for secure in (True, False):
        with pytest.raises(AuthenticationError) as refused:
            probe(wrong, "127.0.0.1", closed_port(), secure=secure, timeout=5)
        assert f"127.0.0.1:{proxy.port} refuses the credentials" in str(refused.value)
        assert "jvm.proxy.password" in refused.value.where
        assert "hunter2" not in repr(refused.value)


def test_a_proxy_that_wants_credentials_says_so(proxy: LocalProxy):
    with pytest.raises(AuthenticationError, match="requires credentials"):
        open_tunnel(replace(proxy.config, username=None, password=None), "127.0.0.1", 1, timeout=5)


def test_a_host_that_the_proxy_does_not_reach(proxy: LocalProxy):
    port = closed_port()
    with pytest.raises((TransientError, TerminalError), match=f"127.0.0.1:{port}"):
        open_tunnel(proxy.config, "127.0.0.1", port, timeout=5)


def test_a_proxy_that_is_down():
    port = closed_port()
    with pytest.raises(TransientError, match=f"proxy 127.0.0.1:{port} does not answer") as down:
        open_tunnel(ProxyConfig("127.0.0.1", port), "host.example", 443, timeout=5)
    assert "jvm.proxy.host" in down.value.where


@pytest.mark.stack
def test_a_session_its_query_and_its_upload_go_through_the_proxy(proxy: LocalProxy, login: SnowflakeLogin, tmp_path):
    stage, file = f"PROXY_{uuid4().hex[:8]}", tmp_path / "staged.txt"
    file.write_text("x" * 100)
    environment = dict(os.environ)
    with connect(replace(login, proxy=proxy.config)) as connection:
        assert query(connection, "SELECT 1 AS ONE") == [{"ONE": 1}]
        execute(connection, f"CREATE STAGE {stage}")
        try:
            (answer,) = query(connection, f"PUT 'file://{file}' '@{stage}/in' AUTO_COMPRESS = FALSE")
            assert answer["status"] == "UPLOADED"
        finally:
            execute(connection, f"DROP STAGE {stage}")
    where = f"{login.host}:{login.port}"
    assert f"POST {where}/session/v1/login-request" in proxy.served()
    assert f"POST {where}/queries/v1/query-request" in proxy.served()
    assert f"PUT {where}/" in proxy.served()
    assert dict(os.environ) == environment


@pytest.mark.stack
def test_a_host_of_the_bypass_list_is_reached_directly(proxy: LocalProxy, login: SnowflakeLogin, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")  # what Java does not read must not matter
    before = requests_of(proxy, login)
    with connect(replace(login, proxy=replace(proxy.config, bypass=("127.0.*",)))) as connection:
        assert query(connection, "SELECT 1 AS ONE") == [{"ONE": 1}]
    assert requests_of(proxy, login) == before


@pytest.mark.stack
def test_the_configured_proxy_wins_over_the_environments(proxy: LocalProxy, login: SnowflakeLogin, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    with connect(replace(login, proxy=proxy.config)) as connection:
        assert query(connection, "SELECT 1 AS ONE") == [{"ONE": 1}]


@pytest.mark.stack
def test_without_a_configured_proxy_the_environments_is_used(proxy: LocalProxy, login: SnowflakeLogin, monkeypatch):
    through = url(proxy.config, "any")
    assert through
    monkeypatch.setenv("HTTP_PROXY", through)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    before = requests_of(proxy, login)
    with connect(login) as connection:
        query(connection, "SELECT 1 AS ONE")
    assert requests_of(proxy, login) > before


@pytest.mark.stack
def test_https_goes_through_a_tunnel(proxy: LocalProxy, login: SnowflakeLogin, quick):
    with pytest.raises(TransientError, match="SSL"):  # the local Snowflake speaks no TLS
        connection.open_connection(replace(login, proxy=proxy.config, protocol="https"))
    assert f"CONNECT {login.host}:{login.port}" in proxy.served()


@pytest.mark.stack
def test_a_login_through_a_proxy_that_refuses_us(proxy: LocalProxy, login: SnowflakeLogin, quick):
    wrong = replace(proxy.config, password=SecretStr("hunter2"))
    with pytest.raises(AuthenticationError, match="refuses the credentials") as refused:
        connection.open_connection(replace(login, proxy=wrong))
    assert "hunter2" not in str(refused.value) + str(refused.value.__cause__)


@pytest.mark.stack
def test_a_login_through_a_proxy_that_is_down(login: SnowflakeLogin, quick):
    port = closed_port()
    with pytest.raises(TransientError, match=f"proxy 127.0.0.1:{port} does not answer"):
        connection.open_connection(replace(login, proxy=ProxyConfig("127.0.0.1", port)))


@pytest.fixture
def registry(stack) -> RegistryLogin:
    return login_from_secret(read_secret(stack.settings, stack.settings.registry_secret_id, RegistrySecret))


def ask(login: RegistryLogin) -> None:
    assert find_id(registry_client(login), f"nobody-{uuid4().hex[:8]}-value", '"string"') is None


@pytest.mark.stack
def test_the_registry_is_asked_through_the_proxy_unless_its_host_bypasses_it(proxy: LocalProxy, registry):
    ask(replace(registry, proxy=proxy.config))
    before = proxy.served()
    assert "/apis/ccompat/v7/subjects/nobody-" in before
    ask(replace(registry, proxy=replace(proxy.config, bypass=("127.*",))))
    assert proxy.served() == before


@pytest.mark.stack
@pytest.mark.parametrize("secure", [False, True])
def test_the_registry_behind_a_proxy_that_refuses_us(proxy: LocalProxy, registry, secure: bool):
    wrong = replace(proxy.config, password=SecretStr("hunter2"))
    urls = (f"https://127.0.0.1:{closed_port()}",) if secure else registry.urls
    with pytest.raises(AuthenticationError, match=f"proxy 127.0.0.1:{proxy.port} refuses") as refused:
        ask(replace(registry, proxy=wrong, urls=urls))
    assert "jvm.proxy.password" in refused.value.where
    assert "hunter2" not in str(refused.value)


@pytest.mark.stack
def test_the_registry_behind_a_proxy_that_is_down(registry):
    port = closed_port()
    with pytest.raises(TransientError) as down:
        ask(replace(registry, proxy=ProxyConfig("127.0.0.1", port, USER, SecretStr(PASSWORD))))
    assert f"through proxy 127.0.0.1:{port}" in down.value.where
    assert "jvm.proxy" in down.value.next_step
    assert PASSWORD not in str(down.value)
