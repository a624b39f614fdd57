"""What an export needs in Kafka before its first pass: its topics, that of dead letters, and first markers.

A topic that is absent is made as `topic.creation.default.*` says; one that exists stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import ExitStack

from confluent_kafka import KafkaError
from confluent_kafka.cimpl import NewTopic

from firn.connector.export.config import ExportConfig
from firn.errors import ConfigError
from firn.exports.context import ExportContext
from firn.exports.ledger import ClaimedExport
from firn.exports.markers import PARTITION, Marker, MarkerKey, ensure_marker_topic, marker_session, read_markers
from firn.exports.source import Source
from firn.kafka import cluster

log = logging.getLogger(__name__)


def ensure_topics(admin: cluster.KafkaAdmin, config: ExportConfig, sources: Iterable[Source]) -> None:
    """Make the topics that are absent. Raises ConfigError where they may not be made, and as Kafka tells."""
    ensure_marker_topic(admin, config.marker_topic, config.topics.replication)
    wanted = {source.topic: _new_topic(config, source.topic) for source in sources}
    if config.publishes_letters and (letters := config.errors.dead_letter_topic):
        wanted[letters] = NewTopic(letters, 1, config.errors.dead_letter_replication)
    absent = [topic for topic in wanted if topic not in cluster.find_topics(admin, wanted)]
    if absent and not config.topics.create:
        raise ConfigError(
            f"There is no topic {', '.join(sorted(absent))}.",
            where=f"brokers {admin.faults.brokers}",
            next_step="Create it, or let the export do so: topic.creation.enable=true.",
        )
    if absent:
        _make(admin, [wanted[topic] for topic in absent])


def first_markers(context: ExportContext, claimed: ClaimedExport) -> None:
    """Write markers of batch 0 for what was never published, so that a marker which is gone later is noticed.

    Their producers come first: a transaction that an earlier run left open would keep its marker from being read.
    """
    topic = context.config.marker_topic
    with ExitStack() as entered:
        sessions = {
            key: entered.enter_context(marker_session(context.kafka, key, topic)) for key in _new_keys(context, claimed)
        }
        known = read_markers(context.kafka, topic, sessions) if sessions else {}
        for key, kafka in sessions.items():
            if key not in known:
                with kafka.transaction():
                    kafka.put(topic, key.record, Marker(0, claimed.epoch).record(), [], PARTITION)


def _new_keys(context: ExportContext, claimed: ClaimedExport) -> list[MarkerKey]:
    """Those that may have no marker yet: of sources that were never moved, and shards of all rows that are to come."""
    shards = range(1, context.config.snapshot.shards + 1)
    return [
        MarkerKey(claimed.id, source, shard)
        for source, state in claimed.sources.items()
        for shard in (*((0,) if state.last_batch == 0 else ()), *(shards if state.brings_all_rows else ()))
    ]


def _new_topic(config: ExportConfig, topic: str) -> NewTopic:
    return NewTopic(topic, config.topics.partitions, config.topics.replication, config=dict(config.topics.options))


def _make(admin: cluster.KafkaAdmin, topics: list[NewTopic]) -> None:
    names = ", ".join(topic.topic for topic in topics)
    futures = admin.client.create_topics(topics, request_timeout=cluster.REQUEST_SECONDS)
    for topic, answer in admin.wait(futures, f"create topics {names}").items():
        if isinstance(answer, KafkaError) and answer.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            if answer.code() == KafkaError.INVALID_REPLICATION_FACTOR:
                raise ConfigError(
                    f"The brokers cannot create topic {topic}: {answer.str()}",
                    where="topic.creation.default.replication.factor, errors.deadletterqueue.topic.replication.factor",
                    next_step="Set it to the number of brokers or less (-1: the brokers' default).",
                )
            raise admin.faults.explain(answer, f"create topic {topic}")
        log.info("made topic %s", topic)
