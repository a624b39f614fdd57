"""What the sink's role must be allowed to do with pipes: OPERATE on those that somebody made, nothing on default ones.

Source: https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-access-control. Privileges on the
tables are the same for every method (`spark_jobs.sink.tables.privileges`).
"""

from __future__ import annotations

from collections.abc import Iterable

from snowflake.connector import SnowflakeConnection

from firn.snowflake.grants import Privilege
from firn.snowflake.identifiers import Namespace
from firn.snowflake.requirements import Requirement
from spark_jobs.sink.tables.pipes import streams_by_its_name


def pipe_privileges(connection: SnowflakeConnection, namespace: Namespace, tables: Iterable[str]) -> list[Requirement]:
    """To operate the pipes that have the names of these tables."""
    return [
        Requirement(Privilege("OPERATE", "PIPE", namespace.full_name(table)))
        for table in tables
        if streams_by_its_name(connection, namespace, table)
    ]
