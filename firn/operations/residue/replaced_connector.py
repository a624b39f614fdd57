"""What the official connector that a sink replaced left in Snowflake: its stages and pipes, found by their names.

Connectors up to version 3 with Snowpipe name a stage SNOWFLAKE_KAFKA_CONNECTOR_<connector>_STAGE_<table> and a pipe
SNOWFLAKE_KAFKA_CONNECTOR_<connector>_PIPE_<table>_<partition>, and keep both when they are removed; <connector> is its
name, or the name made valid with a hash behind it where it is no plain identifier
(https://docs.snowflake.com/en/user-guide/kafka-connector-manage). Version 4 has neither.
Statements: SHOW STAGES, SHOW PIPES, DROP PIPE, DROP STAGE
(https://docs.snowflake.com/en/sql-reference/sql/show-stages, .../show-pipes, .../drop-pipe, .../drop-stage).
Not for what Firn itself leaves (`firn.operations.clean`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.operations.residue.finding import Finding
from firn.snowflake.connection import execute, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import FullName, Namespace, stored, table_for, written

_PREFIX = "SNOWFLAKE_KAFKA_CONNECTOR"
_SHOW = "SHOW {kind}S LIKE 'SNOWFLAKE_KAFKA_CONNECTOR_%' IN SCHEMA {schema}"
_DROP = "DROP {kind} IF EXISTS {name}"
_PIPE = "the connector of before may still load through it: stop it first"
_STAGE = "files in it that no pipe has loaded are lost with it"


@dataclass(frozen=True)
class ReplacedConnector:
    """The stages and pipes of one connector. objects: kind and full name, pipes first, as they read the stages."""

    objects: tuple[tuple[str, FullName], ...]

    def findings(self) -> list[Finding]:
        """Each object, to be removed."""
        details = {"PIPE": _PIPE, "STAGE": _STAGE}
        return [Finding(kind.lower(), written(name), 1, None, details[kind]) for kind, name in self.objects]

    def remove(self, connection: SnowflakeConnection) -> None:
        """Drop them, one by one; may be given again. Raises as statements do: OWNERSHIP of each is needed."""
        for kind, name in self.objects:
            execute(connection, _DROP.format(kind=kind, name=written(name)))


def find_replaced_connector(
    connection: SnowflakeConnection, namespace: Namespace, connector: str, tables: Sequence[str]
) -> ReplacedConnector:
    """The objects of this connector's name for these tables (as in the configuration), as far as the role sees them.

    A table that is named need not exist any more. A name must match whole, as it was given or folded to capitals: other
    connectors' objects are not touched.
    """
    name = re.escape(table_for(connector, ()))
    of_tables = "|".join(re.escape(stored(table)) for table in tables)
    ends = {"PIPE": rf"PIPE_(?:{of_tables})_[0-9]+", "STAGE": rf"STAGE_(?:{of_tables})"}
    found: list[tuple[str, FullName]] = []
    for kind, end in ends.items() if tables else ():
        ours = re.compile(f"{_PREFIX}_{name}_{end}")
        folded = re.compile(f"{_PREFIX}_{name}_{end}", re.IGNORECASE)
        found += [
            (kind, (*namespace.full_name(shown)[:2], shown))
            for shown in sorted(_shown(connection, namespace, kind))
            if ours.fullmatch(shown) or (shown == shown.upper() and folded.fullmatch(shown))
        ]
    return ReplacedConnector(tuple(found))


def _shown(connection: SnowflakeConnection, namespace: Namespace, kind: str) -> list[str]:
    """The names of all connectors' objects of a kind."""
    try:
        rows = query(connection, _SHOW.format(kind=kind, schema=written(namespace.full_name(_PREFIX)[:2])))
    except MissingObjectError:
        return []
    return [str(row["name"]) for row in rows]
