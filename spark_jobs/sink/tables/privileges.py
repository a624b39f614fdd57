"""What a sink's role must be allowed to do with its target tables.

Statements: INSERT and COPY, and ALTER TABLE with the history of schema changes where a table evolves (`evolution`). Not
for what a method needs beside the tables (`methods.base`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firn.connector.config import SinkConfig
from firn.ledger import schema_changes
from firn.snowflake.identifiers import FullName, Namespace
from firn.snowflake.requirements import RequiredTable
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, TableLoader


def required_tables(
    namespace: Namespace, config: SinkConfig, loaders: Mapping[str, TableLoader | None]
) -> Iterator[RequiredTable]:
    """Each target table, then the history if any table evolves. loaders: by table; None where a table has a fault."""
    evolving = {name: each for name, each in loaders.items() if isinstance(each, ColumnsLoader) and each.grow}
    for table, loader in loaders.items():
        # ALTER TABLE wants its owner; who makes a table owns it.
        owned = table in evolving and evolving[table].exists
        yield RequiredTable(
            filled_table(namespace, table, loader),
            ("INSERT", "OWNERSHIP") if owned else ("INSERT",),
            created=config.auto_create_tables and not isinstance(loader, PipeLoader),
            alternative="Or set auto.evolve to false: the table then stays as it is.",
        )
    if evolving:
        yield RequiredTable(namespace.full_name(schema_changes.TABLE), ("INSERT",))


def filled_table(namespace: Namespace, table: str, loader: TableLoader | None) -> FullName:
    """The table that rows go into: a pipe may fill another one."""
    return loader.table if isinstance(loader, PipeLoader) else namespace.full_name(table)
