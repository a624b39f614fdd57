"""Warns of files with a credential in them that other users of this machine can read. Not for what they contain."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from firn.connector.check import Check
from firn.connector.references import referred_files

_OTHERS = stat.S_IRGRP | stat.S_IROTH


def warn_of_exposed_files(check: Check, raw: Mapping[str, str], where: str) -> None:
    """Add a warning for each credential that stands in a readable file: the connector's own, or one it refers to."""
    for name, given in check.given.items():
        if not given.parameter.secret:
            continue
        files = referred_files(raw[name]) if given.referenced else [where]
        for file in files:
            if _others_read(file):
                check.warn(name, f"other users of this machine can read {file}, which holds this credential: chmod 600")


def _others_read(file: str) -> bool:
    try:
        mode = Path(file).stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and bool(mode & _OTHERS)
