"""Regular expressions in Java's dialect, as configurations of Kafka Connect have them, over Kafka's topic names.

A reader of the dialect that says the same in the `regex` package, version 1 rules. Topic names have the characters of
ASCII alone, so classes and properties need to be right for these. What cannot be said is refused by name.
Source: https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/regex/Pattern.html.
"""

from __future__ import annotations

import string
import sys
from collections.abc import Callable
from functools import cache

import regex

_ASCII = "".join(map(chr, range(128)))
_POSIX = {
    "Lower": string.ascii_lowercase,
    "Upper": string.ascii_uppercase,
    "ASCII": _ASCII,
    "Alpha": string.ascii_letters,
    "Digit": string.digits,
    "Alnum": string.ascii_letters + string.digits,
    "Punct": string.punctuation,
    "Graph": string.ascii_letters + string.digits + string.punctuation,
    "Print": string.ascii_letters + string.digits + string.punctuation + " ",
    "Blank": " \t",
    "Cntrl": _ASCII[:32] + "\x7f",
    "XDigit": string.hexdigits,
    "Space": " \t\n\x0b\f\r",
    "javaLowerCase": string.ascii_lowercase,
    "javaUpperCase": string.ascii_uppercase,
    "javaWhitespace": " \t\n\x0b\f\r\x1c\x1d\x1e\x1f",
}
_CLASSES = {
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "_",
    "s": " \t\n\x0b\f\r",
    "h": " \t",
    "v": "\n\x0b\f\r",
}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ASSERTIONS = {"b": r"\b", "B": r"\B", "A": r"\A", "G": r"\G", "Z": r"(?=\n?\Z)", "z": r"\Z", "R": r"\R", "X": r"\X"}
_GROUPS = ("(?<=", "(?<!", "(?:", "(?=", "(?!", "(?>")
_FLAGS = regex.compile(r"\(\?([a-zA-Z]*)(-[a-zA-Z]*)?([:)])")
_NAMED = regex.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_QUANTIFIER = regex.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})[+?]?")


class JavaRegexError(ValueError):
    """An expression that Java refuses, or that cannot be said here. Its text says what and where."""


@cache
def java_regex(expression: str) -> regex.Pattern[str]:
    """The expression, compiled. Raises JavaRegexError."""
    translated = _Reader(expression).read()
    try:
        return regex.compile(translated, regex.VERSION1 | regex.ASCII)
    except (regex.error, RecursionError, OverflowError) as error:
        raise JavaRegexError(str(error)) from None


def matches(expression: str, text: str) -> bool:
    """Whether the whole text matches, as String.matches has it. Raises JavaRegexError."""
    return java_regex(expression).fullmatch(text) is not None


