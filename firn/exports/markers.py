"""Markers in Kafka: which batch of a source is published, committed in the transaction that published it.

A marker is a record of a compacted topic, so it never expires as the offsets of a consumer group do. Its key names the
export (by its random id), the source and the shard; its value holds the batch, the epoch and what was published since
the outbox was settled last: after a crash the history loses nothing. The topic has one partition, and the marker is the
last record of its transaction: others wait for an open one for moments only.

Not for what follows from a marker (`spark_jobs.export.task`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import orjson
from confluent_kafka import KafkaError
from confluent_kafka.cimpl import NewTopic
from pydantic import SecretStr

from firn.errors import ConfigError, TerminalError
from firn.exports.published import PublishedBatch, read_published
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import OffsetRange
from firn.kafka.properties import KafkaProperty
from firn.kafka.ranges import SMALL_QUEUE, RangeReader
from firn.kafka.transactional_producer import TransactionSession

PARTITION = 0
TRANSACTION_MS = 60_000
"""How long a transaction of an export may be open. One that a killed process left holds back readers no longer."""
_ISOLATION = "isolation.level"
_CONFIG = {"cleanup.policy": "compact", "segment.ms": str(24 * 3600 * 1000), "min.cleanable.dirty.ratio": "0.1"}
log = logging.getLogger(__name__)


class MarkerKey(NamedTuple):
    """Whose marker it is. export_id: of the claim."""

    export_id: str
    source: str
    shard: int

    @property
    def record(self) -> bytes:
        """The key of the record."""
        return orjson.dumps([self.export_id, self.source, self.shard])

    @property
    def transactional_id(self) -> str:
        """Of the one producer that may move this marker."""
        return f"firn-export-{self.export_id}-{self.source}-{self.shard}"


@dataclass(frozen=True)
class Marker:
    """Everything up to `batch` is published. published: the batches that are not known to be settled.

    offset: where the marker is; the next look may begin there.
    """

    batch: int
    epoch: int
    published: tuple[PublishedBatch, ...] = field(default=())
    offset: int = -1

    def record(self) -> bytes:
        """The value of the record."""
        published = [each.document for each in self.published]
        return orjson.dumps({"batch": self.batch, "epoch": self.epoch, "published": published})


def read_markers(
    client: KafkaClient, topic: str, keys: Iterable[MarkerKey], from_offset: int = 0
) -> dict[MarkerKey, Marker]:
    """The newest committed marker of each key that has one.

    from_offset: where to begin, of a marker that was read before. Call it behind `init_transactions` of the marker's
    producer: then all that it ever committed is there, and this waits until it can be read. Raises TransientError where
    a transaction of another export stays open, TerminalError for a marker that is none, and as Kafka tells.
    """
    wanted = {key.record: key for key in keys}
    found: dict[MarkerKey, Marker] = {}
    for key, value, offset in _records(client, topic, from_offset):
        if key in wanted:
            if value is None:
                found.pop(wanted[key], None)
            else:
                found[wanted[key]] = replace(_read(value, topic, offset), offset=offset)
    return found


def find_markers(client: KafkaClient, topic: str, export_id: str) -> set[MarkerKey]:
    """The keys of all markers of an export, also of sources and shards that it has no longer.

    Raises as `read_markers`.
    """
    found: dict[MarkerKey, bool] = {}
    for key, value, _ in _records(client, topic, 0):
        if (read := _read_key(key)) is not None and read.export_id == export_id:
            found[read] = value is not None
    return {key for key, there in found.items() if there}


def ensure_marker_topic(admin: cluster.KafkaAdmin, topic: str, replication: int = -1) -> None:
    """Make the topic unless it is there, compacted and with one partition. Raises ConfigError for one that is not.

    replication: -1 for the brokers' default.
    """
    doing = f"create topic {topic} for the markers of exports"
    if topic not in cluster.find_topics(admin, [topic]):
        new = NewTopic(topic, 1, replication, config=_CONFIG)
        answer = admin.wait(admin.client.create_topics([new], request_timeout=cluster.REQUEST_SECONDS), doing)[topic]
        if isinstance(answer, KafkaError) and answer.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise admin.faults.explain(answer, doing)
        log.info("made topic %s", topic)
    elif (found := cluster.find_topics(admin, [topic])[topic]).partitions != 1:
        raise ConfigError(
            f"Topic {topic} has {found.partitions} partitions, and the markers of exports need one.",
            where=f"brokers {admin.faults.brokers}",
            next_step="Name another topic in firn.export.marker.topic, or leave it out.",
        )


def remove_markers(client: KafkaClient, topic: str, keys: Sequence[MarkerKey]) -> None:
    """Fence the producers of these markers, and delete the markers: for an export that is cleaned up."""
    for key in keys:
        with marker_session(client, key, topic) as kafka, kafka.transaction():
            kafka.put(topic, key.record, None, [], PARTITION)


def marker_session(client: KafkaClient, key: MarkerKey, topic: str, *, singly: bool = False) -> TransactionSession:
    """The producer that publishes under a marker; topic: where it produces to, for errors. singly: see there."""
    return TransactionSession(
        client, key.transactional_id, "firn-export", topic, timeout_ms=TRANSACTION_MS, singly=singly
    )


def _records(client: KafkaClient, topic: str, start: int) -> Iterator[tuple[bytes, bytes | None, int]]:
    """All committed records from `start` to the high watermark of now: (key, value, offset)."""
    admin, where = cluster.admin_client(client), (topic, PARTITION)
    end = cluster.offsets(admin, [where], "high_watermark")[where]
    beginning = cluster.offsets(admin, [where], "earliest")[where]
    reader = RangeReader(_committed_only(client), queue=SMALL_QUEUE)
    try:
        for batch in reader.read(OffsetRange(topic, PARTITION, max(start, beginning), end)):
            columns = (batch.column(name).to_pylist() for name in ("key", "value", "offset"))
            yield from zip(*columns, strict=True)
    finally:
        reader.close()


def _committed_only(client: KafkaClient) -> KafkaClient:
    """The same client, which reads no record of an aborted or an open transaction."""
    others = tuple(each for each in client.properties if each.name != _ISOLATION)
    return KafkaClient((*others, KafkaProperty(_ISOLATION, SecretStr("read_committed"))))


def _read_key(record: bytes) -> MarkerKey | None:
    """The key of a record; None for one that is none."""
    try:
        export_id, source, shard = orjson.loads(record)
        return MarkerKey(str(export_id), str(source), int(shard))
    except (orjson.JSONDecodeError, TypeError, ValueError):
        return None


def _read(value: bytes, topic: str, offset: int) -> Marker:
    try:
        document = orjson.loads(value)
        published = tuple(map(read_published, document["published"]))
        return Marker(int(document["batch"]), int(document["epoch"]), published)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise TerminalError(
            "A marker cannot be read.",
            where=f"topic {topic}, offset {offset}",
            next_step="Nothing but exports may write to this topic. Find out which batch was published last "
            "(headers firn.batch), and set the export up again with `firn export clean`.",
        ) from None
