"""Topics of dead letters and replay positions: created where they are absent.

A dead-letter topic is created as Connect does it, and large enough for its records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError
from confluent_kafka.cimpl import NewTopic

from firn.errors import ConfigError, FirnError, PrivilegeError
from firn.kafka import cluster
from firn.provision.topic import topic_configs

log = logging.getLogger(__name__)

PARTITIONS = 1
"""As in Connect; for more partitions, create the topic by hand."""

HEADER_BYTES = 64 * 1024
"""What its envelope may add to a record."""


def ensure_topic(admin: cluster.KafkaAdmin, sink: str, topic: str, replication: int, sources: Iterable[str]) -> None:
    """Create the dead-letter topic where it is absent; one that exists stays as it is.

    replication: replicas, -1 for the brokers' default. sources: the topics that are read, whose records it must take.
    Raises ConfigError where the sink would read its own dead letters, and for a number of replicas that brokers refuse.
    """
    names = sorted(sources)
    if topic in names:
        raise ConfigError(
            f"The sink would read its own dead letters: {topic} is one of its topics.",
            where=f"errors.deadletterqueue.topic.name of sink {sink}",
            next_step="Name another topic there.",
        )
    if cluster.find_topics(admin, [topic]):
        return
    make_topic(admin, sink, topic, replication, _like(admin, names))


def make_topic(admin: cluster.KafkaAdmin, sink: str, name: str, replication: int, config: Mapping[str, str]) -> None:
    """Create a topic with its settings, unless somebody else has done so meanwhile. Errors: as `ensure_topic`."""
    topic = NewTopic(name, PARTITIONS, replication, config=dict(config))
    doing = f"create topic {name} for dead letters"
    answer = admin.wait(admin.client.create_topics([topic], request_timeout=cluster.REQUEST_SECONDS), doing)[name]
    if isinstance(answer, KafkaError) and answer.code() != KafkaError.TOPIC_ALREADY_EXISTS:
        raise _refused(admin, sink, replication, answer, doing)
    log.info("made topic %s", name)


def _refused(admin: cluster.KafkaAdmin, sink: str, replication: int, error: KafkaError, doing: str) -> FirnError:
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
        return ConfigError(
            f"The brokers cannot {doing} with {replication} replicas: {error.str()}",
            where=f"errors.deadletterqueue.topic.replication.factor of sink {sink}",
            next_step="Set it to the number of brokers or less (-1: the brokers' default), or make the topic.",
        )
    return admin.faults.explain(error, doing)


def _like(admin: cluster.KafkaAdmin, sources: list[str]) -> dict[str, str]:
    """Settings of a topic that takes the dead letters of these topics and keeps them as long as their records."""
    settings = [found for name in sources if (found := settings_of(admin, name))]
    if not settings:
        return {}
    largest = max(int(found["max.message.bytes"]) for found in settings)
    retentions = [-1 if "compact" in found["cleanup.policy"] else int(found["retention.ms"]) for found in settings]
    # Dead letters have the timestamps of their records, by which a shorter retention would drop old ones at once.
    longest = -1 if -1 in retentions else max(retentions)
    return {"max.message.bytes": str(largest + HEADER_BYTES), "retention.ms": str(longest)}


def settings_of(admin: cluster.KafkaAdmin, topic: str) -> dict[str, str]:
    """A topic's settings; empty where this login may not read them."""
    try:
        return topic_configs(admin, topic)
    except PrivilegeError:
        log.warning("DESCRIBE_CONFIGS on topic %s is not granted: its settings are unknown", topic)
        return {}
