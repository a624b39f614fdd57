"""The yardstick of the export: the loop that guides show, written plainly and without its bugs of syntax.

Read the stream, produce JSON, flush, advance the stream by DML. It is not exactly once: what is committed between its
SELECT and its INSERT is lost (tests/firn_local/snowflake shows that), and a crash between flush and INSERT sends all
again. Its rows come in one list, as in the guide.
"""

from __future__ import annotations

import json

from confluent_kafka import Producer
from snowflake.connector import DictCursor, SnowflakeConnection

BATCH = 1000


class PlainExport:
    """One exporter of one stream to one topic."""

    def __init__(self, connection: SnowflakeConnection, client: dict[str, str], key: str) -> None:
        self._connection, self._key = connection, key
        self._producer = Producer({**client, "acks": "all", "linger.ms": 20, "compression.type": "lz4"})
        self._failed: list[str] = []

    def poll(self, stream: str, topic: str) -> int:
        """One round of the loop; how many changes it published. Raises RuntimeError where one was not delivered."""
        with self._connection.cursor(DictCursor) as cursor:
            cursor.execute(f"SELECT * FROM {stream}")
            changes = cursor.fetchall()
        for number, change in enumerate(changes, 1):
            message = {"action": change["METADATA$ACTION"], "is_update": change["METADATA$ISUPDATE"], "data": change}
            value = json.dumps(message, default=str)
            self._producer.produce(topic, key=str(change[self._key]), value=value, on_delivery=self._delivered)
            if number % BATCH == 0:
                self._producer.poll(0)
        self._producer.flush()
        if self._failed:
            raise RuntimeError(f"{len(self._failed)} changes were not delivered: {self._failed[0]}")
        with self._connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE IF NOT EXISTS STREAM_CONSUMER (N NUMBER)")
            cursor.execute(f"INSERT INTO STREAM_CONSUMER SELECT 1 FROM {stream} WHERE 1 = 0")
        return len(changes)

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed.append(str(error))
