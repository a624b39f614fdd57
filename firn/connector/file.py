"""Connector files as Kafka Connect takes them: JSON, nested or flat, and Java's .properties. Not for what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import javaproperties

from firn.errors import ConfigError

_SHAPE = 'Write {"name": "...", "config": {"<parameter>": "<value>"}}.'


def read_connector_file(path: Path) -> Mapping[str, str]:
    """The parameters of a file as text by name. Raises ConfigError for a file that is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"The sink's configuration cannot be read: {reason}.",
            where=str(path),
            next_step="Name a connector file in JSON or .properties, such as connectors/order-events.json.",
        ) from None
    return _from_properties(text, path) if path.suffix == ".properties" else _from_json(text, path)


def _from_json(text: str, path: Path) -> Mapping[str, str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The file is not JSON: {error}", where=str(path), next_step=_SHAPE) from None
    nested = document.get("config", document) if isinstance(document, dict) else None
    if not isinstance(nested, dict):
        raise ConfigError("The file holds no connector configuration.", where=str(path), next_step=_SHAPE)
    config = {**nested, **({"name": document["name"]} if "name" in document else {})}
    odd = sorted(key for key, value in config.items() if isinstance(value, dict | list) or value is None)
    if odd:
        raise ConfigError(f"Not a single value: {', '.join(odd)}.", where=str(path), next_step=_SHAPE)
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def _from_properties(text: str, path: Path) -> Mapping[str, str]:
    try:
        return javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(
            f"The file is not a .properties file: {error}.",
            where=str(path),
            next_step="Write a backslash before `u` twice, or four hexadecimal digits behind it.",
        ) from None
