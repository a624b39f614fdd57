"""Malformed records are told apart, and none becomes a row of nulls; a registry that fails judges no record."""

from __future__ import annotations

import json
import socket

import pyarrow as pa
import pytest

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.errors import AuthenticationError, ConfigError, FirnError, TransientError
from firn.registry.faults import UnknownSchemaError
from firn.registry.login import RegistryLogin, registry_client
from firn.registry.schemas import RegisteredSchema, registered_schema
from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.contract import Decoded
from spark_jobs.sink.decode.converters import converter_for
from spark_jobs.sink.values import bad_records
from tests.spark_jobs.sink.decode.avro_cases import Json, frame, write
from tests.spark_jobs.sink.decode.test_converters import VALUES, container
from tests.support.answering import answering


def nullable(*types: Json) -> Json:
    """A record whose fields may all be null."""
    fields = [{"name": f"f{at}", "type": ["null", each]} for at, each in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


# The first one is decoded by vectors, the second one by the reference (bytes are not for vectors).
QUICK, RICH = nullable("long", "string"), nullable("long", "bytes")
ROW = frame(write(QUICK, {"f0": 7, "f1": "seven"}))
JSON_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PROTO2 = 'syntax = "proto2"; message A { optional string a = 1; optional int64 n = 2; }'
SCHEMAS = {
    1: RegisteredSchema("AVRO", json.dumps(QUICK)),
    2: RegisteredSchema("AVRO", json.dumps(RICH)),
    3: RegisteredSchema("AVRO", '{"type":"unheard-of"}'),
    4: RegisteredSchema("JSON", json.dumps(JSON_SCHEMA)),
    5: RegisteredSchema("PROTOBUF", PROTO2),
}


def schema_of(schema_id: int) -> RegisteredSchema:
    if schema_id not in SCHEMAS:
        raise UnknownSchemaError("not here")
    return SCHEMAS[schema_id]


def decode(format_: Format, *values: bytes | None) -> Decoded:
    return converter_for(ConverterConfig(format_), schema_of).decode(pa.array(values, pa.binary()))


GOOD: dict[Format, tuple[bytes, str]] = VALUES | {
    Format.AVRO: (ROW, '{"f0":7,"f1":"seven"}'),
    Format.JSON_SCHEMA: (frame(b'{"n":7}', 4), '{"n":7}'),
    Format.PROTOBUF: (frame(b"\0\x0a\x01a", 5), '{"a":"a","n":null}'),
}
MALFORMED = [
    (Format.AVRO, b"", "too_short"),
    (Format.AVRO, b"\0\0\0\0", "too_short"),
    (Format.AVRO, b"{}", "wrong_magic"),
    (Format.AVRO, frame(b"", 9), "unknown_schema_id"),
    (Format.AVRO, frame(b"", 3), "invalid_schema"),
    (Format.AVRO, frame(b"", 4), "invalid_schema"),
    (Format.AVRO, ROW[:-1], "malformed_avro"),
    (Format.AVRO, frame(b"\x02\x0e\x04"), "malformed_avro"),
    (Format.AVRO, ROW + b"\0", "trailing_bytes"),
    (Format.AVRO, frame(b"\0\x02\x04\xc3\x28"), "invalid_utf8"),
    (Format.AVRO_FILE, b"Obj", "malformed_container"),
    (Format.AVRO_FILE, container("string", "a")[:-4], "malformed_container"),
    (Format.JSON_SCHEMA, b"\0", "too_short"),
    (Format.JSON_SCHEMA, b'{"n":7}', "wrong_magic"),
    (Format.JSON_SCHEMA, frame(b'{"n":7}', 9), "unknown_schema_id"),
    (Format.JSON_SCHEMA, frame(b"\x02", 1), "invalid_schema"),
    (Format.JSON_SCHEMA, frame(b'{"n":', 4), "invalid_json"),
    (Format.JSON_SCHEMA, frame(b'{"n":7} 1', 4), "invalid_json"),
    (Format.JSON_SCHEMA, frame(b'{"n":"\xff"}', 4), "invalid_utf8"),
    (Format.JSON_SCHEMA, frame(b'{"n":"seven"}', 4), "schema_mismatch"),
    (Format.JSON_SCHEMA, frame(b"{}", 4), "schema_mismatch"),
    (Format.PROTOBUF, b"\0\0", "too_short"),
    (Format.PROTOBUF, b"\x0a\x01a", "wrong_magic"),
    (Format.PROTOBUF, frame(b"\0\x0a\x01a", 9), "unknown_schema_id"),
    (Format.PROTOBUF, frame(b"\0\x0a\x01a", 1), "invalid_schema"),
    (Format.PROTOBUF, frame(b"\0\x0a\x05a", 5), "malformed_protobuf"),
    (Format.PROTOBUF, frame(b"\0\x0a\x02\xc3\x28", 5), "invalid_utf8"),
    (Format.PROTOBUF, frame(b"\x02\x02", 5), "schema_mismatch"),
    (Format.JSON, b'{"a":', "invalid_json"),
    (Format.JSON, b'{"a":1}{"b":2}', "invalid_json"),
    (Format.JSON, b'"\xff"', "invalid_utf8"),
    (Format.JSON_ENVELOPE, b'{"schema":', "invalid_json"),
    (Format.JSON_ENVELOPE, b'{"schema":{"type":"string"},"payload":"\xff"}', "invalid_utf8"),
    (Format.JSON_ENVELOPE, b'{"schema":{"type":"string"},"payload":5}', "schema_mismatch"),
    (Format.JSON_ENVELOPE, b'{"schema":{"type":"enum"},"payload":5}', "invalid_schema"),
    (Format.BOOLEAN, b"", "wrong_size"),
    (Format.SHORT, b"\0", "wrong_size"),
    (Format.INTEGER, b"\0" * 5, "wrong_size"),
    (Format.LONG, b"\0" * 4, "wrong_size"),
    (Format.FLOAT, b"\0" * 8, "wrong_size"),
    (Format.DOUBLE, b"\0" * 7, "wrong_size"),
]


@pytest.mark.parametrize(("format_", "value", "reason"), MALFORMED)
def test_a_malformed_record_has_its_reason_and_its_neighbours_land(format_: Format, value: bytes, reason: str) -> None:
    good, text = GOOD[format_]
    decoded = decode(format_, good, value, good)
    assert decoded.content.to_pylist() == [text, None, text]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(1, reason)]
    assert decoded.bad[0].detail
    assert decoded.schema_ids[1].as_py() is None


