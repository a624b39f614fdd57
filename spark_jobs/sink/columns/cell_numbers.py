"""Values for NUMBER, FLOAT and BOOLEAN columns.

A number keeps its digits where the column has room for them. Sources: "Numeric data types" and "Logical data types" of
Snowflake's SQL reference; which strings count, and half up: DataValidationUtil of snowflake-ingest-java, which the
official connector calls.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import MAX_PRECISION, ColumnType, Kind
from spark_jobs.sink.columns.cell_values import (
    UnfitError,
    decimal_value,
    is_string,
    kept,
    matches,
    no_value_of,
    number_text,
    shown,
    string_value,
)
from spark_jobs.sink.decode.base.scalars import EXACT, boolean_text

# A double has 17 digits: so short a text is cast as well as the shortest one.
_PLAIN = r"-?[0-9][0-9.]{0,23}"
_IS_PLAIN = re.compile(_PLAIN)
_NOT_FINITE = {
    **dict.fromkeys(("nan", "+nan", "-nan"), "NaN"),
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "inf"),
    **dict.fromkeys(("-inf", "-infinity"), "-inf"),
}
_WORDS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
_BITS = {Decimal(0): False, Decimal(1): True}


class NumberConverter:
    """NUMBER: plain digits, at most as many behind the point as the column has, rounded half up.

    A column of whole numbers takes no fraction: that is no rounding of a value but the loss of what it says.
    """

    def __init__(self, type_: ColumnType) -> None:
        self._type, self._whole = type_, type_.size - type_.scale
        self._unit = Decimal(1).scaleb(-type_.scale)
        self._quick = _digits(self._whole, type_.scale)

    def text(self, json: str) -> str:
        """A number or a string that holds one."""
        number = decimal_value(json, self._type)
        if number is None:
            raise no_value_of(json, self._type)
        if number.adjusted() < self._whole and int(number.as_tuple().exponent) < -self._type.scale:
            if not self._type.scale and number != number.to_integral_value(context=EXACT):
                raise UnfitError(f"{shown(json)} has a fraction, and {self._type} holds whole numbers")
            number = number.quantize(self._unit, ROUND_HALF_UP, EXACT)
        if not number:
            return format(number.copy_abs(), "f")
        if number.adjusted() >= self._whole:
            raise self._too_long(json, number)
        return format(number, "f")

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Numbers that fit as they stand."""
        return kept(raw, matches(raw, self._quick))

    def _too_long(self, json: str, number: Decimal) -> UnfitError:
        wider = ColumnType(Kind.NUMBER, MAX_PRECISION, self._type.scale)
        fits = number.adjusted() < MAX_PRECISION - self._type.scale
        return UnfitError(f"{shown(json)} has more digits than {self._type} holds", wider if fits else None)


def _digits(whole: int, scale: int) -> str:
    """The numbers of at most `whole` digits in front of the point and `scale` behind it, without a negative zero."""
    number = f"(?:-?[1-9][0-9]{{0,{whole - 1}}}|0)" if whole else "0"
    if not scale:
        return number
    return rf"{number}(?:\.[0-9]{{1,{scale}}})?|-0\.[0-9]{{0,{scale - 1}}}[1-9]"


class FloatConverter:
    """FLOAT: the number's own text where it is plain and short, else the shortest one; `NaN`, `inf`, `-inf`."""

    def __init__(self, type_: ColumnType) -> None:
        self._type = type_

    def text(self, json: str) -> str:
        """A number, or a string that holds one or says that there is none."""
        if _IS_PLAIN.fullmatch(json):
            return json
        digits = number_text(json)
        if digits is None:
            word = _NOT_FINITE.get(string_value(json).strip().lower()) if is_string(json) else None
            if word is None:
                raise no_value_of(json, self._type)
            return word
        double = float(digits)
        if math.isinf(double):
            raise UnfitError(f"{shown(json)} is too large for a {self._type}")
        return repr(double)

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Plain, short numbers."""
        return kept(raw, matches(raw, _PLAIN))


class BooleanConverter:
    """BOOLEAN: `true` or `false`."""

    def __init__(self, type_: ColumnType) -> None:
        self._type = type_

    def text(self, json: str) -> str:
        """A boolean, the numbers 1 and 0, or one of Snowflake's words for them."""
        if json in ("true", "false"):
            return json
        if is_string(json):
            found = _WORDS.get(string_value(json).strip().lower())
        else:
            number = decimal_value(json, self._type)
            found = None if number is None else _BITS.get(number)
        if found is None:
            raise no_value_of(json, self._type)
        return boolean_text(found)

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Booleans."""
        return kept(raw, pc.is_in(raw, pa.array(["true", "false"])))
