"""Changes of a table ORDERS that a test makes, and what readers of its topic must see: each once, in order per key."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Message

States = dict[str, list[str | None]]
"""By key, in order: the status, None for a tombstone."""
TABLE = "CREATE TABLE ORDERS (ID NUMBER(18,0) NOT NULL, STATUS VARCHAR(20), AMOUNT NUMBER(12,2))"
_READ_SECONDS = 30


class Exported(Protocol):
    """A table ORDERS, and the export of its changes."""

    def sql(self, statement: str) -> object:
        """Run a statement beside the table."""

    def run(self) -> object:
        """Run the export until all is published."""

    def messages(self) -> Sequence[Message]:
        """All committed records of its topic."""

    def waiting(self) -> int:
        """Rows that wait in its outbox."""

    def history(self) -> Sequence[Mapping[str, Any]]:
        """Its FIRN_EXPORT_HISTORY."""


class Expected:
    """What the topic must show of orders whose first rows are published.

    No key changes twice: between two moves a stream gives net changes, and a run that was struck may not have moved.
    """

    def __init__(self, orders: Exported, count: int) -> None:
        self._orders = orders
        orders.sql(f"INSERT INTO ORDERS SELECT SEQ4(), 'new', 1 FROM TABLE(GENERATOR(ROWCOUNT => {count}))")
        orders.run()
        self._untouched, self._next = list(range(count)), count
        self._states: States = {str(key): ["new"] for key in range(count)}

    def change(self) -> None:
        """One order is updated, one deleted, one inserted, and one gets another key."""
        updated, deleted, renamed = (self._untouched.pop() for _ in range(3))
        new, self._next = self._next, self._next + 2
        self._orders.sql(f"UPDATE ORDERS SET STATUS = 'paid' WHERE ID = {updated}")
        self._orders.sql(f"DELETE FROM ORDERS WHERE ID = {deleted}")
        self._orders.sql(f"INSERT INTO ORDERS VALUES ({new}, 'new', 1)")
        self._orders.sql(f"UPDATE ORDERS SET ID = {new + 1} WHERE ID = {renamed}")
        self._states[str(updated)].append("paid")
        self._states[str(deleted)].append(None)
        self._states[str(renamed)].append(None)
        self._states |= {str(new): ["new"], str(new + 1): ["new"]}

    def has_begun(self) -> bool:
        """Whether each key shows what it must, or a part from its beginning."""
        return all(self._states[key][: len(shown)] == shown for key, shown in self._found().items())

    def has_ended(self) -> bool:
        """Whether each key shows all that it must."""
        return self._found() == self._states

    def hold(self) -> None:
        """All of it is there once and in order; nothing waits, and the history counts every message."""
        found = self._found()
        assert found == self._states
        assert self._orders.waiting() == 0
        assert sum(row["ROW_COUNT"] for row in self._orders.history()) == sum(map(len, found.values()))

    def _found(self) -> States:
        found: States = defaultdict(list)
        for message in self._orders.messages():
            value = message.value()
            found[(message.key() or b"").decode()].append(None if value is None else json.loads(value)["STATUS"])
        return dict(found)


def committed_records(configuration: Mapping[str, Any], topic: str) -> Iterator[Message]:
    """All committed records of a topic as a plain consumer reads them: those of a partition in their order."""
    own = {
        "group.id": uuid.uuid4().hex,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": "true",
    }
    consumer = Consumer(dict(configuration) | own)
    try:
        left = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.subscribe([topic])
        while left:
            message = consumer.poll(_READ_SECONDS)
            assert message is not None, f"partitions {left} of {topic} are not read to their ends"
            if message.error() is None:
                yield message
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
    finally:
        consumer.close()
