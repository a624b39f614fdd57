"""The text of a user's pipe, taken apart as far as a sink needs it: where its COPY goes, and which SELECT it has.

Only words, quotes, comments and parentheses are understood, as sqlglot's tokenizer for Snowflake gives them. Its parser
is not asked: the SELECT is left to Snowflake, letter by letter. Grammar:
https://docs.snowflake.com/en/sql-reference/sql/create-pipe and .../copy-into-table. Not for statements (`pipes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_OPEN, _CLOSE = "(", ")"
_NAME = "IDENTIFIER"
_QUOTED = {_NAME, "STRING", "RAW_STRING", "HEREDOC_STRING", "NATIONAL_STRING"}
"""Types of tokens, as sqlglot calls them: a name in double quotes, and the kinds of texts."""


class UnreadableError(ValueError):
    """The definition is not what a sink can load a table with; the message says what is wrong with it."""


@dataclass(frozen=True)
class Definition:
    """A COPY over DATA_SOURCE(TYPE => 'STREAMING').

    table: the parts of the target's name as Snowflake keeps them, 1 to 3. targets: the columns that it names. select:
    the SELECT as a format string with `{source}`; None where columns are matched by name instead.
    """

    table: tuple[str, ...]
    targets: tuple[str, ...]
    select: str | None


def read_definition(text: str) -> Definition | None:
    """What `text` (SHOW PIPES, column definition) says; None where it is no COPY of streamed rows.

    Raises UnreadableError where it is one, and not one that a sink can run.
    """
    if "DATA_SOURCE" not in text.upper():
        return None
    tokens = _tokens(text)
    sources = list(_sources(tokens))
    if not sources:
        return None
    if len(sources) > 1:
        raise UnreadableError("it reads DATA_SOURCE more than once")
    reader = _Reader(text, tokens)
    reader.expect("COPY", "INTO")
    table, targets = reader.name(), reader.columns()
    reader.expect("FROM")
    inside = reader.parenthesised()
    by_name = _matches_by_name(tokens[reader.at :])
    if inside is None and not by_name:
        raise UnreadableError("it has neither a SELECT nor MATCH_BY_COLUMN_NAME")
    if inside is None:
        return Definition(table, targets, None)
    if by_name:
        raise UnreadableError("it has both a SELECT and MATCH_BY_COLUMN_NAME")
    return Definition(table, targets, _select(text, tokens[inside], sources[0]))


def _select(text: str, tokens: list[Token], source: tuple[int, int]) -> str:
    """The SELECT that these tokens are, as a format string: {source} for the source, its own braces doubled."""
    start, end = (tokens[0].start, tokens[-1].end + 1) if tokens else (0, 0)
    if not tokens or _word(tokens[0]) != "SELECT" or not start < source[0] < end:
        raise UnreadableError("it has no SELECT over DATA_SOURCE in the parentheses behind FROM")
    before, behind = (
        part.replace("{", "{{").replace("}", "}}") for part in (text[start : source[0]], text[source[1] : end])
    )
    alias_follows = re.match(r'[\w$"]', behind)
    return f"{before}{{source}}{' ' if alias_follows else ''}{behind}"


def _tokens(text: str) -> list[Token]:
    """The words, names, texts and marks; no blanks and no comments. start and end: of the first and last character."""
    from sqlglot.dialects.snowflake import Snowflake  # it takes long to import, and few sinks have pipes to read
    from sqlglot.errors import TokenError

    try:
        return Snowflake().tokenize(text)
    except TokenError:
        raise UnreadableError("it has a quote or a comment that is not closed") from None


def _word(token: Token) -> str:
    """A word in upper case, or a mark; empty for quoted names and texts."""
    return "" if token.token_type.name in _QUOTED else token.text.upper()


def _sources(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    """(start, end) of each TABLE(DATA_SOURCE(TYPE => 'STREAMING')) in the text."""
    wanted = ("TABLE", _OPEN, "DATA_SOURCE", _OPEN, "TYPE", "=>", "", _CLOSE, _CLOSE)
    for at in range(len(tokens) - len(wanted) + 1):
        found = tokens[at : at + len(wanted)]
        if tuple(map(_word, found)) == wanted and _is_streaming(found[6]):
            yield found[0].start, found[-1].end + 1


def _is_streaming(token: Token) -> bool:
    return token.token_type.name != _NAME and token.text.upper() == "STREAMING"


def _matches_by_name(options: list[Token]) -> bool:
    """Whether MATCH_BY_COLUMN_NAME is among them, and not NONE."""
    words = list(map(_word, options))
    at = words.index("MATCH_BY_COLUMN_NAME") if "MATCH_BY_COLUMN_NAME" in words else -1
    return at >= 0 and words[at + 1 : at + 3] != ["=", "NONE"]


class _Reader:
    """Goes through tokens from the first to the last."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text, self._tokens = text, tokens
        self.at = 0

    def _here(self) -> str:
        return _word(self._tokens[self.at]) if self.at < len(self._tokens) else ""

    def _found(self) -> str:
        """What stands here, as it is written."""
        if self.at >= len(self._tokens):
            return "its end"
        return self._text[self._tokens[self.at].start : self._tokens[self.at].end + 1][:40]

    def expect(self, *words: str) -> None:
        """Pass these words."""
        for word in words:
            if self._here() != word:
                raise UnreadableError(f"{word} is expected in its COPY, found {self._found()}")
            self.at += 1

    def name(self) -> tuple[str, ...]:
        """Pass a name of one to three parts."""
        parts = [self._part()]
        while self._here() == ".":
            self.at += 1
            parts.append(self._part())
        return tuple(parts)

    def _part(self) -> str:
        token = self._tokens[self.at] if self.at < len(self._tokens) else None
        quoted = token is not None and token.token_type.name == _NAME
        if token is None or not (quoted or re.fullmatch(r"[\w$]+", _word(token))):
            raise UnreadableError(f"a name is expected in its COPY, found {self._found()}")
        self.at += 1
        return token.text if quoted else token.text.upper()

    def columns(self) -> tuple[str, ...]:
        """Pass the names in parentheses, if they come next."""
        if self._here() != _OPEN:
            return ()
        names = []
        while self._here() in (_OPEN, ","):
            self.at += 1
            names.append(self._part())
        self.expect(_CLOSE)
        return tuple(names)

    def parenthesised(self) -> slice | None:
        """Pass what is in parentheses, and say where it is; None, and nothing is passed, where none come next."""
        if self._here() != _OPEN:
            return None
        first, depth = self.at + 1, 0
        for at in range(self.at, len(self._tokens)):
            depth += {_OPEN: 1, _CLOSE: -1}.get(_word(self._tokens[at]), 0)
            if depth == 0:
                self.at = at + 1
                return slice(first, at)
        raise UnreadableError("its parentheses do not match")