class _Reader:
    """Reads one expression from left to right. `_comments` says for each open group whether (?x) holds in it."""

    def __init__(self, expression: str) -> None:
        self._text, self._at = expression, 0
        self._comments = [False]
        self._groups: list[str | None] = []

    def read(self) -> str:
        """The same in the rules of `regex`."""
        parts: list[str] = []
        repeatable = False
        while self._at < len(self._text):
            if self._skip_comment():
                continue
            if quantifier := _QUANTIFIER.match(self._text, self._at):
                if not repeatable:
                    raise self._refused(f"{quantifier[0]} repeats nothing")
                parts.append(quantifier[0])
                self._at, repeatable = quantifier.end(), False
            elif self._text[self._at] == "(":
                parts.append(self._open())
                repeatable = False
            else:
                parts.append(self._next())
                repeatable = parts[-1] != "|"
        if len(self._comments) > 1:
            raise self._refused("a group is not closed")
        return "".join(parts)

    def _next(self) -> str:
        """One element, other than a quantifier and a group's beginning."""
        char = self._text[self._at]
        if char == "\\":
            return self._escape(_outside)
        if char == "[":
            return self._class()
        self._at += 1
        if char == ")":
            if len(self._comments) == 1:
                raise self._refused("a group is closed that was not opened")
            self._comments.pop()
            return ")"
        if char == "{":
            raise self._refused("{ is no repetition here")
        return char if char in ".^$|" else _literal(char)

    def _open(self) -> str:
        """A group's beginning; inline flags hold until the group around them ends."""
        rest = self._text[self._at : self._at + 4]
        opening = next((each for each in _GROUPS if rest.startswith(each)), None)
        if opening is None and (named := _NAMED.match(self._text, self._at)):
            opening = named[0]
            self._groups.append(named[1])
        if opening is None and rest.startswith("(?"):
            return self._flags()
        if opening is None:
            opening = "("
            self._groups.append(None)
        self._at += len(opening)
        self._comments.append(self._comments[-1])
        return opening

    def _flags(self) -> str:
        found = _FLAGS.match(self._text, self._at)
        if found is None:
            raise self._refused(f"{self._text[self._at : self._at + 3]} is no group of Java's")
        on, off, end = found[1], (found[2] or "")[1:], found[3]
        if unknown := set(on + off) - set("idmsux"):
            raise self._refused(f"flag {min(unknown)} cannot be followed")
        self._at = found.end()
        scope = "(?:" if end == ":" else ""
        if end == ":":
            self._comments.append(self._comments[-1])
        if "x" in on + off:
            self._comments[-1] = "x" in on and "x" not in off
        kept = ["".join(flag for flag in "ims" if flag in each) for each in (on, off)]
        text = kept[0] + (f"-{kept[1]}" if kept[1] else "")
        if not text:
            return scope
        return f"(?{text}:" if end == ":" else f"(?{text})"

    def _escape(self, said: Callable[[str, bool], str]) -> str:
        """What a backslash begins. said: how a set of characters, or all others, is written here."""
        rest, start = self._text[self._at + 1 :], self._at
        if not rest:
            raise self._refused("it ends with a backslash")
        letter = rest[0]
        self._at += 2
        if letter == "Q":
            return self._quoted(said)
        if letter in "pP":
            return self._property(letter == "P", said)
        if letter.lower() in _CLASSES:
            return said(_CLASSES[letter.lower()], letter.isupper())
        if said is _outside and letter in _ASSERTIONS:
            return _ASSERTIONS[letter]
        if said is _outside and letter == "k":
            return self._named_reference()
        if said is _outside and letter in "123456789":
            return self._reference(letter)
        if not letter.isascii() or not letter.isalnum():
            return said(letter, False)
        self._at = start
        return said(self._code_point(), False)

    def _quoted(self, said: Callable[[str, bool], str]) -> str:
        end = self._text.find("\\E", self._at)
        quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        if said is _inside and len(quoted) != 1:
            return _outside(quoted, others=False) if quoted else "[^\\x00-\\U0010ffff]"
        return "".join(said(char, False) for char in quoted)

    def _property(self, others: bool, said: Callable[[str, bool], str]) -> str:
        braced = self._text[self._at : self._at + 1] == "{"
        end = self._text.find("}", self._at) if braced else self._at
        name = self._text[self._at + 1 : end] if braced else self._text[self._at : self._at + 1]
        if end < 0 or not name:
            raise self._refused(f"{self._text[self._at - 2 :]} names no property")
        self._at = end + 1
        if name in _POSIX:
            return said(_POSIX[name], others)
        written = rf"\{'P' if others else 'p'}{{{name}}}"
        try:
            regex.compile(written, regex.VERSION1)
        except regex.error:
            raise self._refused(f"property {name} is not known") from None
        return written

    def _named_reference(self) -> str:
        end = self._text.find(">", self._at)
        name = self._text[self._at + 1 : end]
        if self._text[self._at : self._at + 1] != "<" or end < 0 or name not in self._groups:
            raise self._refused(f"\\k{self._text[self._at : end + 1]} names no group")
        self._at = end + 1
        return f"(?P={name})"

    def _reference(self, digit: str) -> str:
        """A group by its number: of as many digits as there are groups."""
        number = int(digit)
        while (more := self._text[self._at : self._at + 1]) and more in string.digits:
            if number * 10 + int(more) > len(self._groups):
                break
            number = number * 10 + int(more)
            self._at += 1
        if number > len(self._groups):
            raise self._refused(f"there is no group {number}")
        return rf"\g<{number}>"

    def _code_point(self) -> str:
        """The character that an escape of letters and digits stands for."""
        for pattern, base in _CODE_POINTS:
            if found := pattern.match(self._text, self._at):
                self._at = found.end()
                number = int(found[1], base)
                if number > sys.maxunicode:
                    raise self._refused(f"{number:x} is no character")
                return chr(number)
        letter = self._text[self._at + 1]
        if letter == "c" and self._text[self._at + 2 :]:
            self._at += 3
            return chr(ord(self._text[self._at - 1]) ^ 64)
        if letter in _CONTROL:
            self._at += 2
            return _CONTROL[letter]
        raise self._refused(f"\\{letter} means nothing")

    def _class(self) -> str:
        """A class in brackets, with unions, intersections and classes inside it."""
        self._at += 1
        negated = self._text[self._at : self._at + 1] == "^"
        self._at += negated
        operands: list[list[str]] = [[]]
        while True:
            if self._skip_comment():
                continue
            char = self._text[self._at : self._at + 1]
            if not char:
                raise self._refused("a class is not closed")
            if char == "]" and (operands[-1] or len(operands) > 1):
                self._at += 1
                break
            if self._text.startswith("&&", self._at):
                self._at += 2
                operands.append([])
            elif char == "[":
                operands[-1].append(self._class())
            else:
                operands[-1].append(self._range())
        if not all(operands):
            raise self._refused("an operand of && is empty")
        sets = [f"[{''.join(each)}]" for each in operands]
        return f"[{'^' if negated else ''}{'&&'.join(sets)}]"

    def _range(self) -> str:
        """A character, an escape, or a range of characters inside a class."""
        first = self._member()
        rest = self._text[self._at : self._at + 2]
        if len(first) > 1 or not rest.startswith("-") or rest[1:] in ("", "]", "["):
            return first if len(first) > 1 else _literal(first)
        self._at += 1
        last = self._member()
        if len(last) > 1 or last < first:
            raise self._refused("a range ends before it begins")
        return f"{_literal(first)}-{_literal(last)}"

    def _member(self) -> str:
        """One character as it is, or a set as it is written inside a class (which has more than one character)."""
        char = self._text[self._at]
        if char != "\\":
            self._at += 1
            return char
        return self._escape(_inside)

    def _skip_comment(self) -> bool:
        """Pass what (?x) leaves out."""
        char = self._text[self._at : self._at + 1]
        if not self._comments[-1] or not char:
            return False
        if char.isspace():
            self._at += 1
            return True
        if char == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end + 1
            return True
        return False

    def _refused(self, why: str) -> JavaRegexError:
        return JavaRegexError(f"{why} (at character {self._at + 1})")


_CODE_POINTS = (
    (regex.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}"), 16),
    (regex.compile(r"\\x([0-9A-Fa-f]{2})"), 16),
    (regex.compile(r"\\u([0-9A-Fa-f]{4})"), 16),
    (regex.compile(r"\\0([0-3][0-7]{2}|[0-7]{1,2})"), 8),
)


def _literal(char: str) -> str:
    """One character that means itself, in a class and outside of one."""
    return char if char.isalnum() and char.isascii() else rf"\U{ord(char):08x}"


def _outside(characters: str, others: bool) -> str:
    """One of these characters, or one of all others, outside of a class."""
    if len(characters) == 1 and not others:
        return _literal(characters)
    return f"[{'^' if others else ''}{''.join(map(_literal, characters))}]"


def _inside(characters: str, others: bool) -> str:
    """The same as a member of a class."""
    if len(characters) == 1 and not others:
        return characters
    return _outside(characters, others)
