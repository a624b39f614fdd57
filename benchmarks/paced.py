"""A producer at a steady rate to one partition that remembers when it made each record. Not for measuring throughput.

One partition: the offset of a record is then its number, and the number of rows in a table says which are visible.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import cycle, islice

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from benchmarks.preload import SEED
from firn.errors import FirnError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.produce.orders import Clock, first_order_id, order_events
from firn.produce.records import order_records
from firn.produce.run import Target

POOL = 5_000
"""Different orders, sent again and again: encoding them in time would be the measured thing at high rates."""
_TICK_SECONDS = 0.005
_FLUSH_SECONDS = 30.0


def make_topic(kafka: KafkaClient, topic: str) -> None:
    """A topic of one partition. Raises KafkaException where the broker refuses it."""
    admin = cluster.admin_client(kafka).client
    admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=30)[topic].result()


def drop_topic(kafka: KafkaClient, topic: str) -> None:
    """Remove it."""
    admin = cluster.admin_client(kafka).client
    admin.delete_topics([topic], operation_timeout=30)[topic].result()


class PacedProducer:
    """Sends `rate` orders a second in a thread, from `start` to `stop`."""

    def __init__(self, target: Target, rate: float) -> None:
        self._topic, self._rate = target.topic, rate
        config = {"enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
        self._producer = Producer(target.kafka.librdkafka() | config)
        self._pool = _orders(target)
        self._made: list[float] = []
        self._failed: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="paced-producer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> npt.NDArray[np.float64]:
        """End; returns the Unix seconds at which each record was made, by offset. Raises FirnError for a lost one."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(_FLUSH_SECONDS)
        if left or self._failed:
            raise FirnError(f"{left + len(self._failed)} records did not reach the topic.", where=self._topic)
        return np.array(self._made)

    def _run(self) -> None:
        begun, records = time.monotonic(), cycle(self._pool)
        while not self._stop.wait(_TICK_SECONDS):
            due = int((time.monotonic() - begun) * self._rate) - len(self._made)
            for key, value in islice(records, max(due, 0)):
                self._made.append(time.time())
                self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed.append(str(error))


def _orders(target: Target) -> Sequence[tuple[bytes, bytes]]:
    """Keys and framed values of sample orders."""
    now_ms = time.time_ns() // 1_000_000
    events = order_events(POOL, seed=SEED, first_id=first_order_id(now_ms), clock=Clock.for_run(now_ms, POOL, None))
    return [(str(record.key).encode(), record.value) for record in order_records(events, target.encode)]
