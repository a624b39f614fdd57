"""What SHOW answers: what the role may see and LIKE names of what was found. fakesnow does neither for every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.compute import match_like
from sqlglot import exp

from firn_local.snowflake.privileges import enforcement

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session

# Kinds of objects that SHOW lists for those who hold something on them, and where its rows have their full names.
_SHOWN = {
    "TABLES": "TABLE", "VIEWS": "TABLE", "OBJECTS": "TABLE", "STAGES": "STAGE", "SCHEMAS": "SCHEMA",
    "DATABASES": "DATABASE",
}  # fmt: skip
_PLACES: dict[str, tuple[str, ...]] = {
    "TABLE": ("database_name", "schema_name"),
    "STAGE": ("database_name", "schema_name"),
    "SCHEMA": ("database_name",),
    "DATABASE": (),
}


def of(session: Session, show: exp.Show, found: pa.Table | None) -> pa.Table | None:
    """The rows of `found` that the answer has; all of them where they are no objects with a name."""
    if found is None or "name" not in found.column_names:
        return found
    if pattern := show.args.get("like"):
        found = found.filter(match_like(found["name"], pattern.name, ignore_case=True))
    kind = _SHOWN.get(show.name.upper())
    if kind is None:
        return found
    columns = [found[column].to_pylist() for column in (*_PLACES[kind], "name")]
    names = [".".join(parts) for parts in zip(*columns, strict=True)]
    seen = enforcement.visible(session, kind, names)
    return found.filter(pa.array([name in seen for name in names], pa.bool_()))
