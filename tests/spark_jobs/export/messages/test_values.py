"""Values of every type keep all their digits in every format, or are refused with the type that could hold them."""

from __future__ import annotations

import base64
import io
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.errors import ConfigError
from firn.snowflake.columns import column_type
from spark_jobs.export.messages.avro_schema import avro_schema
from spark_jobs.export.messages.schema import Field, Record
from spark_jobs.export.messages.types import Form, Scalar, named_scalar, scalar_of
from spark_jobs.export.messages.values import (
    avro_converter,
    connect_converter,
    json_converter,
    python_value,
    text_converter,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def through_avro(scalar: Scalar, payload: Any) -> Any:
    """A payload's value written and read again by fastavro."""
    schema = fastavro.parse_schema(avro_schema(Record("Value", "t", (Field("F", scalar, nullable=True),))))
    convert, body = avro_converter(scalar), io.BytesIO()
    fastavro.schemaless_writer(body, schema, {"F": payload if convert is None else convert(payload)})
    body.seek(0)
    read: Any = fastavro.schemaless_reader(body, schema, None)
    return read["F"]


def through_json(scalar: Scalar, payload: Any) -> Any:
    """A payload's value written by us and read by a parser that keeps digits."""
    return json.loads(orjson.dumps(json_converter(scalar)(payload)), parse_float=Decimal)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: Decimal(n).scaleb(-scale))


@given(number=st.integers(-(10**38) + 1, 10**38 - 1), scale=st.integers(0, 37))
def test_a_number_keeps_its_38_digits(number: int, scale: int) -> None:
    scalar = scalar_of(column_type(f"NUMBER(38,{scale})"))
    sign, digits = ("-" if number < 0 else ""), str(abs(number)).rjust(scale + 1, "0")
    text = f"{sign}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else str(number)
    expected = Decimal(text)
    assert through_avro(scalar, text) == expected
    assert Decimal(through_json(scalar, text)) == expected
    unscaled = base64.b64decode(connect_converter(scalar)(text))
    assert int.from_bytes(unscaled, "big", signed=True) == number
    assert Decimal(text_converter(scalar)(text)) == expected
    assert python_value(scalar, text) == expected


@given(number=st.integers(-(1 << 63), (1 << 63) - 1))
def test_two_complement_has_the_fewest_bytes(number: int) -> None:
    found = avro_converter(Scalar(Form.DECIMAL, 38, 0))(number)  # type: ignore[misc]
    assert int.from_bytes(found, "big", signed=True) == number
    shorter = len(found) - 1
    assert shorter == 0 or not -(1 << (8 * shorter - 1)) <= number < 1 << (8 * shorter - 1)


@given(number=st.floats())
def test_a_float_is_the_same_double(number: float) -> None:
    scalar = scalar_of(column_type("FLOAT"))
    read = through_avro(scalar, repr(number))
    assert read == number or (math.isnan(read) and math.isnan(number))
    if math.isfinite(number):
        assert float(through_json(scalar, repr(number))) == number
    else:
        assert float(through_json(scalar, repr(number))) == number or math.isnan(number)
        with pytest.raises(ValueError, match="JsonConverter"):
            connect_converter(scalar)(repr(number))


@given(text=st.text())
def test_a_text_is_the_same_text(text: str) -> None:
    scalar = scalar_of(column_type("VARCHAR"))
    assert through_avro(scalar, text) == through_json(scalar, text) == text_converter(scalar)(text) == text


@given(content=st.binary())
def test_bytes_are_the_same_bytes(content: bytes) -> None:
    scalar = scalar_of(column_type("BINARY"))
    assert through_avro(scalar, content.hex().upper()) == content
    assert base64.b64decode(through_json(scalar, content.hex())) == content


@given(day=st.dates())
def test_a_date_is_the_same_day(day: date) -> None:
    scalar = scalar_of(column_type("DATE"))
    assert through_avro(scalar, day.isoformat()) == day
    assert through_json(scalar, day.isoformat()) == day.isoformat()


@given(moment=st.times(), digits=st.integers(6, 9))
def test_a_time_is_the_same_time(moment: time, digits: int) -> None:
    scalar = scalar_of(column_type("TIME(9)"))
    text = f"{moment:%H:%M:%S}.{f'{moment.microsecond:06}'.ljust(digits, '0')}"
    assert through_avro(scalar, text) == moment
    assert through_json(scalar, text) == text


