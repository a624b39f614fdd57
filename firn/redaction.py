"""How texts of a connector file appear in tables, faults and errors: without logins, of one line, of a bounded length.

Not for what is secret as a whole or came from a reference (`firn.connector.references`).
"""

from __future__ import annotations

import re

HIDDEN = "(hidden)"
_LONGEST = 200
_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")
_BETWEEN_ADDRESSES = re.compile(rf",(?={_SCHEME.pattern})")


def redacted(text: str) -> str:
    """The text for a person: what may be a user and password is hidden, and no character speaks to the terminal."""
    hidden = ",".join(map(_without_login, _BETWEEN_ADDRESSES.split(text))) if "@" in text else text
    cut = hidden if len(hidden) <= _LONGEST else f"{hidden[:_LONGEST]}..."
    return printable(cut)


def printable(text: str) -> str:
    """The text, escaped where a terminal or an encoder would not just print it."""
    return text if text.isprintable() else repr(text)


def _without_login(address: str) -> str:
    """Hidden up to the last @: passwords hold @, / and spaces, and a login may stand there without a scheme."""
    before, at, rest = address.rpartition("@")
    scheme = _SCHEME.match(before)
    return f"{scheme[0] if scheme else ''}{HIDDEN}@{rest}" if at else address
