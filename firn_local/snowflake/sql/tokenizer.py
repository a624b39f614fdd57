"""The tokens of a statement that sqlglot does not parse, read from the front; and what stands outside of quotes.

Not for what sqlglot parses: that is read from its tree (`parsing`). Source of texts, names and comments:
https://docs.snowflake.com/en/sql-reference/data-types-text and .../identifiers-syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlglot
from fakesnow.expr import normalise_ident
from sqlglot import TokenType

from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error

_QUOTED = re.compile(
    r"""( '(?:[^'\\]|\\.|'')*' | "(?:[^"]|"")*" | \$\$.*?\$\$ | --[^\n]* | //[^\n]* | /\*.*?\*/ )""",
    re.VERBOSE | re.DOTALL,
)
_TEXT = {TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING}
_TWO_WORD_KINDS = [("FILE", "FORMAT"), ("RESOURCE", "MONITOR"), ("MATERIALIZED", "VIEW"), ("EXTERNAL", "TABLE")]


class Tokenizer:
    """The tokens of one statement, taken from the front."""

    def __init__(self, sql: str) -> None:
        tokens = sqlglot.tokenize(sql, read="snowflake")
        self._tokens = [t for t in tokens if t.token_type is not TokenType.SEMICOLON]
        self._sql = sql

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def peek(self) -> str:
        """The next word in upper case; empty at the end."""
        return self._tokens[0].text.upper() if self._tokens else ""

    def is_named_object(self) -> bool:
        """Whether two words or more come next that are not one name: the kind of an object, and its name."""
        following = self._tokens[1].text.upper() if len(self._tokens) > 1 else ""
        return following not in {"", ".", "TO", "FROM"}

    def skip(self, *words: str) -> bool:
        """Take these words if they come next; whether they did."""
        ahead = [t.text.upper() for t in self._tokens[: len(words)]]
        if ahead != list(words):
            return False
        del self._tokens[: len(words)]
        return True

    def expect(self, *words: str) -> None:
        """Take these words, which must come next."""
        if not self.skip(*words):
            raise self.unexpected()

    def until(self, *stops: str) -> str:
        """The words in front of the first of `stops`, joined by blanks; the stop itself stays."""
        taken = []
        while self._tokens and self.peek() not in stops:
            taken.append(self._tokens.pop(0).text.upper())
        return " ".join(taken)

    def until_name(self) -> str:
        """The kind of an object (TABLE, FILE FORMAT, ...) in front of its name; ACCOUNT has no name."""
        for kind in _TWO_WORD_KINDS:
            if self.skip(*kind):
                return " ".join(kind)
        kind_word = self.peek()
        self.expect(kind_word)
        return kind_word

    def name(self) -> str:
        """An identifier, dots included, upper case where not quoted."""
        parts = [self._identifier()]
        while self.skip("."):
            parts.append(self._identifier())
        return ".".join(parts)

    def _identifier(self) -> str:
        if not self._tokens or self._tokens[0].token_type in _TEXT:
            raise self.unexpected()
        token = self._tokens.pop(0)
        return token.text if token.token_type is TokenType.IDENTIFIER else normalise_ident(token.text)

    def names(self) -> list[str]:
        """Identifiers with commas between them, up to the end."""
        found = [self.name()]
        while self.skip(","):
            found.append(self.name())
        self.end()
        return found

    def literal(self) -> str:
        """A string literal's text."""
        if not self._tokens or self._tokens[0].token_type not in _TEXT:
            raise self.unexpected()
        return self._tokens.pop(0).text

    def like(self) -> re.Pattern[str] | None:
        """LIKE '<pattern>' as a regular expression, or None if it does not come next."""
        if not self.skip("LIKE"):
            return None
        parts = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in self.literal())
        return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)

    def properties(self) -> dict[str, Any]:
        """NAME = value pairs up to the end, with or without commas; values are text, numbers as text, booleans."""
        found: dict[str, Any] = {}
        while self:
            if self.skip(",") or self.skip("WITH"):
                continue
            key = self._identifier()
            self.expect("=")
            found[key.upper()] = self._value()
        return found

    def options(self, *stops: str) -> dict[str, Any]:
        """NAME = value pairs, with or without commas, in front of the first of the words `stops`, which stays."""
        found: dict[str, Any] = {}
        while self and self.peek() not in stops:
            if self.skip(","):
                continue
            key = self._identifier()
            self.expect("=")
            found[key.upper()] = self._value()
        return found

    def clause(self) -> str:
        """A word and the parentheses behind it, as they were written."""
        taken, depth = [], 0
        while self._tokens:
            taken.append(self._tokens.pop(0))
            depth += {"(": 1, ")": -1}.get(taken[-1].text, 0)
            if taken[-1].text == ")" and not depth:
                return self._sql[taken[0].start : taken[-1].end + 1]
        raise self.unexpected()

    def text_until(self, stop: str) -> str:
        """The text in front of the word `stop` outside of parentheses, as it was written; the word stays."""
        taken, depth = [], 0
        while self._tokens and (depth or self.peek() != stop):
            taken.append(self._tokens.pop(0))
            depth += {"(": 1, ")": -1}.get(taken[-1].text, 0)
        if not taken:
            raise self.unexpected()
        return self._sql[taken[0].start : taken[-1].end + 1]

    def rest(self) -> str:
        """The text from the next word on, as it was written; nothing is taken."""
        return self._sql[self._tokens[0].start : self._tokens[-1].end + 1] if self._tokens else ""

    def _value(self) -> Any:
        if not self._tokens:
            raise self.unexpected()
        if self._tokens[0].token_type in _TEXT:
            return self.literal()
        if self.skip("("):
            inner = self.until(")")
            self.expect(")")
            return f"({inner})"
        sign = "-" if self.skip("-") else ""
        value = self.name()
        return {"TRUE": True, "FALSE": False}.get(value, sign + value)

    def end(self) -> None:
        """Nothing may follow."""
        if self:
            raise self.unexpected()

    def unexpected(self) -> Exception:
        """The syntax error at the current word."""
        at = self._tokens[0] if self._tokens else None
        where = f"line {at.line} at position {at.col} unexpected '{at.text}'" if at else "unexpected '<EOF>'"
        return compilation_error(SYNTAX, f"syntax error {where}.")


