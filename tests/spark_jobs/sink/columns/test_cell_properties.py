"""Whatever the values: the quick way and the reference agree, and canonical texts mean what the JSON text meant."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.snowflake.columns import ColumnType, Kind, column_type
from spark_jobs.sink.columns.cell_converters import UnfitError
from spark_jobs.sink.columns.cells import Cells, Misfit, converter, to_cells

QUICK = settings(max_examples=150, deadline=None)
EXACT = Context(prec=5_000)
BEYOND_DECIMAL = "1e99999999999999999999"
TYPES = [
    "NUMBER(38,0)",
    "NUMBER(10,2)",
    "NUMBER(3,3)",
    "FLOAT",
    "BOOLEAN",
    "VARCHAR(7)",
    "VARCHAR",
    "BINARY(3)",
    "DATE",
    "TIME(0)",
    "TIME(6)",
    "TIMESTAMP_NTZ(9)",
    "TIMESTAMP_LTZ(0)",
    "TIMESTAMP_TZ(3)",
    "VARIANT",
    "OBJECT",
    "ARRAY",
    "GEOGRAPHY",
]

moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))
offsets = st.sampled_from(["", "Z", "+0000", "+00:00", "+02:00", "-0530", "+14", "+14:01", "+02:60"])
fractions = st.sampled_from(["", ".1", ".120", ".123", ".1234567890"])
numbers = st.one_of(
    st.integers(-(10**15), 10**15).map(str),
    st.integers(10**37, 10**40).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str).map(str.lower),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["0", "-0", "0.0", "-0.00", "-0.05", "0e99", "1e-999999999", "-1E+999999999", BEYOND_DECIMAL]),
)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    numbers,
    moments.map(datetime.isoformat),
    st.tuples(moments, st.sampled_from("T "), fractions, offsets).map(
        lambda each: f"{each[0]:%Y-%m-%d}{each[1]}{each[0]:%H:%M:%S}{each[2]}{each[3]}"
    ),
    st.tuples(moments, fractions, offsets).map(lambda each: f"{each[0]:%H:%M:%S}{each[1]}{each[2]}"),
    st.sampled_from(
        ["NaN", "-Infinity", "true", "OFF", "2023-02-29", "24:00:00", "12:60", "[1]", '{"a":1}', "{", "AAE="]
    ),
    st.binary(max_size=6).map(lambda raw: b64encode(raw).decode()),
)
strings = st.one_of(
    texts.map(json.dumps), texts.map(lambda text: json.dumps(text, ensure_ascii=False)), st.just(r'"\ud800"')
)
nested = st.sampled_from(["[]", "{}", '[1, "a b"]', '{"a" : [null]}', r'{"a":"\\"}'])
values = st.one_of(st.sampled_from(["null", "true", "false"]), numbers, strings, nested)


def one(raw: str, name: str) -> str | None:
    """The canonical text of one value that fits."""
    cells = to_cells(pa.array([raw]), column_type(name))
    assert not cells.misfits, cells.misfits
    text: str | None = cells.texts[0].as_py()
    return text


def misfit(raw: str, name: str) -> Misfit:
    """What is said of one value that does not fit."""
    cells = to_cells(pa.array([raw]), column_type(name))
    assert cells.texts.to_pylist() == [None]
    return cells.misfits[0]


def judged(raw: pa.StringArray, type_: ColumnType) -> Cells:
    """The reference alone."""
    found: list[str | None] = []
    misfits = []
    for row, text in enumerate(raw.to_pylist()):
        try:
            found.append(None if text is None or text == "null" else converter(type_).text(text))
        except UnfitError as error:
            found.append(None)
            misfits.append(Misfit(row, error.detail, error.wider))
    return Cells(pa.array(found, pa.string()), tuple(misfits))


@QUICK
@given(raw=st.lists(st.none() | values, max_size=12), name=st.sampled_from(TYPES))
def test_the_quick_way_gives_what_the_reference_gives(raw: list[str | None], name: str) -> None:
    array = pa.array(["true", *raw], pa.string()).slice(1)
    assert to_cells(array, column_type(name)) == judged(array, column_type(name))


@pytest.mark.full
@settings(max_examples=5_000, deadline=None)
@given(raw=st.lists(values, max_size=3), name=st.sampled_from(TYPES))
def test_the_quick_way_gives_what_the_reference_gives_thoroughly(raw: list[str], name: str) -> None:
    array = pa.array(raw, pa.string())
    assert to_cells(array, column_type(name)) == judged(array, column_type(name))


@QUICK
@given(number=numbers, size=st.integers(1, 38), data=st.data())
def test_a_number_is_rounded_half_up_and_fits_or_is_refused(number: str, size: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, min(size, 37)))
    cells = to_cells(pa.array([number, json.dumps(number)]), ColumnType(Kind.NUMBER, size, scale))
    first, second = cells.texts.to_pylist()
    assert first == second
    if number == BEYOND_DECIMAL:
        assert first is None
        return
    if scale == 0 and first is None and Decimal(number) != Decimal(number).to_integral_value(context=EXACT):
        return  # a fraction, where the column holds whole numbers
    if first is None:
        assert abs(float(number)) > 10.0 ** (size - scale) * 0.99
        return
    assert "e" not in first.lower()
    assert len(first.partition(".")[2]) <= scale
    assert Decimal(first).adjusted() < size - scale or not Decimal(first)
    if scale == 0:
        assert Decimal(first) == Decimal(number)
    elif abs(float(number)) > 1e-300:
        assert Decimal(first) == Decimal(number).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)


@QUICK
@given(st.integers(-(10**38) + 1, 10**38 - 1))
def test_integers_of_38_digits_keep_them(number: int) -> None:
    assert one(str(number), "NUMBER(38,0)") == str(number)


@QUICK
@given(st.floats())
def test_a_float_reads_back_as_the_same_float(value: float) -> None:
    raw = repr(value) if math.isfinite(value) else json.dumps(str(value))
    assert repr(float(str(one(raw, "FLOAT")))) == repr(value)


@QUICK
@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans())
def test_a_string_keeps_its_characters(text: str, ascii_only: bool) -> None:
    assert one(json.dumps(text, ensure_ascii=ascii_only), "VARCHAR") == text


@QUICK
@given(st.binary())
def test_bytes_written_as_base64_keep_their_bytes(raw: bytes) -> None:
    assert one(json.dumps(b64encode(raw).decode()), "BINARY") == raw.hex().upper()


@QUICK
@given(moments, st.sampled_from([0, 1, 90, -330, 840]))
def test_a_text_with_an_offset_is_the_moment_or_the_date_and_time_as_written(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    raw = json.dumps(zoned.isoformat(timespec="microseconds"))
    assert one(raw, "TIMESTAMP_NTZ(6)") == moment.isoformat(" ", "microseconds")
    assert one(raw, "TIMESTAMP_LTZ(6)") == zoned.astimezone(UTC).isoformat(" ", "microseconds")
    assert one(raw, "TIMESTAMP_TZ(6)") == zoned.isoformat(" ", "microseconds")
    assert one(raw, "DATE") == moment.date().isoformat()


@QUICK
@given(moments, st.sampled_from([0, 3, 6, 9]))
def test_a_number_is_the_moment_that_its_unit_tells(moment: datetime, power: int) -> None:
    moment = moment.replace(microsecond=0)
    seconds = int((moment - datetime(1970, 1, 1)) / timedelta(seconds=1))
    limit = 31_536_000_000
    of_this_unit = limit > abs(seconds) >= (limit / 1_000 if power else 0) or power == 9
    if of_this_unit and abs(seconds) * 10**power >= (limit * 10 ** (power - 3) if power else 0):
        assert one(str(seconds * 10**power), "TIMESTAMP_NTZ(0)") == moment.isoformat(" ")


@QUICK
@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_milliseconds_that_are_known_to_be_so_are_read_as_such(millis: int) -> None:
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=millis)
    cells = to_cells(pa.array([str(millis)]), column_type("TIMESTAMP_NTZ(3)"), millis=True)
    assert cells.texts.to_pylist() == [moment.isoformat(" ", "milliseconds")]
