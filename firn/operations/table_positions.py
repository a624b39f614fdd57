"""How far the tables of a sink hold its partitions: behind the newest row of each, for positions that were lost.

Rows of a partition come in order of their offsets by either method, so all below the newest one are there or became no
row. Not for setting positions (`offset_reset`). The statement: MAX, GROUP BY and paths into a VARIANT
(https://docs.snowflake.com/en/user-guide/querying-semistructured).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.errors import ConfigError
from firn.kafka.partitions import TopicPartition
from firn.operations.residue.remaining_objects import TargetOfPipe
from firn.snowflake.connection import query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import FullName, Namespace, table_for, written

_NEWEST = """
SELECT RECORD_METADATA:partition::NUMBER(38, 0) AS PARTITION, MAX(RECORD_METADATA:offset::NUMBER(38, 0)) AS NEWEST
FROM {table} WHERE RECORD_METADATA:topic::VARCHAR = ?
GROUP BY RECORD_METADATA:partition::NUMBER(38, 0)
"""


class TablePositions:
    """Asks the tables of a sink, with a session that nobody else uses.

    target_of_pipe: a user's pipe may fill a table of another name.
    """

    def __init__(
        self, connection: SnowflakeConnection, namespace: Namespace, config: SinkConfig, target_of_pipe: TargetOfPipe
    ) -> None:
        self._connection, self._namespace, self._config = connection, namespace, config
        self._target_of_pipe = target_of_pipe

    def __call__(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the newest row of each of these partitions; those without a row are left out.

        Raises ConfigError where rows do not say which record they were.
        """
        metadata = self._config.metadata
        if not (metadata.all and metadata.topic and metadata.offset_and_partition):
            raise ConfigError(
                "The table does not say how far it is: its rows do not name their topic, partition and offset.",
                where="snowflake.metadata.* of the connector",
                next_step="Find out how far the table is by its contents, and name an offset with --topic and "
                "--partition.",
            )
        found = self._look({where.topic for where in partitions})
        return {where: at for where, at in found if where in partitions}

    def _look(self, topics: Iterable[str]) -> list[tuple[TopicPartition, int]]:
        found = []
        for topic in sorted(topics):
            try:
                rows = query(self._connection, _NEWEST.format(table=written(self._table(topic))), (topic,))
            except MissingObjectError:  # no table, no rows
                continue
            found += [
                (TopicPartition(topic, int(row["PARTITION"])), int(row["NEWEST"]) + 1)
                for row in rows
                if row["PARTITION"] is not None and row["NEWEST"] is not None
            ]
        return found

    def _table(self, topic: str) -> FullName:
        table = table_for(topic, self._config.table_map)
        target = self._target_of_pipe(self._connection, self._namespace, self._config, table)
        return target or self._namespace.full_name(table)
