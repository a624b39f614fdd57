"""How each table of a sink is loaded: found out once for an epoch, made where it is absent, and anew when it changes.

Others may change a table while the sink runs. A COPY that does not work tells of it, and so do records that have no
place in the table as it was seen: it is looked at again before one of them counts as bad.
On the driver, in the session of its batches, and never inside a transaction: what is made here is DDL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.errors import ConfigError, TerminalError
from firn.sinks.context import SinkContext
from firn.snowflake.columns import CONTENT, METADATA
from firn.snowflake.identifiers import Namespace, table_for
from firn.snowflake.tables import describe
from spark_jobs.sink.methods.snowpipe.pipe_input_table import LandingTable
from spark_jobs.sink.tables.evolution import Evolution, SchemaChange
from spark_jobs.sink.tables.pipes import check_pipe, user_pipe
from spark_jobs.sink.tables.target_tables import absent_table, check_columns, ensure_variant_table
from spark_jobs.sink.values.reports import SchemaChangeRequest
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, TableLoader, VariantLoader


class Loads:
    """The loads of one epoch, in one session."""

    def __init__(self, context: SinkContext, connection: SnowflakeConnection) -> None:
        self._config, self._namespace, self._connection = context.config, context.namespace, connection
        self._loads: dict[str, TableLoader] = {}
        self._landings: dict[str, LandingTable] = {}
        self._seen: set[str] = set()
        self._refusing: frozenset[str] = frozenset()
        evolving = context.config.auto_evolve is not False
        self._evolution = Evolution(context.namespace, context.config.name, context.config.tables, evolving)

    def known(self, topics: Iterable[str]) -> bool:
        """Whether a batch of these topics can begin without a statement."""
        return not self._refusing and {table_for(each, self._config.table_map) for each in topics} <= self._loads.keys()

    def begin_batch(self) -> None:
        """What was seen of tables may be old by now; those that refused records are looked at again at once."""
        self._seen.clear()
        self.look_again(self._refusing)

    def look_again(self, tables: Iterable[str]) -> None:
        """Look at tables anew. Raises ConfigError where one cannot take records any more."""
        for table in sorted(tables):
            self._look(table)

    def refused(self, topics: Iterable[str]) -> None:
        """The topics of which this batch had records without a place in their table."""
        self._refusing = frozenset(table_for(topic, self._config.table_map) for topic in topics)

    def unsure(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics whose tables were not looked at since the batch began."""
        return frozenset(topic for topic in topics if table_for(topic, self._config.table_map) not in self._seen)

    def of_topics(self, topics: Iterable[str]) -> dict[str, TableLoader]:
        """The loaders by topic. Makes the table of a VariantLoader. Raises ConfigError where a table is unfit."""
        tables = {topic: table_for(topic, self._config.table_map) for topic in topics}
        for table in sorted({*tables.values()} - self._loads.keys()):
            self._look(table)
        return {topic: self._loads[table] for topic, table in tables.items()}

    def of_table(self, table: str) -> TableLoader:
        """The load of a table that was looked at."""
        return self._loads[table]

    def landing_of(self, table: str) -> LandingTable:
        """Where the records of a PipeLoader wait for its SELECT."""
        return self._landings[table]

    def evolve(self, wanted: Sequence[SchemaChangeRequest]) -> tuple[SchemaChange, ...]:
        """Change the tables as their records want it, and look at them anew; returns what was done."""
        before = {each.table: self._loads[each.table] for each in wanted}
        columns = {
            table: load.columns if load.exists else None
            for table, load in before.items()
            if isinstance(load, ColumnsLoader)
        }
        changes = self._evolution.apply(self._connection, wanted, columns)
        for table, load in before.items():
            self._look(table)
            if self._loads[table] == load:
                raise _unchanged(self._namespace, table, wanted)
        return changes

    def _look(self, table: str) -> None:
        load = load_of(self._connection, self._namespace, self._config, table)
        match load:
            case VariantLoader():
                ensure_variant_table(
                    self._connection,
                    self._namespace,
                    table,
                    create=self._config.auto_create_tables,
                    tables=self._config.tables,
                )
            case ColumnsLoader() if not load.exists and not self._config.auto_create_tables:
                raise absent_table(self._namespace, table, self._config.tables)
            case ColumnsLoader() if load.exists:
                check_columns(self._namespace.qualified(table), load.columns, load)
            case PipeLoader():
                check_pipe(self._connection, self._namespace, table, load)
                self._landings[table] = LandingTable(self._namespace, self._config.name, table)
                self._landings[table].prepare(self._connection)
        self._loads[table] = load
        self._seen.add(table)


def load_of(connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, table: str) -> TableLoader:
    """How a table is loaded, as the configuration and Snowflake say. Changes nothing. Raises ConfigError."""
    if pipe := user_pipe(connection, namespace, table, fields=config.schematization):
        return pipe
    if not config.schematization:
        return VariantLoader()
    shape = describe(connection, namespace, table)
    if shape is None:  # whatever its first records have, the table is made with it
        return ColumnsLoader((), exists=False, grow=True)
    grow = shape.evolves if config.auto_evolve is None else config.auto_evolve
    if not grow and not config.value.hoist and {column.name for column in shape.columns} <= {METADATA, CONTENT}:
        raise _without_columns(namespace.qualified(table))
    return ColumnsLoader(shape.columns, True, grow)


def _without_columns(table: str) -> ConfigError:
    """A hoisted field may be RECORD_CONTENT; of other records each one would be bad."""
    return ConfigError(
        "The table has no columns for the fields of records, and none are added.",
        where=f"table {table}, snowflake.enable.schematization=true",
        next_step="Set auto.evolve to true, or: ALTER TABLE "
        f"{table} SET ENABLE_SCHEMA_EVOLUTION = TRUE; or add the columns; or name another table in "
        "snowflake.topic2table.map. What the table holds stays as it is.",
    )


def _unchanged(namespace: Namespace, table: str, wanted: Sequence[SchemaChangeRequest]) -> TerminalError:
    first = next(each for each in wanted if each.table == table)
    return TerminalError(
        f"Columns were added or changed, and the table has none of it: {first}.",
        where=namespace.qualified(table),
        next_step="Look at who else changes the table, and at FIRN_SCHEMA_CHANGES; then start the sink again.",
    )