def test_every_reason_is_shown_here() -> None:
    reasons = {word for name, word in vars(bad_records).items() if name.isupper() and isinstance(word, str)}
    of_tables = {
        "not_an_object",
        "unknown_field",
        "unfitting_value",
        "missing_value",
        "ambiguous_field",
        "too_many_columns",
    }
    elsewhere = {
        "too_large",
        "not_looked_up",
        "unreadable_header",  # tests/spark_jobs/sink/task/test_convert.py
        "rejected_by_snowflake",  # tests/spark_jobs/sink/continuous
    }
    assert {reason for _, _, reason in MALFORMED} == reasons - of_tables - elsewhere


@pytest.mark.parametrize("schema_id", [1, 2])
def test_a_truncated_avro_record_is_never_a_row_of_nulls(schema_id: int) -> None:
    """Spark's from_avro gives one in its permissive mode, where all fields may be null."""
    row = {"f0": 2**40, "f1": "seven" if schema_id == 1 else b"seven"}
    body = write(QUICK if schema_id == 1 else RICH, row)
    decoded = decode(Format.AVRO, *(frame(body[:end], schema_id) for end in range(len(body))))
    assert decoded.content.null_count == len(body)
    assert {bad.reason for bad in decoded.bad} == {"malformed_avro"}
    assert [bad.row for bad in decoded.bad] == [*range(len(body))]


OVERSIZED = [
    (Format.AVRO, frame(b"\0\x02" + b"\xc8\x01" + b"x" * 100)),
    (Format.AVRO, frame(b"\0\x02" + b"\xc8\x01" + b"x" * 100, 2)),
    (Format.AVRO_FILE, container("string", "x" * 100)),
    (Format.JSON_SCHEMA, frame(json.dumps({"n": 7, "more": "x" * 100}).encode(), 4)),
    (Format.PROTOBUF, frame(b"\0\x0a\x64" + b"x" * 100, 5)),
    (Format.JSON, json.dumps("x" * 100).encode()),
    (Format.JSON_ENVELOPE, json.dumps({"schema": {"type": "string"}, "payload": "x" * 100}).encode()),
    (Format.STRING, b"x" * 100),
    (Format.BYTES, b"x" * 100),
]


@pytest.mark.parametrize(("format_", "value"), OVERSIZED)
def test_what_no_variant_holds_is_too_large(format_: Format, value: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    good, text = GOOD[format_]
    assert not decode(format_, value).bad
    monkeypatch.setattr(contract, "MAX_TEXT", 90)
    monkeypatch.setattr("spark_jobs.sink.decode.avro.vector.MAX_TEXT", 90)
    decoded = decode(format_, good, None, value, good)
    assert decoded.content.to_pylist() == [text, None, None, text]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(2, "too_large")]


def decoded_with(url: str, format_: Format, **limits: float) -> Decoded:
    client = registry_client(RegistryLogin((url,)))
    client._rest_client.session.timeout = limits.get("timeout", 5.0)
    decoder = converter_for(ConverterConfig(format_), lambda schema_id: registered_schema(client, schema_id))
    return decoder.decode(pa.array([b"junk", frame(b"\0", 1)], pa.binary()))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, b'{"error_code": 50001, "message": "Error in the backend"}', TransientError),
        (503, b"<html>maintenance</html>", TransientError),
        (429, b"{}", TransientError),
        (401, b'{"error_code": 401, "message": "Unauthorized"}', AuthenticationError),
        (403, b"{}", AuthenticationError),
        (404, b"<html>another server</html>", ConfigError),
        (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}', ConfigError),
        (200, b"<html>a login page</html>", ConfigError),
    ],
)
def test_a_registry_that_fails_judges_no_record(status: int, body: bytes, kind: type[FirnError]) -> None:
    with answering(status, body) as url:
        for format_ in (Format.AVRO, Format.JSON_SCHEMA, Format.PROTOBUF):
            with pytest.raises(kind):
                decoded_with(url, format_)


def test_a_registry_that_does_not_answer_judges_no_record() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TransientError, match="does not answer"):
            decoded_with(url, Format.AVRO, timeout=0.2)
    with pytest.raises(TransientError, match="does not answer"):
        decoded_with(url, Format.AVRO)  # nobody listens there any more


def test_only_the_registrys_own_word_makes_an_id_unknown() -> None:
    with answering(404, b'{"error_code": 40403, "message": "Schema not found"}') as url:
        decoded = decoded_with(url, Format.AVRO)
    assert [bad.reason for bad in decoded.bad] == ["wrong_magic", "unknown_schema_id"]
    assert "id 1" in decoded.bad[1].detail
