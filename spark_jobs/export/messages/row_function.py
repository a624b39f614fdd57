"""The user's own function over rows: `module:function`, called in the task for each row before its message is made.

It takes a row as a dictionary (numbers as int or Decimal, BINARY as bytes, VARIANT parsed, dates and times as ISO
texts) and gives one, a list of them (a message each), or None (no message). The key is that of the row before it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from firn.errors import ConfigError

RowFunction = Callable[[dict[str, Any]], Any]


def row_function(name: str, folder: str | None) -> RowFunction:
    """The function of this name; folder: where its module lies, on every executor. Raises ConfigError."""
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise ConfigError(
            f"The row function {name} cannot be loaded ({type(error).__name__}: {error}).",
            where=f"module {module}" + (f" in {folder}" if folder else ""),
            next_step="Name it as module:function, and install its module on every executor.",
        ) from error
    if not callable(found):
        raise ConfigError(f"{name} is no function.", where=f"module {module}", next_step="Name a function.")
    return found  # type: ignore[no-any-return]


def applied(function: RowFunction, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the function makes of a row. Raises ValueError for anything but dictionaries, and where it fails."""
    try:
        given = function(dict(row))
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    rows = [] if given is None else given if isinstance(given, list) else [given]
    if any(not isinstance(each, dict) for each in rows):
        other = next(each for each in rows if not isinstance(each, dict))
        raise ValueError(f"it gave {type(other).__name__}, and not a dictionary, a list of them or None")
    return rows
