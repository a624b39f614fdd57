"""Readers: from the text of one parameter to its typed value. Each knows its type's name and the values allowed.

They take what the official connector takes: pydantic's types do not, which read `1_0` as 10, `5.0` as a whole number,
`on` as true and `inf` as a number of seconds. What depends on several parameters is in `firn.connector.rules`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from firn.connector.parameter import Reader, ReadError
from firn.java_regex import JavaRegexError, java_regex, matches
from firn.registry.endpoint import without_login

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

# The official check: three or more labels, with or without scheme and port (SnowflakeURL of the official connector).
_SNOWFLAKE_URL = re.compile(r"(https?://)?[\w-]+(\.[\w-]+){2,}(:\d+)?/?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$-]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_TOPIC_LENGTH = 249
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{1,254}")
# Azure's file systems name the container in front of the @.
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+")
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_QUOTED = ("STRING", "IDENTIFIER")


def _text(value: str) -> str:
    if not value.strip():
        raise ReadError("is empty")
    return value.strip()


def _boolean(value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ReadError("is neither true nor false")
    return value.strip().lower() == "true"


def _name(value: str) -> str:
    if not _NAME.fullmatch(value.strip()):
        raise ReadError("must begin with a letter or underscore and hold only letters, digits, _, - and $")
    return value.strip()


def _list(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def _topics(value: str) -> tuple[str, ...]:
    topics = _list(value)
    if not topics:
        raise ReadError("names no topic")
    for topic in topics:
        _topic(topic)
    return topics


def _topic(value: str) -> str:
    # Confluent Cloud writes its default as dlq-${connector}; the name is put in later.
    name = value.strip().replace("${connector}", "x")
    if not _TOPIC.fullmatch(name):
        raise ReadError("names a topic with other characters than letters, digits, '.', '_', '-'", detail=repr(value))
    if name in (".", ".."):
        raise ReadError("names a topic as Kafka allows none", detail=repr(value))
    if len(name) > _TOPIC_LENGTH:
        raise ReadError(f"names a topic of more than {_TOPIC_LENGTH} characters", detail=repr(value))
    return value.strip()


def _regex(value: str) -> str:
    try:
        java_regex(_text(value))
    except JavaRegexError as error:
        raise ReadError("is not a regular expression of Java's dialect", detail=str(error)) from None
    return value.strip()


def _table_map(value: str) -> tuple[tuple[str, str], ...]:
    """`<topic or expression>:<table>` pairs; two expressions may not match one topic (the official rule)."""
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        topic, _, table = (piece.strip() for piece in part.partition(":"))
        if not topic or not _TABLE.fullmatch(table):  # a qualified name neither: one sink has one schema
            raise ReadError("is not <topic>:<table>, separated by commas, with valid table names", detail=repr(part))
        _regex(topic)
        for other in pairs:
            if topic == other:
                raise ReadError("maps a topic twice", detail=repr(topic))
            if matches(topic, other) or matches(other, topic):
                raise ReadError("has overlapping topics", detail=f"{other!r} and {topic!r}")
        pairs[topic] = table
    return tuple(pairs.items())


def _url(value: str) -> str:
    if not _SNOWFLAKE_URL.fullmatch(_text(value)):
        raise ReadError("is not a Snowflake address such as https://account.region.snowflakecomputing.com:443")
    return value.strip()


def _urls(value: str) -> tuple[str, ...]:
    urls = _list(value)
    if not urls or not all(map(_is_http, urls)):
        raise ReadError("is not a list of http:// or https:// addresses, separated by commas")
    return urls


def _is_http(url: str) -> bool:
    try:
        without_login(url)
    except ValueError:
        return False
    return " " not in url


def _hosts(value: str) -> tuple[str, ...]:
    """Java's http.nonProxyHosts: patterns separated by `|`; commas are taken too."""
    return tuple(part.strip() for part in re.split(r"[|,]", value) if part.strip())


def _host(value: str) -> str:
    if not _HOST.fullmatch(value.strip()):
        raise ReadError("is not a host name (no scheme, no port)")
    return value.strip()


