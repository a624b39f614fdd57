"""Texts of a file as people see them: no login, no escape sequence, no endless line."""

from __future__ import annotations

import pytest

from firn.connector.parse import check_sink_config
from firn.redaction import redacted
from tests.support.connectors import MINIMAL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://bob:p@sEcReT@host:8081", "https://(hidden)@host:8081"),
        ("bob:sEcReT@host:8081", "(hidden)@host:8081"),
        ("https://bob:my sEcReT@h", "https://(hidden)@h"),
        ("https://bob:sEc/ReT@h", "https://(hidden)@h"),
        ("http://a:1,https://u:sEcReT@b, https://v:sEcReT@c", "http://a:1,https://(hidden)@b, https://(hidden)@c"),
        ("bob:sEc,ReT@host", "(hidden)@host"),
        ("https://bob:sEc\nReT@h", "https://(hidden)@h"),
        ("x" * 300 + ":sEcReT@h", "(hidden)@h"),
        ("http://a:1,http://b:2", "http://a:1,http://b:2"),
        ("y" * 300, "y" * 200 + "..."),
        ("x\ud800", "'x\\ud800'"),
        ("red\x1b[31m", "'red\\x1b[31m'"),
        ("\u202etxet", "'\\u202etxet'"),
    ],
)
def test_a_text_is_shown_without_login_and_in_one_line(text: str, expected: str) -> None:
    assert redacted(text) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("value.converter.schema.registry.url", "https://bob:p@sEcReT@host:8081"),
        ("value.converter.schema.registry.url", "bob:sEcReT@host:8081"),
        ("value.converter.schema.registry.url", "https://bob:my sEcReT@h"),
        ("jvm.proxy.host", "bob:sEcReT@proxy"),
        ("topics", "bob:sEcReT,more@host"),
        ("predicates", "https://bob:sEcReT@h"),
        ("transforms", "https://bob:sEcReT@h"),
        ("snowflake.topic2table.map", "https://bob:sEcReT@h"),
        ("topics.regex", "(sEcReT@h"),
        ("kafka.bootstrap.servers", "bob:sEcReT@h:9092"),
        ("kafka.sasl.oauthbearer.token.endpoint.url", "https://bob:sEcReT@h"),
        ("firn.metrics.host", "bob:sEcReT@host"),
        ("snowflake.jdbc.map", "proxyPassword:sEcReT"),
        ("snowflake.streaming.client.provider.override.map", "private_key:sEcReT"),
    ],
)
def test_a_password_in_a_value_is_in_no_table_and_no_error(name: str, value: str) -> None:
    checked = check_sink_config(MINIMAL | {name: value}, where="x")
    said = "".join(map(repr, (checked.faults, checked.warnings, checked.effective)))
    assert "sEcReT" not in said + "".join(map(str, checked.faults))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("topics", "${env:\ud800}", "not set"),
        ("topics", "${env:\x1b[31m}", "not set"),
        ("topics", "${file:/nowhere\u202e:key}", "cannot be read"),
        ("topics", "${\x1b[31m:key}", "other characters"),
        ("snowflake.private.key", "-----BEGIN PRIVATE KEY-----\ud800-----END PRIVATE KEY-----", "cannot be used"),
    ],
)
def test_half_characters_and_escape_sequences_are_a_fault_of_plain_text(name: str, value: str, said: str) -> None:
    (fault,) = check_sink_config(MINIMAL | {name: value}, where="x").faults
    assert said in fault.problem
    assert (fault.problem + fault.value_shown).isprintable()


def test_names_are_shown_like_values() -> None:
    names = {fault.name for fault in check_sink_config(MINIMAL | {"x\ud800": "1", "\x1b[31m": "1"}, where="x").faults}
    assert names == {"'x\\ud800'", "'\\x1b[31m'"}