@given(
    moment=st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    offset=st.integers(-14 * 60, 14 * 60),
    blank=st.sampled_from("T "),
    colon=st.sampled_from((":", "")),
)
def test_an_instant_is_the_same_instant(moment: datetime, offset: int, blank: str, colon: str) -> None:
    sign, minutes = "-" if offset < 0 else "+", abs(offset)
    zone = f"{sign}{minutes // 60:02}{colon}{minutes % 60:02}"
    text = f"{moment:%Y-%m-%d}".rjust(10, "0") + f"{blank}{moment:%H:%M:%S}.{moment.microsecond:06}000{zone}"
    expected = moment.replace(tzinfo=UTC) - timedelta(minutes=offset)
    assert through_avro(scalar_of(column_type("TIMESTAMP_TZ(9)")), text) == expected
    local = moment.isoformat(sep=blank)
    assert through_avro(scalar_of(column_type("TIMESTAMP_NTZ")), local) == moment


@given(nanos=st.integers(-(1 << 62), (1 << 62)))
def test_nanoseconds_survive_where_the_type_names_them(nanos: int) -> None:
    seconds, rest = divmod(nanos, 1_000_000_000)
    text = f"{(EPOCH + timedelta(seconds=seconds)):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
    convert = avro_converter(named_scalar("timestamp-nanos", "T"))
    assert convert is not None
    assert convert(text) == nanos
    assert json_converter(scalar_of(column_type("TIMESTAMP_LTZ")))(text) == text
    if nanos % 1000:
        with pytest.raises(ValueError, match="timestamp-nanos or string"):
            avro_converter(Scalar(Form.TIMESTAMP_MICROS))(text)  # type: ignore[misc]


@pytest.mark.parametrize(
    "text", ['{"a":12345678901234567890123.4500}', "[1,null,1e-400]", '"x y"', '{\n  "b": "a  \\" b",\n  "c": [ ]\n}']
)
def test_json_keeps_every_digit_and_loses_only_blanks(text: str) -> None:
    scalar = scalar_of(column_type("VARIANT"))
    found = avro_converter(scalar)(msgspec.Raw(text.encode()))  # type: ignore[misc]
    assert json.loads(found, parse_float=str) == json.loads(text, parse_float=str)
    assert "\n" not in found
    assert through_json(scalar, msgspec.Raw(text.encode())) == json.loads(text, parse_float=Decimal)


@pytest.mark.parametrize(
    ("type_", "value", "why"),
    [
        ("int", 2**31, "is no int"),
        ("long", str(2**63), "is no long"),
        ("long", "1.5", "is no decimal"),
        ("decimal(5,2)", "1234.56", r"is no decimal\(5,2\)"),
        ("decimal(5,2)", "1.005", "is no decimal"),
        ("decimal(5,2)", True, "is no decimal"),
        ("boolean", "perhaps", "is no boolean"),
        ("date", "2026-02-30", "is no date"),
        ("date", "2026-02-03T10:00:00", "is no date"),
        ("timestamp-millis", "2026-02-03T10:00:00.0001Z", "not exact as timestamp-millis; name timestamp-micros"),
        ("timestamp-nanos", "3000-01-01T00:00:00", "not exact"),
        ("time-millis", "24:00:00", "is no time-millis"),
        ("bytes", "xyz", "is no bytes"),
        ("uuid", "x", "is no uuid"),
        ("float", 1e39, "is no float"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(type_: str, value: Any, why: str) -> None:
    convert = avro_converter(named_scalar(type_, "C"))
    assert convert is not None
    with pytest.raises(ValueError, match=why):
        convert(value)


def test_a_row_functions_own_types_are_taken() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    assert through_avro(Scalar(Form.TIMESTAMP_MICROS), moment) == moment
    assert through_avro(Scalar(Form.DATE), date(2026, 1, 2)) == date(2026, 1, 2)
    assert through_avro(Scalar(Form.TIME_MICROS), time(1, 2, 3, 4)) == time(1, 2, 3, 4)
    assert through_avro(Scalar(Form.DECIMAL, 5, 2), Decimal("1.5")) == Decimal("1.50")
    assert through_avro(Scalar(Form.DECIMAL, 5, 2), 1.1) == Decimal("1.10")
    assert through_avro(Scalar(Form.STRING), 12) == "12"


def test_an_unknown_type_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="timestamp-millis"):
        named_scalar("timestamp-milis", "C")
