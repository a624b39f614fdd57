"""Parameters that replace those of a connector file, and connectors without a file: written down for the driver.

The driver reads a file, again when a login is refused. So what a command or a form gives becomes a file in FIRN_HOME:
an inline connector as it is, an override as {"extends": <file>, "config": {...}}, whose base is read each time. Both
pass through command lines or Prefect's database, so they hold no credential: only references to one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from firn.connector.check import SINK, definition
from firn.connector.file import parse_connector_json
from firn.connector.references import is_reference
from firn.errors import ConfigError
from firn.redaction import redacted

FOLDER = "connectors"


def parse_overrides(pairs: Sequence[str]) -> dict[str, str]:
    """`name=value` texts as parameters. Raises ConfigError for what is none, is given twice, or holds a credential."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        name = name.strip()
        if not sign or not name or name in found:
            fault = "is given twice" if name in found else "is not name=value"
            raise ConfigError(
                f"--set {redacted(name) or '(nothing)'} {fault}.", next_step="Write --set name=value, each name once."
            )
        found[name] = value
    refuse_credentials(found, where="--set")
    return found


def refuse_credentials(parameters: Mapping[str, str], *, where: str) -> None:
    """Raises ConfigError where a parameter that holds a credential, or an unknown one, has a value of its own."""
    for name, value in parameters.items():
        known, nearest = definition(SINK, name)
        if known is None:  # the value under a misspelt name may be a secret
            hint = f" Do you mean {nearest}?" if nearest else ""
            raise ConfigError(f"{redacted(name)} is not a known parameter.{hint}", where=where)
        if known.secret and value.strip() and not is_reference(value):
            raise ConfigError(
                f"{redacted(name)} holds a credential, which would be stored in plain text on its way.",
                where=where,
                next_step="Give a reference, such as ${secretsmanager:<secret>:<key>}, or put it into the secret.",
            )


def overlay(home: Path, base: Path, overrides: Mapping[str, str]) -> Path:
    """A file below `home` (FIRN_HOME) that extends `base` by overrides; `base` itself without any."""
    if not overrides:
        return base
    return _written(home, {"extends": str(base.absolute()), "config": dict(overrides)})


def inline_file(home: Path, text: str, *, where: str) -> Path:
    """An inline connector (JSON) as a file below `home`. Raises ConfigError where it is none or holds a credential."""
    parameters = dict(parse_connector_json(text, where))
    refuse_credentials(parameters, where=where)
    return _written(home, {"config": parameters})


def _written(home: Path, document: Mapping[str, object]) -> Path:
    """The file of a document, named by its content: the same document is the same file, and none ever changes."""
    text = json.dumps(document, indent=2, sort_keys=True)
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if not file.exists():
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o600)
        draft.replace(file)
    return file
