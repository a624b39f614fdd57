"""How each table of a sink is loaded: found out once in an epoch, and again when the table changes or is absent.

Others may change a table while the sink runs. A commit that fails shows it, and so do records that have no place in the
table as it was described: it is described again before one of them counts as bad.
On the driver, in the session of its batches, and never inside a transaction: what is made here is DDL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from snowflake.connector import SnowflakeConnection

from firn.connector.config import Method, SinkConfig
from firn.errors import ConfigError, TerminalError
from firn.sinks.context import SinkContext
from firn.snowflake.columns import CONTENT, METADATA, TableType
from firn.snowflake.identifiers import Namespace, table_for
from firn.snowflake.tables import TableShape, describe
from spark_jobs.sink.tables.evolution import Evolution, SchemaChange
from spark_jobs.sink.tables.pipes import user_pipe
from spark_jobs.sink.tables.target_tables import COMMENT, absent_table, check_columns, ensure_variant_table
from spark_jobs.sink.values.reports import SchemaChangeRequest
from spark_jobs.sink.values.table_loaders import ColumnsLoader, RecordLoader, TableLoader, VariantLoader


class TableLoaders:
    """The loaders of one epoch, in one session. prepare_table: as `methods.base.DriverSide.prepare_table`."""

    def __init__(
        self,
        context: SinkContext,
        connection: SnowflakeConnection,
        prepare_table: Callable[[str, TableLoader], None],
    ) -> None:
        self._config, self._namespace, self._connection = context.config, context.namespace, connection
        self._prepare_table = prepare_table
        self._loaders: dict[str, TableLoader] = {}
        self._verified: set[str] = set()
        self._refusing: frozenset[str] = frozenset()
        evolving = context.config.auto_evolve is not False
        self._evolution = Evolution(context.namespace, context.config.name, context.config.tables, evolving)

    def known(self, topics: Iterable[str]) -> bool:
        """Whether a batch of these topics can begin without a statement."""
        return (
            not self._refusing and {table_for(each, self._config.table_map) for each in topics} <= self._loaders.keys()
        )

    def begin_batch(self) -> None:
        """Descriptions of tables may be out of date now; tables that refused records are described again at once."""
        self._verified.clear()
        self.refresh(self._refusing)

    def refresh(self, tables: Iterable[str]) -> None:
        """Describe tables again. Raises ConfigError where one cannot take records any more."""
        for table in sorted(tables):
            self._describe(table)

    def refused(self, topics: Iterable[str]) -> None:
        """The topics of which this batch had records without a place in their table."""
        self._refusing = frozenset(table_for(topic, self._config.table_map) for topic in topics)

    def unverified(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics whose tables were not described since the batch began."""
        return frozenset(topic for topic in topics if table_for(topic, self._config.table_map) not in self._verified)

    def of_topics(self, topics: Iterable[str]) -> dict[str, TableLoader]:
        """The loaders by topic. Makes the table of a VariantLoader. Raises ConfigError where a table is unfit."""
        tables = {topic: table_for(topic, self._config.table_map) for topic in topics}
        for table in sorted({*tables.values()} - self._loaders.keys()):
            self._describe(table)
        return {topic: self._loaders[table] for topic, table in tables.items()}

    def evolve(self, requests: Sequence[SchemaChangeRequest]) -> tuple[SchemaChange, ...]:
        """Change the tables as these requests say, and describe them again; returns what was done."""
        before = {each.table: self._loaders[each.table] for each in requests}
        columns = {
            table: loader.columns if loader.exists else None
            for table, loader in before.items()
            if isinstance(loader, ColumnsLoader)
        }
        changes = self._evolution.apply(self._connection, requests, columns)
        for table, loader in before.items():
            self._describe(table)
            if self._loaders[table] == loader:
                raise _unchanged(self._namespace, table, requests)
        return changes

    def _describe(self, table: str) -> None:
        loader, shape = _looked_up(self._connection, self._namespace, self._config, table)
        match loader:
            case VariantLoader():
                ensure_variant_table(
                    self._connection,
                    self._namespace,
                    table,
                    create=self._config.auto_create_tables,
                    tables=self._config.tables,
                    columns=shape.columns if shape else None,
                )
            case ColumnsLoader() if not loader.exists and not self._config.auto_create_tables:
                raise absent_table(self._namespace, table, self._config.tables)
            case ColumnsLoader() if loader.exists:
                check_columns(self._namespace.qualified(table), loader.columns, loader)
        self._prepare_table(table, loader)
        self._loaders[table] = loader
        self._verified.add(table)


def loader_of(connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, table: str) -> TableLoader:
    """How a table is loaded, as the configuration and Snowflake say. Changes nothing. Raises ConfigError."""
    return _looked_up(connection, namespace, config, table)[0]


def _looked_up(
    connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, table: str
) -> tuple[TableLoader, TableShape | None]:
    """The loader of a table, and the table as it is; None where it is absent, or nothing of it had to be known."""
    if pipe := user_pipe(connection, namespace, table, fields=config.schematization):
        return pipe, None
    shape = describe(connection, namespace, table) if config.schematization or _streams(config) else None
    return _loader_for(namespace, config, table, shape), shape


def _loader_for(namespace: Namespace, config: SinkConfig, table: str, shape: TableShape | None) -> TableLoader:
    if shape and _streams(config) and shape.kind is TableType.INTERACTIVE and shape.comment != COMMENT:
        return RecordLoader(config.schematization)
    if not config.schematization:
        return VariantLoader()
    if shape is None:  # whatever its first records have, the table is made with it
        return ColumnsLoader((), exists=False, grow=True, max_columns=config.tables.max_columns)
    grow = shape.evolves if config.auto_evolve is None else config.auto_evolve
    if not grow and not config.value.hoist and {column.name for column in shape.columns} <= {METADATA, CONTENT}:
        raise _without_columns(namespace.qualified(table))
    leave_out = not grow and config.unknown_fields == "ignore"
    return ColumnsLoader(shape.columns, True, grow, leave_out, config.tables.max_columns)


def _streams(config: SinkConfig) -> bool:
    """Whether rows may go into interactive tables, whose own definition may be a SELECT that reads whole records.

    No statement shows that definition, so an interactive table that the sink did not make gets whole records.
    """
    return config.method is Method.SNOWPIPE_STREAMING


def _without_columns(table: str) -> ConfigError:
    """A hoisted field may be RECORD_CONTENT; of other records each one would be bad."""
    return ConfigError(
        "The table has no columns for the fields of records, and none are added.",
        where=f"table {table}, snowflake.enable.schematization=true",
        next_step="Set auto.evolve to true, or: ALTER TABLE "
        f"{table} SET ENABLE_SCHEMA_EVOLUTION = TRUE; or add the columns; or name another table in "
        "snowflake.topic2table.map. What the table holds stays as it is.",
    )


def _unchanged(namespace: Namespace, table: str, requests: Sequence[SchemaChangeRequest]) -> TerminalError:
    first = next(each for each in requests if each.table == table)
    return TerminalError(
        f"Columns were added or changed, and the table has none of it: {first}.",
        where=namespace.qualified(table),
        next_step="Find out who else changes the table (see FIRN_SCHEMA_CHANGES), then start the sink again.",
    )
