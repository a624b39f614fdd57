"""Full names as this server passes them on: `DATABASE.SCHEMA.NAME`. Only the last part may hold dots."""

from __future__ import annotations

_DOTS = 2


def around(name: str) -> str:
    """What an object is in: `DATABASE.SCHEMA` of a table, `DATABASE` of a schema, "" of a database."""
    return ".".join(name.split(".", _DOTS)[:-1])


def own_name(name: str) -> str:
    """The object's own name."""
    return name.split(".", _DOTS)[-1]
