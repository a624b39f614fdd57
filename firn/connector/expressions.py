"""A list of SQL expressions that a parameter gives: split at its commas, and checked to be no more than expressions.

Not for what the expressions mean: Snowflake says so when the table is made. Quotes, brackets and comments are those of
https://docs.snowflake.com/en/sql-reference/data-types-text and .../sql-reference/sql/create-table.
"""

from __future__ import annotations

import re

from firn.connector.parameter import ReadError

_PAIRS = {")": "(", "]": "[", "}": "{"}
# Texts and quoted names as a whole, what would end or hide a part of the statement, and each other character.
_PIECE = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"]|"")*"|--|//|/\*|\$\$|.""", re.DOTALL)
_REFUSED = {
    **{";": "a semicolon", "--": "a comment", "//": "a comment", "/*": "a comment", "$$": "a text in $$"},
    **dict.fromkeys(("'", '"'), "a quote that is not closed"),
}


def expressions(text: str) -> str:
    """The list, each expression trimmed, with `, ` between them. Raises ReadError."""
    parts, open_brackets = [""], list[str]()
    for piece in _PIECE.findall(text):
        if piece in _REFUSED:
            raise ReadError(f"holds {_REFUSED[piece]}, which is no part of an expression")
        _follow(open_brackets, piece)
        if piece == "," and not open_brackets:
            parts.append("")
        else:
            parts[-1] += piece
    if open_brackets:
        raise ReadError(f"has a {open_brackets[-1]!r} that is not closed")
    if not all(part.strip() for part in parts):
        raise ReadError("has an empty expression")
    return ", ".join(part.strip() for part in parts)


def _follow(open_brackets: list[str], piece: str) -> None:
    """Remember a bracket that opens, forget the one that closes."""
    if piece in _PAIRS.values():
        open_brackets.append(piece)
    elif piece in _PAIRS and (not open_brackets or open_brackets.pop() != _PAIRS[piece]):
        raise ReadError(f"has a {piece!r} without its opening one")
