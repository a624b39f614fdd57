"""Masks secrets in texts that leave the machine: the values that this sink's clients know, in every form.

The second line of defence: logs, states and messages hold no secret by themselves. Not for how values appear in tables
(`firn.redaction`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from firn.connector.references import Resolver
from firn.redaction import HIDDEN

_LONG = 8
"""A value that is shorter is masked where it stands alone: it may be a part of an ordinary word."""
_SHORTEST_LINE = 16
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
_LOGIN_IN_URL = re.compile(r"(?<=://)[^/\s\"'<>]+(?=@)")
_NAMED = re.compile(
    r"(?i)((?:password|passphrase|passwd|api[_.-]?secret|secret[_.-]?key|client[_.-]?secret|private[_.-]?key"
    r"|bearer(?:[_.-]token)?|authorization)\\?[\"']?\s*[=:]\s*)"
    # A text in escaped quotes, in quotes, or bare.
    r"(?:\\\"(?:(?!\\\").)*\\\"|\"(?:[^\"\\]|\\.)*\"|'[^']*'|(?:(?:basic|bearer)\s+)?[^\s,;}\"']+)"
)


class Masking:
    """The secrets that are known. `add` them first; calling it gives a text without them."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, secret: str) -> None:
        """Know a secret, in the forms in which it may stand in a text."""
        for form in _forms(secret.strip()):
            if form:
                self._values.add(form)

    def __call__(self, text: str) -> str:
        """The text with every secret masked, and what looks like one."""
        for value in sorted(self._values, key=len, reverse=True):  # the whole before its parts
            text = _replaced(text, value)
        text = _KEY.sub(HIDDEN, text)
        return _NAMED.sub(rf"\g<1>{HIDDEN}", _LOGIN_IN_URL.sub(HIDDEN, text))


class RecordingResolver(Resolver):
    """Resolves references and makes known what they led to."""

    def __init__(self, resolver: Resolver, masking: Masking) -> None:
        super().__init__()
        self._resolver, self._masking = resolver, masking

    def look_up(self, provider: str, rest: str) -> str:
        """As the resolver that is inside."""
        value = self._resolver.look_up(provider, rest)
        self._masking.add(value)
        return value


def _forms(secret: str) -> Iterable[str]:
    """As it is, escaped for JSON, for a url, in Base64, with its line breaks written out, and each of its lines."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield base64.b64encode(secret.encode()).decode()
    if "\n" in secret or "\\n" in secret:
        yield secret.replace("\n", "\\n")
        for line in re.split(r"\\n|\s+", secret):
            if len(line) >= _SHORTEST_LINE:
                yield line
    if ":" in secret:  # a user and a password
        yield secret.partition(":")[2]


def _replaced(text: str, value: str) -> str:
    if len(value) >= _LONG:
        return text.replace(value, HIDDEN)
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", HIDDEN, text)
