"""Secrets in texts that leave the machine: in every form in which a log, a url, a header or a JSON text has them."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from firn.connector.references import Resolver
from firn.operations.masking import Masking, RecordingResolver

PASSWORD = 'p/w "with+all"\\&%'
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def masking() -> Masking:
    made = Masking()
    for secret in (PASSWORD, KEY, f"user:{PASSWORD}", "abc"):
        made.add(secret)
    return made


@pytest.mark.parametrize(
    "text",
    [
        PASSWORD,
        json.dumps({"value": PASSWORD}),
        f"https://host/?token={quote(PASSWORD, safe='')}",
        base64.b64encode(f"user:{PASSWORD}".encode()).decode(),
        base64.b64encode(PASSWORD.encode()).decode(),
        f"a sentence with {PASSWORD} in it",
    ],
)
def test_a_secret_is_masked_in_each_form(masking: Masking, text: str) -> None:
    masked = masking(text)
    assert "(hidden)" in masked
    for form in (PASSWORD, json.dumps(PASSWORD)[1:-1], quote(PASSWORD, safe="")):
        assert form not in masked
    assert base64.b64encode(PASSWORD.encode()).decode() not in masked


@pytest.mark.parametrize(
    "text", [KEY, KEY.replace("\n", "\\n"), KEY.replace("\n", " "), json.dumps(KEY), KEY.splitlines()[1]]
)
def test_a_private_key_is_masked_as_a_whole_and_line_by_line(masking: Masking, text: str) -> None:
    masked = masking(f"before {text} after")
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert "MIIEvQIBADANBgkqhkiG9w0BAQ" not in masked
    assert "EFAASCBKcwggSjAgEAAoIBAQC7" not in masked


def test_a_short_secret_is_masked_where_it_stands_alone(masking: Masking) -> None:
    assert masking("login abc, abcd and 'abc'") == "login (hidden), abcd and '(hidden)'"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("http://me:unknown1@host/x", "host/x"),
        ('password="unknown1" topic=t', "topic=t"),
        ('{"ssl.key.password": "unknown1", "a": 1}', '"a": 1'),
        ("api_secret=unknown1, b", ", b"),
        ("Authorization: Basic unknown1, b", ", b"),
        ('{\\"password\\": \\"unknown1\\", \\"c\\": 2}', '\\"c\\": 2'),
        ("spark.hadoop.fs.s3a.secret.key=unknown1", "spark.hadoop"),
        ("-----BEGIN RSA PRIVATE KEY-----\nunknown1\n-----END RSA PRIVATE KEY-----", "(hidden)"),
    ],
)
def test_what_looks_like_a_secret_is_masked_too(text: str, left: str) -> None:
    masked = Masking()(text)
    assert "unknown1" not in masked
    assert left in masked


def test_ordinary_texts_stay_as_they_are(masking: Masking) -> None:
    text = "committed batch 3-1: 100 records, topic order-events-0 from 5; http://127.0.0.1:8083/api; secret x in AWS"
    assert masking(text) == text


def test_what_a_reference_leads_to_is_known(monkeypatch) -> None:
    monkeypatch.setenv("TOP_SECRET", "found-by-reference")
    masking = Masking()
    assert RecordingResolver(Resolver(), masking).resolve("a ${env:TOP_SECRET}") == "a found-by-reference"
    assert masking("see found-by-reference") == "see (hidden)"
