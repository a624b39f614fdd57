"""What an export made for its sources in Snowflake, found and removed by name.

Names follow from the export's and the source's (`firn.exports.names`), so this works for a source whose table is gone.
A stream that somebody made has another name, and stays. Not for making them (`firn.exports.preparation`).
Sources: https://docs.snowflake.com/en/sql-reference/sql/show-tables, .../drop-table, .../drop-stream, .../drop-task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from firn.exports import names
from firn.snowflake.connection import execute
from firn.snowflake.identifiers import FullName, Namespace, written
from firn.snowflake.tables import shown_object

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_DROP = "DROP {kind} IF EXISTS {name}"


@dataclass(frozen=True)
class MadeObject:
    """A task, a stream or a table of one source. purpose: what it is for. rows: of a table, as SHOW has them."""

    source: str
    kind: Literal["TASK", "STREAM", "TABLE"]
    name: FullName
    purpose: str
    rows: int | None = None


def find_made(
    connection: SnowflakeConnection, namespace: Namespace, export: str, sources: Iterable[str]
) -> tuple[MadeObject, ...]:
    """What there is of these sources. Metadata alone is asked, so no warehouse runs it."""
    found = []
    for each in (each for source in sources for each in _possible(namespace, export, source)):
        shown = shown_object(connection, each.kind, each.name)
        if shown is not None:
            rows = shown.get("rows") if each.kind == "TABLE" else None
            found.append(replace(each, rows=None if rows is None else int(rows)))
    return tuple(found)


def remove_made(connection: SnowflakeConnection, objects: Iterable[MadeObject]) -> None:
    """Drop them in this order; one that is gone is as good. Changes that wait in outboxes are lost."""
    for each in objects:
        execute(connection, _DROP.format(kind=each.kind, name=written(each.name)))


def _possible(namespace: Namespace, export: str, source: str) -> Iterator[MadeObject]:
    """The task first: it fills the outbox."""
    yield MadeObject(source, "TASK", namespace.full_name(names.task(export, source)), "moves changes into the outbox")
    yield MadeObject(source, "STREAM", namespace.full_name(names.stream(export, source)), "changes of the table")
    yield MadeObject(source, "TABLE", namespace.full_name(names.outbox(export, source)), "changes that wait")
    yield MadeObject(source, "TABLE", namespace.full_name(names.state(export, source)), "what the source returned last")
