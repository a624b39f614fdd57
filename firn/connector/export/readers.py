"""Readers of what only an export's parameters hold: milliseconds, names of columns, expressions, maps with `;`."""

from __future__ import annotations

import re

from firn.connector.parameter import Reader, ReadError
from firn.connector.readers import EXPRESSIONS, LIST, REGEX, TEXT

_COLUMN = re.compile(r'"(?:[^"]|"")+"|[A-Za-z_][A-Za-z0-9_$]*')
_OBJECT = re.compile(rf"(?:(?:{_COLUMN.pattern})\.){{0,2}}(?:{_COLUMN.pattern})")
_TEMPLATE = re.compile(r"(?:[A-Za-z0-9._-]|\{(?:database|schema|table|stream|source)\})+")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SCHEDULE = re.compile(r"(?:[1-9][0-9]*\s+(?:SECONDS?|MINUTES?|HOURS?|[SMH])|USING\s+CRON\s+\S.*)", re.IGNORECASE)


def _parts(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(";") if part.strip())


def _columns(value: str) -> tuple[str, ...]:
    """Names as they are written in SQL; one with a comma or a dot in it stands in double quotes."""
    found = tuple(re.findall(rf"\s*({_COLUMN.pattern})\s*(?:,|$)", value))
    if not found or ",".join(found) != ",".join(part.strip() for part in value.strip().strip(",").split(",")):
        raise ReadError("is not a list of columns; one that is not plain stands in double quotes")
    return found


def _objects(value: str) -> tuple[str, ...]:
    names: tuple[str, ...] = LIST.parse(value)
    for name in names:
        if not _OBJECT.fullmatch(name):
            raise ReadError("is not a list of names, each with or without database and schema", detail=repr(name))
    return names


def _regexes(value: str) -> tuple[str, ...]:
    return tuple(REGEX.parse(part) for part in LIST.parse(value))


def _template(value: str) -> str:
    if not _TEMPLATE.fullmatch(value.strip()):
        raise ReadError(
            "holds other characters than those of a topic and {database}, {schema}, {table}, {stream} and {source}"
        )
    return value.strip()


def _prefix(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", value.strip()):
        raise ReadError("holds other characters than letters, digits, '.', '_', '-'")
    return value.strip()


def _types(value: str) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(piece.strip() for piece in part.rpartition(":")[::2]) for part in _parts(value)]
    if not pairs or not all(name and kind for name, kind in pairs):
        raise ReadError("is not <column>:<type>, separated by semicolons")
    return tuple((name, kind) for name, kind in pairs)


def _keys(value: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Debezium's `<schema.table>:<column>,<column>;...`, or columns alone, with an empty expression."""
    if ":" not in value:
        return (("", _columns(value)),)
    found = []
    for part in _parts(value):
        table, _, columns = part.rpartition(":")
        found.append((REGEX.parse(table), _columns(columns)))
    return tuple(found)


def _function(value: str) -> str:
    if not _FUNCTION.fullmatch(value.strip()):
        raise ReadError("is not <module>:<function>")
    return value.strip()


def _schedule(value: str) -> str:
    if not _SCHEDULE.fullmatch(value.strip()) or "'" in value:
        raise ReadError("is no schedule of a task, such as `1 MINUTE` or `USING CRON 0 * * * * UTC`")
    return value.strip()


def _query(value: str) -> str:
    text: str = TEXT.parse(value)
    from sqlglot.dialects.snowflake import Snowflake  # it takes a second, and few files have SQL
    from sqlglot.errors import TokenError

    try:
        tokens = Snowflake().tokenize(text)
    except TokenError:
        raise ReadError("holds a comment or a quote that is not closed") from None
    if not tokens or tokens[0].text.upper() not in ("SELECT", "WITH"):
        raise ReadError("is not one SELECT")
    if any(token.token_type.name == "SEMICOLON" for token in tokens):
        raise ReadError("holds a semicolon: it must be one statement, without one at its end")
    if any(token.comments for token in tokens[-1:]):
        raise ReadError("ends in a comment, which would hide what Firn puts behind it")
    return text


def milliseconds(minimum: int) -> Reader:
    """Milliseconds as Kafka Connect has them; the value is in seconds."""

    def parse(value: str) -> float:
        if not re.fullmatch(r"[0-9]{1,12}", value.strip()) or int(value) < minimum:
            raise ReadError("is not a number of milliseconds")
        return int(value) / 1000

    return Reader("milliseconds", parse, (f"{minimum} or more",))


COLUMNS = Reader("list of columns", _columns)
OBJECTS = Reader("list of names", _objects)
REGEXES = Reader("list of regular expressions", _regexes)
TOPIC_TEMPLATE = Reader("topic template", _template)
PREFIX = Reader("text", _prefix)
TYPES = Reader("map", _types)
KEYS = Reader("columns, or map", _keys)
FUNCTION = Reader("function", _function)
SCHEDULE = Reader("schedule", _schedule)
QUERY = Reader("SQL", _query)
CONDITION = Reader("SQL condition", EXPRESSIONS.parse)
