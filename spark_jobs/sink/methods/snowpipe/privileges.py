"""What the sink's role must be allowed to do with the stage.

Statements: CREATE STAGE, PUT, LIST, REMOVE, COPY from the stage (`stage`, `copy_into`). Privileges on the tables are
the same for every method (`spark_jobs.sink.tables.privileges`).
"""

from __future__ import annotations

from snowflake.connector import SnowflakeConnection

from firn.snowflake.grants import Privilege
from firn.snowflake.identifiers import Namespace
from firn.snowflake.requirements import Requirement
from spark_jobs.sink.methods.snowpipe.stage import STAGE, stage_exists


def stage_privileges(connection: SnowflakeConnection, namespace: Namespace) -> list[Requirement]:
    """To make the stage where the role sees none, else to read and write it."""
    name = namespace.full_name(STAGE)
    if stage_exists(connection, namespace):
        # In this order: Snowflake grants WRITE to those who may READ.
        return [Requirement(Privilege(privilege, "STAGE", name)) for privilege in ("READ", "WRITE")]
    create = Privilege("CREATE STAGE", "SCHEMA", name[:2])
    return [Requirement(create, instead=(Privilege("READ, WRITE", "STAGE", name),))]
