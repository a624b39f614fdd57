"""Live checks of one sink: those of every sink, with what this one needs in Snowflake: tables, method, privileges.

The one place that knows both the checks (`firn.operations.validation`) and the sink. Nothing is changed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.errors import ConfigError
from firn.operations.residue.replaced_connector import find_replaced_connector
from firn.operations.validation import sink_checks
from firn.operations.validation.live_check import LiveCheck, guarded
from firn.operations.validation.snowflake import check_objects, check_privileges
from firn.provision.snowflake import session_of
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.identifiers import Namespace, check_table_map, table_for, written
from firn.snowflake.tables import describe_named
from spark_jobs.sink.methods import registry
from spark_jobs.sink.privileges import sink_requirements
from spark_jobs.sink.tables.loaders import loader_of
from spark_jobs.sink.tables.privileges import filled_table
from spark_jobs.sink.tables.target_tables import check_columns
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, RecordLoader, TableLoader

SERVICE = "snowpipe streaming login"


def live_checks(config: SinkConfig, settings: Settings) -> list[LiveCheck]:
    """Look at everything the sink will use, in about the time of the slowest answer. Never raises for what it finds."""
    return sink_checks.live_checks(config, settings, partial(check_snowflake, settings))


def check_snowflake(
    settings: Settings, config: SinkConfig, login: SnowflakeLogin, topics: Sequence[str]
) -> Iterator[LiveCheck]:
    """Log in and look. Raises FirnError where the login does not work; all else is a check."""
    tables = dict.fromkeys(table_for(topic, config.table_map) for topic in topics)
    yield from guarded("snowflake.topic2table.map", partial(_check_map, config, topics))
    with connect(login, query_tag="firn sink validate") as connection:
        who = session_of(connection)
        yield LiveCheck("snowflake login", "ok", str(who))
        yield from guarded("snowflake objects", partial(check_objects, connection, login))
        look = _Tables(connection, config, Namespace(login.database, login.schema), who.role, {}, {})
        for table in tables:
            yield from guarded(f"table {table}", partial(look.check, table))
        loaders = {table: look.loaders.get(table) for table in tables}
        yield from guarded(
            "snowflake privileges",
            lambda: check_privileges(connection, who.role, sink_requirements(connection, config, login, loaders)),
        )
        yield from guarded(
            "replaced connector", partial(_check_replaced, connection, config, look.namespace, [*tables])
        )
        check = registry.of(config.method).check_service
        yield from guarded(
            SERVICE,
            lambda: [LiveCheck(SERVICE, "ok", each) for each in check(login, settings, connection, look.there)],
        )


def _check_map(config: SinkConfig, topics: Sequence[str]) -> list[LiveCheck]:
    """Nothing where each topic has one table. Raises ConfigError."""
    check_table_map(topics, config.table_map)
    return []


def _check_replaced(
    connection: SnowflakeConnection, config: SinkConfig, namespace: Namespace, tables: Sequence[str]
) -> Iterator[LiveCheck]:
    """A warning where stages and pipes of the official connector are left; nothing else."""
    found = find_replaced_connector(connection, namespace, config.name, tables).findings()
    if found:
        shown = ", ".join(f"{each.what} {each.name}" for each in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        step = "Stop that connector if it still runs: both would load. Then: firn sink clean <config> --connector"
        yield LiveCheck("replaced connector", "warning", f"the connector of before left {shown}{more}", step)


@dataclass(frozen=True)
class _Tables:
    """Looks at target tables in one session. loaders: of the tables that were looked at and can be loaded; there: of
    those among them that exist and fit.
    """

    connection: SnowflakeConnection
    config: SinkConfig
    namespace: Namespace
    role: str
    loaders: dict[str, TableLoader]
    there: dict[str, TableLoader]

    def check(self, table: str) -> list[LiveCheck]:
        """Whether rows can go into a table, one check."""
        loader = loader_of(self.connection, self.namespace, self.config, table)
        filled = filled_table(self.namespace, table, loader)
        subject, piped = f"table {written(filled)}", isinstance(loader, PipeLoader)
        shape = describe_named(self.connection, filled)
        if shape is None and (piped or not self.config.auto_create_tables):
            step = "Create it: the sink creates no table for a pipe's SELECT."
            step = step if piped else "Create it, or set auto.create.tables to true."
            return [LiveCheck(subject, "failed", f"does not exist, or role {self.role} may not see it", step)]
        self.loaders[table] = loader
        if shape is None:
            return [LiveCheck(subject, "ok", f"will be made (role {self.role} sees none)")]
        try:
            if not isinstance(loader, PipeLoader):
                check_columns(written(filled), shape.columns, loader)
            registry.of(self.config.method).check_table(self.connection, self.namespace, table, loader)
        except ConfigError as error:
            return [LiveCheck(subject, "failed", error.what, error.next_step)]
        self.there[table] = loader
        return [LiveCheck(subject, "ok", self._description(table, loader, len(shape.columns)))]

    def _description(self, table: str, loader: TableLoader, columns: int) -> str:
        """How an existing table will be loaded."""
        match loader:
            case PipeLoader():
                return f"exists ({columns}), loaded by the SELECT of pipe {self.namespace.qualified(table)}"
            case ColumnsLoader():
                evolves = "evolves" if loader.grow else "does not evolve"
                return f"exists, its columns fit ({columns}), {evolves}"
            case RecordLoader():
                return f"exists ({columns}), interactive: its definition takes whole records"
            case _:
                return f"exists, its columns fit ({columns})"
