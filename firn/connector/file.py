"""Connector files as Kafka Connect takes them: JSON, nested or flat, and Java's .properties. Not for what they mean.

One form is Firn's own: {"extends": <file>, "config": {...}} replaces parameters of another file (`overrides`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import javaproperties
from javaproperties.reading import KeyValue

from firn.errors import ConfigError
from firn.redaction import redacted

_SHAPE = 'Write {"name": "...", "config": {"<parameter>": "<value>"}}.'


def read_connector_file(path: Path, kind: str = "sink", *, extended: tuple[Path, ...] = ()) -> Mapping[str, str]:
    """The parameters of a file as text by name. Raises ConfigError for a file that is none.

    kind: what it configures; extended: the files that this one is a base of.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows put a byte order mark in front
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"The {kind}'s configuration cannot be read: {reason}.",
            where=str(path),
            next_step="Name a connector file in JSON or .properties, such as connectors/order-events.json.",
        ) from None
    if path.suffix == ".properties":
        return _from_properties(text, path)
    document = _json(text, str(path))
    base = document.get("extends") if isinstance(document, dict) and "config" in document else None
    if not isinstance(base, str):
        return _parameters(document, str(path), kind)
    if path in extended:
        raise ConfigError("The file extends itself.", where=str(path), next_step="Name the connector's own file.")
    under = read_connector_file(Path(base), kind, extended=(*extended, path))
    return {**under, **_parameters(document["config"], str(path), kind)}


def parse_connector_json(text: str, where: str) -> Mapping[str, str]:
    """The parameters of a sink's connector in JSON as text by name. Raises ConfigError for a text that is none."""
    return _parameters(_json(text, where), where, "sink")


def _json(text: str, where: str) -> Any:
    try:
        # Numbers keep their text: a parameter is one, and Connect takes it as it is written.
        return json.loads(text, object_pairs_hook=_distinct, parse_int=str, parse_float=str)
    except _TwiceError as error:
        raise _given_twice(error.key, where) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The file is not JSON: {error}", where=where, next_step=_SHAPE) from None


def _parameters(document: Any, where: str, kind: str) -> Mapping[str, str]:
    nested = document.get("config", document) if isinstance(document, dict) else None
    if not isinstance(nested, dict):
        raise ConfigError("The file holds no connector configuration.", where=where, next_step=_SHAPE)
    config = {**nested, **({"name": document["name"]} if "name" in document else {})}
    if nested.get("name", config.get("name")) != config.get("name"):
        names = " and ".join(repr(redacted(str(each["name"]))) for each in (document, nested))
        raise ConfigError(
            f"The file names the {kind} twice: {names}.", where=where, next_step="Give one name, or the same twice."
        )
    odd = sorted(key for key, value in config.items() if isinstance(value, dict | list) or value is None)
    if odd:
        raise ConfigError(f"Not a single value: {', '.join(map(redacted, odd))}.", where=where, next_step=_SHAPE)
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def _from_properties(text: str, path: Path) -> Mapping[str, str]:
    try:
        pairs = [(each.key, each.value) for each in javaproperties.parse(text) if isinstance(each, KeyValue)]
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(
            f"The file is not a .properties file: {error}.",
            where=str(path),
            next_step="Write a backslash before `u` twice, or four hexadecimal digits behind it.",
        ) from None
    try:
        return _distinct(pairs)
    except _TwiceError as error:
        raise _given_twice(error.key, str(path)) from None


class _TwiceError(Exception):
    """A name that is given twice, so that it is not known which value is meant."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _distinct(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _TwiceError(key)
        found[key] = value
    return found


def _given_twice(key: str, where: str) -> ConfigError:
    return ConfigError(
        f"The file gives {redacted(key)} twice.",
        where=where,
        next_step="Keep the one that is meant; remove the other.",
    )
