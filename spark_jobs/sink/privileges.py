"""What a sink requires of its role in Snowflake: warehouse, schema, its tables, Firn's own, and what its method needs.

Nothing is made here: the sink makes its tables and its ledger when it starts, and the method what it needs. Tables and
method say themselves what they require (`tables.privileges`, `methods.base`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.ledger import control, requests, rows
from firn.provision.snowflake import session_of
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.grants import Privilege, name_parts
from firn.snowflake.identifiers import Namespace, quoted
from firn.snowflake.requirements import (
    RequiredTable,
    Requirement,
    check_requirements,
    table_requirements,
)
from spark_jobs.sink.methods import registry
from spark_jobs.sink.tables.loaders import loader_of
from spark_jobs.sink.tables.privileges import required_tables
from spark_jobs.sink.values.table_loaders import TableLoader


def check_rights(
    connection: SnowflakeConnection, config: SinkConfig, login: SnowflakeLogin, tables: Iterable[str]
) -> None:
    """Raise PrivilegeError, with every GRANT that is missing, unless the session's role may do all that a sink does.

    For the start of a run, before the first record; it says what `firn sink validate --live` says. Raises ConfigError
    for a pipe of a table that cannot be read, and the errors of `firn.snowflake.connection`.
    """
    namespace = Namespace(login.database, login.schema)
    loaders = {table: loader_of(connection, namespace, config, table) for table in dict.fromkeys(tables)}
    requirements = sink_requirements(connection, config, login, loaders)
    check_requirements(connection, session_of(connection).role, requirements, where=f"sink {config.name}")


def sink_requirements(
    connection: SnowflakeConnection,
    config: SinkConfig,
    login: SnowflakeLogin,
    loaders: Mapping[str, TableLoader | None],
) -> Iterator[Requirement]:
    """All that the sink requires, as its objects are now. loaders: by table; None where a table has a fault."""
    namespace = Namespace(login.database, login.schema)
    schema = namespace.full_name("X")[:2]
    yield Requirement(Privilege("USAGE", "WAREHOUSE", name_parts(quoted(login.warehouse))))
    yield Requirement(Privilege("USAGE", "DATABASE", schema[:1]))
    yield Requirement(Privilege("USAGE", "SCHEMA", schema))
    own = ("SELECT", "INSERT", "UPDATE")
    used = [*required_tables(namespace, config, loaders)]
    used += [RequiredTable(namespace.full_name(name), own) for name in (rows.TABLE, control.TABLE, requests.TABLE)]
    for table in used:
        yield from table_requirements(connection, table)
    yield from registry.of(config.method).privileges(connection, namespace, list(loaders))