def replace_outside_quotes(sql: str, replace: Callable[[str], str]) -> str:
    """The statement with each part changed by `replace` that is neither in quotes nor a comment."""
    parts = _QUOTED.split(sql)
    return "".join(part if at % 2 else replace(part) for at, part in enumerate(parts))


def split_statements(text: str) -> list[str]:
    """The statements of an SQL text, cut at semicolons outside literals and comments."""
    statements, start = [], 0
    for token in sqlglot.tokenize(text, read="snowflake"):
        if token.token_type is TokenType.SEMICOLON:
            statements.append(text[start : token.start].strip())
            start = token.end + 1
    statements.append(text[start:].strip())
    return [s for s in statements if s and sqlglot.tokenize(s, read="snowflake")]


def statements_of_block(text: str) -> list[str]:
    """The statements of BEGIN <statements>; END, a block of Snowflake Scripting that is nothing but statements; or the
    one statement that `text` is. Raises a syntax error for any other text.
    """
    statements = split_statements(text)
    words = [first_words(statement, 2) for statement in statements]
    if len(statements) == 1:
        return statements
    if not statements or words[0][:1] != ("BEGIN",) or words[-1] != ("END",):
        raise compilation_error(SYNTAX, "syntax error: expected one statement, or BEGIN <statement>; ... END.")
    return [statements[0].split(maxsplit=1)[1], *statements[1:-1]]


def first_words(sql: str, count: int) -> tuple[str, ...]:
    """At most `count` words in upper case, comments in front left out (dbt begins its statements with one)."""
    text = sql.lstrip()
    while text.startswith(("/*", "--", "//")):
        end = text.find("*/") + 2 if text.startswith("/*") else text.find("\n") + 1
        if end in {0, 1}:
            return ()
        text = text[end:].lstrip()
    return tuple(text.upper().rstrip("; \n").split(maxsplit=count)[:count])