def _whole(value: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
        raise ReadError("is not a whole number")
    return int(value)


def _pairs(value: str) -> tuple[tuple[str, str], ...]:
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not all(re.fullmatch(r"[^:]+:.+", part) for part in parts):
        raise ReadError("is not <key>:<value>, separated by commas")
    return tuple((part.partition(":")[0].strip(), part.partition(":")[2].strip()) for part in parts)


def _expressions(value: str) -> str:
    """A list of SQL expressions, each trimmed, with `, ` between them: what Snowflake's words are, sqlglot knows.

    They stay as they are written. What they mean, Snowflake says when the table is made.
    """
    from sqlglot.dialects.snowflake import Snowflake  # it takes a second, and few files have expressions
    from sqlglot.errors import TokenError

    try:
        tokens = Snowflake().tokenize(value)
    except TokenError:
        raise ReadError("holds a comment or a quote that is not closed") from None
    if value.strip() and not tokens:
        raise ReadError("holds a comment and no expression")
    commas, opened = [-1], list[str]()
    for token in tokens:
        _refuse_in_expressions(token)
        for mark in token.text if token.token_type.name not in _QUOTED else "":  # `}}` is one token
            if mark in _BRACKETS.values():
                opened.append(mark)
            elif mark in _BRACKETS and (not opened or opened.pop() != _BRACKETS[mark]):
                raise ReadError(f"has a {mark!r} without its opening one")
            elif mark == "," and not opened:
                commas.append(token.start)
    if opened:
        raise ReadError(f"has a {opened[-1]!r} that is not closed")
    parts = [value[start + 1 : end].strip() for start, end in pairwise([*commas, len(value)])]
    if not all(parts):
        raise ReadError("has an empty expression")
    return ", ".join(parts)


def _refuse_in_expressions(token: Token) -> None:
    """Raise ReadError for what would end or hide a part of the statement."""
    kind, found = token.token_type.name, ""
    if token.comments or kind == "HINT":
        found = "a comment"
    elif kind == "SEMICOLON":
        found = "a semicolon"
    elif kind in ("RAW_STRING", "HEREDOC_STRING") or ("$$" in token.text and kind not in _QUOTED):
        found = "a text in $$"
    if found:
        raise ReadError(f"holds {found}, which is no part of an expression")


TEXT = Reader("text", _text)
ANY = Reader("text", str)
BOOLEAN = Reader("boolean", _boolean, ("true", "false"))
NAME = Reader("name", _name)
LIST = Reader("list", _list)
TOPIC = Reader("topic", _topic)
TOPICS = Reader("list of topics", _topics)
REGEX = Reader("regular expression", _regex)
TABLE_MAP = Reader("map", _table_map)
EXPRESSIONS = Reader("list of SQL expressions", _expressions)
SNOWFLAKE_URL = Reader("address", _url)
URLS = Reader("list of addresses", _urls)
HOST = Reader("host", _host)
HOSTS = Reader("list of host patterns", _hosts)
PAIRS = Reader("map", _pairs)


def whole(minimum: int, maximum: int | None = None) -> Reader:
    """A whole number from `minimum` to `maximum`."""

    def parse(value: str) -> int:
        number = _whole(value)
        if number < minimum:
            raise ReadError(f"is below the minimum {minimum}")
        if maximum is not None and number > maximum:
            raise ReadError(f"is above the maximum {maximum}")
        return number

    shown = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
    return Reader("whole number", parse, (shown,))


def at_most(maximum: int) -> Reader:
    """A whole number without a minimum: what is too small is raised by a rule."""

    def parse(value: str) -> int:
        number = _whole(value)
        if number > maximum:
            raise ReadError(f"is above the maximum {maximum}")
        return number

    return Reader("whole number", parse, (f"{maximum} or less",))


def seconds(minimum: float, *, off: bool = False) -> Reader:
    """Seconds, also with a fraction; where it may be `off`, 0 says so."""

    def parse(value: str) -> float:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value.strip()):
            raise ReadError("is not a number of seconds")
        if float(value) < minimum and not (off and float(value) == 0):
            raise ReadError(f"is below the minimum {minimum:g}")
        return float(value)

    return Reader("seconds", parse, (f"{minimum:g} or more{', or 0' if off else ''}",))


def one_of(*allowed: str) -> Reader:
    """One of these words, in any case."""

    def parse(value: str) -> str:
        for choice in allowed:
            if value.strip().lower() == choice.lower():
                return choice
        raise ReadError("is not one of the allowed values")

    return Reader("word", parse, allowed)


def only(value: str, why: str, *synonyms: str) -> Reader:
    """Only the value that says what Firn does in any case; `why` others are refused."""

    def parse(given: str) -> str:
        if given.strip().lower() not in {value.lower(), *(synonym.lower() for synonym in synonyms)}:
            raise ReadError(f"asks for what Firn does not do: {why}")
        return value

    return Reader("boolean" if value in ("true", "false") else "word", parse, (value,), why)


def class_name(known: Mapping[str, Any], kind: str = "class") -> Reader:
    """A Java class by its full name; its simple name is taken too."""
    simple = {name.rpartition(".")[2]: name for name in known}

    def parse(value: str) -> str:
        found = simple.get(value.strip(), value.strip())
        if found not in known:
            raise ReadError(f"is not a {kind} that Firn knows")
        return found

    return Reader("class", parse, tuple(known))
