"""Names of what an export keeps in Snowflake: outboxes, states, streams and tasks. Pure.

An export's name has no slash (`firn.connector.readers.NAME`), so `<export>/<source>` names one source of one export,
and what is named after it, in double quotes, never meets another's. Dots of a source's name become slashes: a name that
holds dots is hard to read in SHOW.
"""

from __future__ import annotations

import hashlib

from firn.snowflake.identifiers import MAX_NAME

EXPORTS, HISTORY, CHECKS = "FIRN_EXPORTS", "FIRN_EXPORT_HISTORY", "FIRN_EXPORT_CHECKS"
_DIGITS = 16


def outbox(export: str, source: str) -> str:
    """The table of a source's changes that wait to be published."""
    return _named("FIRN_OUTBOX", export, source)


def state(export: str, source: str) -> str:
    """The table of what a source returned before: hashes by key, or of the rows at a cursor's maximum."""
    return _named("FIRN_STATE", export, source)


def stream(export: str, source: str) -> str:
    """The stream that an export makes for a table."""
    return _named("FIRN_STREAM", export, source)


def task(export: str, source: str) -> str:
    """The task that moves a source's changes into its outbox."""
    return _named("FIRN_TASK", export, source)


def control_name(export: str) -> str:
    """The name of its rows in FIRN_REQUESTS and FIRN_SINKS: no sink's name has a colon."""
    return f"export:{export}"


def is_control_name(name: str) -> bool:
    """Whether a row of these tables is an export's."""
    return name.startswith("export:")


def query_tag(export: str) -> str:
    """The QUERY_TAG of every statement of an export, by which its cost is found."""
    return f"firn export {export}"


def _named(prefix: str, export: str, source: str) -> str:
    exact = f"{prefix}_{export}/{source}"
    name = exact.replace(".", "/")
    if "/" not in source and len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(exact.encode()).hexdigest()[:_DIGITS]
    return f"{name[: MAX_NAME - _DIGITS - 1]}-{digest}"
