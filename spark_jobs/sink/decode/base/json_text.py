"""JSON as text in and text out, without losing a digit: what the JSON converters share.

Strict as Jackson's parser is by default (RFC 8259: no NaN, no comments, nothing behind the value), in UTF-8. Here and
there different from the official connector, so that nothing is lost or refused later by Snowflake: of equal names in
an object only the last stays, numbers that no Snowflake number holds become strings, half a surrogate pair becomes a
replacement character. Not for: what JSON means to a converter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.scalars import MAX_NUMBER_DIGITS
from spark_jobs.sink.values.bad_records import INVALID_JSON, INVALID_UTF8

# orjson prints no deeper; what people write is never near it.
MAX_DEPTH = 254

_BLANKS = " \t\r\n"
_SAFE_INTEGER = 18  # any integer of so many characters fits 64 bits
_SAFE_DOUBLE = 15  # any decimal of so many digits is told apart by a double
_LEAST_NORMAL = 2.3e-308  # below it doubles lose digits
_MAX_SCALE = 37
_LONGEST_INTEGER = 4_000  # digits that Python turns into an int
_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
# Possessive: what a string was is never asked again, and the positions in it would take a hundred times its memory.
_CONSTANT = re.compile(r'"(?:[^"\\]++|\\.)*+"|(-?(?:NaN|Infinity))', re.DOTALL)


def utf8(value: bytes) -> str:
    """The text of a JSON document, without a byte order mark. Raises MalformedError."""
    try:
        return value.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(INVALID_UTF8, f"byte {error.start} is not UTF-8: {error.reason}") from None


def is_blank(text: str) -> bool:
    """Whether there is no document at all."""
    return not text.strip(_BLANKS)


def parse(text: str) -> Any:
    """The value of one JSON document; numbers are int or Decimal. Raises MalformedError."""
    return _parse(text, _whole_number, _decimal)


def exact(text: str) -> Any:
    """The value of one JSON document, whose long numbers are kept as text: for `printed`. Raises MalformedError."""
    return _parse(text, _integer, _fraction)


def _parse(text: str, integer: Callable[[str], Any], fraction: Callable[[str], Any]) -> Any:
    if "\\ud" in text or "\\uD" in text:
        text = _SURROGATE.sub(lambda found: "\\ufffd" if found[1] else found[0], text)

    def constant(name: str) -> Any:
        at = next((found.start() for found in _CONSTANT.finditer(text) if found[1]), 0)
        raise MalformedError(INVALID_JSON, f"{name} is not JSON: char {at}")

    try:
        return json.loads(text, parse_int=integer, parse_float=fraction, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise MalformedError(INVALID_JSON, str(error)) from None


def printed(value: Any) -> str:
    """The compact text of what `exact` gave. Raises MalformedError where it is nested too deeply."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        raise MalformedError(INVALID_JSON, f"nested more than {MAX_DEPTH} levels deep") from None


def number_text(token: str) -> str:
    """A JSON number as it stands, or as a string where neither NUMBER(38) nor a double holds all its digits."""
    mantissa = token.lower().partition("e")[0]
    digits = mantissa.lstrip("-").replace(".", "").lstrip("0")
    if not digits or (len(digits) <= MAX_NUMBER_DIGITS and _is_held(token, len(digits))):
        return token
    return f'"{token}"'


def _is_held(token: str, digits: int) -> bool:
    double = float(token)
    if math.isinf(double) or double == 0:
        return False
    if digits <= _SAFE_DOUBLE and abs(double) > _LEAST_NORMAL:
        return True
    number = Decimal(token)
    exponent = int(number.as_tuple().exponent)
    scale, whole = max(0, -exponent), max(0, digits + exponent)
    fits = scale <= _MAX_SCALE and whole + scale <= MAX_NUMBER_DIGITS
    return fits or Decimal(repr(double)) == number


def _whole_number(token: str) -> int | Decimal:
    return int(token) if len(token) <= _LONGEST_INTEGER else Decimal(token)


def _decimal(token: str) -> Decimal:
    try:
        return Decimal(token)
    except InvalidOperation:
        raise MalformedError(INVALID_JSON, f"the exponent of {token[-40:]} is beyond all bounds") from None


def _integer(token: str) -> Any:
    return int(token) if len(token) <= _SAFE_INTEGER else orjson.Fragment(number_text(token))


def _fraction(token: str) -> Any:
    return orjson.Fragment(number_text(token))
