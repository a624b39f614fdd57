"""The text of a user's pipe, taken apart as far as a sink needs it: where its COPY goes, and which SELECT it has.

Only words, quotes, comments and parentheses are understood: the SELECT itself is left to Snowflake, letter by letter.
Grammar: https://docs.snowflake.com/en/sql-reference/sql/create-pipe and .../copy-into-table; how texts, names and
comments are written: .../sql-reference/data-types-text and .../identifiers-syntax. Not for statements (`pipes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<blank>   \s+ | --[^\r\n]* | //[^\r\n]* | /\*.*?\*/ )
  | (?P<text>    '(?:[^'\\]|\\.|'')*' | \$\$.*?\$\$ )
  | (?P<name>    "(?:[^"]|"")*" )
  | (?P<word>    [\w$]+ )
  | (?P<mark>    => | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN, _CLOSE = "(", ")"


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


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A word in upper case, or a mark; empty for quoted names and texts."""
        return self.text.upper() if self.kind in ("word", "mark") else ""


def read_definition(text: str) -> Definition | None:
    """What `text` (SHOW PIPES, column definition) says; None where it is no COPY of streamed rows.

    Raises UnreadableError where it is one, and not one that a sink can run.
    """
    tokens = [token for token in _tokens(text) if token.kind != "blank"]
    sources = list(_sources(tokens))
    if not sources:
        return None
    if len(sources) > 1:
        raise UnreadableError("it reads DATA_SOURCE more than once")
    reader = _Reader(tokens)
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


def _select(text: str, tokens: list[_Token], source: tuple[int, int]) -> str:
    """The SELECT that these tokens are, as a format string: {source} for the source, its own braces doubled."""
    start, end = (tokens[0].start, tokens[-1].end) if tokens else (0, 0)
    if not tokens or tokens[0].word != "SELECT" or not start < source[0] < end:
        raise UnreadableError("it has no SELECT over DATA_SOURCE in the parentheses behind FROM")
    before, behind = (
        part.replace("{", "{{").replace("}", "}}") for part in (text[start : source[0]], text[source[1] : end])
    )
    alias_follows = re.match(r'[\w$"]', behind)
    return f"{before}{{source}}{' ' if alias_follows else ''}{behind}"


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        yield _Token(str(found.lastgroup), found[0], found.start(), found.end())


def _sources(tokens: list[_Token]) -> Iterator[tuple[int, int]]:
    """(start, end) of each TABLE(DATA_SOURCE(TYPE => 'STREAMING')) in the text."""
    wanted = ("TABLE", _OPEN, "DATA_SOURCE", _OPEN, "TYPE", "=>", "", _CLOSE, _CLOSE)
    for at in range(len(tokens) - len(wanted) + 1):
        found = tokens[at : at + len(wanted)]
        if tuple(token.word for token in found) == wanted and found[6].text.upper() == "'STREAMING'":
            yield found[0].start, found[-1].end


def _matches_by_name(options: list[_Token]) -> bool:
    """Whether MATCH_BY_COLUMN_NAME is among them, and not NONE."""
    words = [token.word for token in options]
    at = words.index("MATCH_BY_COLUMN_NAME") if "MATCH_BY_COLUMN_NAME" in words else -1
    return at >= 0 and words[at + 1 : at + 3] != ["=", "NONE"]


class _Reader:
    """Goes through tokens from the first to the last."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self.at = 0

    def _word(self) -> str:
        return self._tokens[self.at].word if self.at < len(self._tokens) else ""

    def expect(self, *words: str) -> None:
        """Pass these words."""
        for word in words:
            if self._word() != word:
                found = self._tokens[self.at].text[:40] if self.at < len(self._tokens) else "its end"
                raise UnreadableError(f"{word} is expected in its COPY, found {found}")
            self.at += 1

    def name(self) -> tuple[str, ...]:
        """Pass a name of one to three parts."""
        parts = [self._part()]
        while self._word() == ".":
            self.at += 1
            parts.append(self._part())
        return tuple(parts)

    def _part(self) -> str:
        token = self._tokens[self.at] if self.at < len(self._tokens) else _Token("mark", "its end", 0, 0)
        if token.kind not in ("word", "name"):
            raise UnreadableError(f"a name is expected in its COPY, found {token.text[:40]}")
        self.at += 1
        return token.text.upper() if token.kind == "word" else token.text[1:-1].replace('""', '"')

    def columns(self) -> tuple[str, ...]:
        """Pass the names in parentheses, if they come next."""
        if self._word() != _OPEN:
            return ()
        names = []
        while self._word() in (_OPEN, ","):
            self.at += 1
            names.append(self._part())
        self.expect(_CLOSE)
        return tuple(names)

    def parenthesised(self) -> slice | None:
        """Pass what is in parentheses, and say where it is; None, and nothing is passed, where none come next."""
        if self._word() != _OPEN:
            return None
        first, depth = self.at + 1, 0
        for at in range(self.at, len(self._tokens)):
            depth += {_OPEN: 1, _CLOSE: -1}.get(self._tokens[at].word, 0)
            if depth == 0:
                self.at = at + 1
                return slice(first, at)
        raise UnreadableError("its parentheses do not match")
