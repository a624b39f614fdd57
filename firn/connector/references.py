"""References in a connector file: ${secretsmanager:<secret>:<key>}, ${env:<name>}, ${file:<path>:<key>}.

They are resolved inside any value whenever the file is read: at start, and again when a login is refused. What came
from one is never written down or shown: texts are marked (`Referenced`) so that no repr has them. Asking Secrets
Manager is not done here: whoever reads a file hands in the function that does (`firn.secrets.secret_reader`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import javaproperties
from pydantic import SecretStr

from firn.errors import TerminalError

PROVIDERS = ("secretsmanager", "env", "file")
SecretReader: TypeAlias = Callable[[str, str], SecretStr]
"""The value of a key of a secret, by the secret's id and the key. Raises TerminalError where there is none."""
_REFERENCE = re.compile(r"\$\{([A-Za-z][\w-]*):([^{}]*)\}")


class ReferenceFault(Exception):  # noqa: N818 (never leaves this package)
    """A reference that leads nowhere; the message names it and holds no value."""


class Unresolved(Exception):  # noqa: N818 (not an error: nothing was asked)
    """A reference to Secrets Manager, which this resolver does not ask."""


class Referenced(str):
    """A text that came from a reference: it works like any other and its repr hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'(from a reference)'"


class Resolver:
    """Resolves references. Without a `read_secret` those to Secrets Manager are left unchecked."""

    def __init__(self, read_secret: SecretReader | None = None) -> None:
        self._read_secret = read_secret
        self._variables: set[str] = set()

    @property
    def variables(self) -> frozenset[str]:
        """The environment variables that were referred to: they hold secrets."""
        return frozenset(self._variables)

    def resolve(self, text: str) -> str:
        """The text with every reference replaced. Raises ReferenceFault, Unresolved, or TransientError."""
        return _REFERENCE.sub(lambda found: self.look_up(found[1].lower(), found[2]), text)

    def look_up(self, provider: str, rest: str) -> str:
        """The value of one reference. Raises as `resolve` does."""
        if provider == "env":
            self._variables.add(rest.lstrip(":"))
            return _environment(rest)
        if provider == "file":
            return _file(rest)
        if provider == "secretsmanager":
            return self._secret(rest)
        raise ReferenceFault(
            f"${{{provider}:{rest}}} names an unknown source: {', '.join(PROVIDERS)} can be referred to"
        )

    def _secret(self, rest: str) -> str:
        secret_id, key = _split(rest, f"${{secretsmanager:{rest}}}", "secretsmanager:<secret>:<key>")
        if self._read_secret is None:
            raise Unresolved
        try:
            return self._read_secret(secret_id, key).get_secret_value()
        except TerminalError as error:
            raise ReferenceFault(f"${{secretsmanager:{rest}}} leads nowhere: {error.what}") from None


def has_reference(text: str) -> bool:
    """Whether a text holds a reference."""
    return _REFERENCE.search(text) is not None


def is_reference(text: str) -> bool:
    """Whether a text is one reference and nothing else: then showing it shows no part of a secret."""
    return _REFERENCE.fullmatch(text.strip()) is not None


def referred_files(text: str) -> list[str]:
    """The files that a text's references read."""
    found = [each[2].rpartition(":")[0] for each in _REFERENCE.finditer(text) if each[1].lower() == "file"]
    return [path for path in found if path]


def _environment(name: str) -> str:
    try:
        value = os.environ.get(name.lstrip(":"))  # Kafka's EnvVarConfigProvider also takes ${env::NAME}
    except UnicodeEncodeError:  # half of a surrogate pair: the environment holds no such name
        value = None
    if value is None:
        raise ReferenceFault(f"${{env:{name}}} names an environment variable that is not set")
    return value


def _file(rest: str) -> str:
    reference = f"${{file:{rest}}}"
    path, key = _split(rest, reference, "file:<path>:<key>")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise ReferenceFault(f"{reference} names a file that cannot be read") from None
    try:
        fields: Any = json.loads(text) if path.endswith(".json") else javaproperties.loads(text)
    except (ValueError, RecursionError):
        raise ReferenceFault(f"{reference} names a file that is neither JSON (*.json) nor .properties") from None
    value = fields.get(key) if isinstance(fields, dict) else None
    if value is None or isinstance(value, dict | list):
        raise ReferenceFault(f"{reference} names a key that the file has no single value for")
    return value if isinstance(value, str) else json.dumps(value)


def _split(rest: str, reference: str, form: str) -> tuple[str, str]:
    first, colon, key = rest.rpartition(":")
    if not colon or not first or not key:
        raise ReferenceFault(f"{reference} does not have the form ${{{form}}}")
    return first, key
