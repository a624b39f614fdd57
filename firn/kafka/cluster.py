"""Asking a cluster about topics and offsets through librdkafka, with errors a person can act on (`firn.kafka.faults`).

Not for producing or consuming records, nor for configuring a client (`firn.kafka.client`), nor for deciding what a
topic should be (`firn.provision`).
"""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from firn.errors import ConfigError, FirnError, TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.faults import ConnectionFaults, refused_configuration

K = TypeVar("K")

# Cut off from its broker, a client logs many lines a second; what matters in them arrives as an error.
_CLIENT_LOG = logging.getLogger("firn.kafka.client")
_CLIENT_LOG.setLevel(logging.CRITICAL)

REQUEST_SECONDS = 10.0
"""How long one admin request may take before it counts as a transient fault."""

_UNKNOWN_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
_UNKNOWN_GROUP = {KafkaError.GROUP_ID_NOT_FOUND}


class RecreatedTopicError(TransientError):
    """A topic is not the one any more that was meant: who knows it by its id has to look again."""


@dataclass(frozen=True)
class TopicInfo:
    """A topic as the cluster describes it; `topic_id` is Kafka's uuid as its own tools print it."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int


@dataclass(frozen=True)
class GroupInfo:
    """A consumer group: how many consumers it has now, and its committed offsets by (topic, partition)."""

    name: str
    members: int
    offsets: Mapping[tuple[str, int], int]


def with_callbacks(config: Mapping[str, str], faults: ConnectionFaults) -> dict[str, Any]:
    """A client configuration that reports to `faults` and a logger; by itself librdkafka fills stderr when cut off."""
    return {**config, "error_cb": faults, "logger": _CLIENT_LOG}


@dataclass(frozen=True)
class KafkaAdmin:
    """An admin client with the faults that its callback reported. Made by `admin_client`; closes with the process."""

    client: AdminClient
    faults: ConnectionFaults
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED

    def wait(self, futures: Mapping[K, Future[Any]], doing: str) -> dict[K, Any]:
        """Wait for all answers of one request: per key a result or Kafka's error.

        Serves the callbacks meanwhile, so a refused login is raised at once (AuthenticationError, ConfigError).
        """
        deadline = time.monotonic() + REQUEST_SECONDS + 5
        while not all(future.done() for future in futures.values()) and time.monotonic() < deadline:
            self.client.poll(0.05)
            if (cause := self.faults.terminal()) is not None:
                raise cause
        return {key: self._outcome(future, doing) for key, future in futures.items()}

    def _outcome(self, future: Future[Any], doing: str) -> Any:
        try:
            answer = future.result(timeout=0.1)
        except KafkaException as error:
            return error.args[0]
        except TimeoutError:
            raise self.faults.explain(KafkaError(KafkaError._TIMED_OUT), doing) from None
        self.faults.clear()
        return answer


def admin_client(client: KafkaClient) -> KafkaAdmin:
    """A client for topics and offsets. Connects on its first request; raises ConfigError for a setting it refuses."""
    faults = ConnectionFaults(client.brokers)
    isolation = IsolationLevel.READ_COMMITTED if client.read_committed else IsolationLevel.READ_UNCOMMITTED
    try:
        return KafkaAdmin(AdminClient(with_callbacks(client.librdkafka(), faults)), faults, isolation)
    except KafkaException as error:
        raise refused_configuration(error.args[0], client.brokers) from None


def find_topics(admin: KafkaAdmin, names: Iterable[str]) -> dict[str, TopicInfo]:
    """Those of `names` that exist, described. Raises Transient-, Authentication-, Privilege- or ConfigError."""
    doing = "describe topics"
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    futures = admin.client.describe_topics(TopicCollection(wanted), request_timeout=REQUEST_SECONDS)
    found: dict[str, TopicInfo] = {}
    for name, answer in admin.wait(futures, doing).items():
        if not isinstance(answer, KafkaError):
            replicas = max((len(p.replicas) for p in answer.partitions), default=0)
            found[name] = TopicInfo(name, _topic_id(answer.topic_id), len(answer.partitions), replicas)
        elif answer.code() not in _UNKNOWN_TOPIC:
            raise admin.faults.explain(answer, f"describe topic {name}")
    return found


def describe_topics(admin: KafkaAdmin, names: Iterable[str]) -> dict[str, TopicInfo]:
    """Describe topics that must exist; an absent one is a ConfigError that names similar topics."""
    wanted = list(names)
    found = find_topics(admin, wanted)
    absent = [name for name in wanted if name not in found]
    if absent:
        raise _unknown_topics(admin, absent)
    return found


def topic_names(admin: KafkaAdmin) -> list[str]:
    """All topics this login may see, internal ones left out, in order."""
    try:
        listed = admin.client.list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as error:
        admin.client.poll(0)
        raise admin.faults.explain(error.args[0], "list topics") from None
    return sorted(name for name in listed if not name.startswith("__"))


def check_topic_ids(admin: KafkaAdmin, topic_ids: Mapping[str, str]) -> None:
    """Raise RecreatedTopicError unless these topics (by name) still have these ids, otherwise as `find_topics` does.

    What is read between two such checks is of the topics that were meant, and not of others of their name.
    """
    found = find_topics(admin, topic_ids)
    gone = sorted(name for name, topic_id in topic_ids.items() if name not in found or found[name].topic_id != topic_id)
    if gone:
        raise RecreatedTopicError(
            f"Topics were deleted, or deleted and made again: {', '.join(gone)}.",
            where=f"brokers {admin.faults.brokers}",
            next_step="Find out who did it, and whether their records are still needed.",
        )


def offsets(
    admin: KafkaAdmin,
    partitions: Iterable[tuple[str, int]],
    at: Literal["earliest", "latest", "high_watermark"] | int,
) -> dict[tuple[str, int], int]:
    """First offset still held (earliest) or the offset after the last readable record (latest), per (topic, partition).

    high_watermark: the offset after the last record, also of those that an open transaction keeps from being read. `at`
    as Unix milliseconds: the first record of that time or later, -1 where there is none. Raises ConfigError for a topic
    or partition that does not exist, otherwise like `find_topics`.
    """
    isolation = admin.isolation
    if at == "high_watermark":
        at, isolation = "latest", IsolationLevel.READ_UNCOMMITTED
    spec: Any = OffsetSpec.for_timestamp(at) if isinstance(at, int) else getattr(OffsetSpec, at)()
    asked = {TopicPartition(topic, number): spec for topic, number in partitions}
    if not asked:
        return {}
    futures = admin.client.list_offsets(asked, request_timeout=REQUEST_SECONDS, isolation_level=isolation)
    result: dict[tuple[str, int], int] = {}
    for key, answer in admin.wait(futures, f"list {at} offsets").items():
        if isinstance(answer, KafkaError):
            raise _no_offset(admin, key.topic, key.partition, answer)
        result[key.topic, key.partition] = answer.offset
    return result


def group_names(admin: KafkaAdmin) -> list[str]:
    """The consumer groups that this login may describe. Raises as `find_groups` does."""
    doing = "list consumer groups"
    answer = admin.wait({doing: admin.client.list_consumer_groups(request_timeout=REQUEST_SECONDS)}, doing)[doing]
    if isinstance(answer, KafkaError):
        raise admin.faults.explain(answer, doing)
    return [group.group_id for group in answer.valid]


def find_groups(admin: KafkaAdmin, names: Iterable[str]) -> dict[str, GroupInfo]:
    """Those of `names` that exist, described. Raises Transient-, Authentication-, Privilege- or ConfigError."""
    wanted = list(dict.fromkeys(names))
    futures = admin.client.describe_consumer_groups(wanted, request_timeout=REQUEST_SECONDS) if wanted else {}
    found: dict[str, GroupInfo] = {}
    for name, answer in admin.wait(futures, "describe consumer groups").items():
        if isinstance(answer, KafkaError):
            if answer.code() not in _UNKNOWN_GROUP:
                raise admin.faults.explain(answer, f"describe consumer group {name}")
        elif answer.state != ConsumerGroupState.DEAD:  # what older brokers say of a group that does not exist
            found[name] = GroupInfo(name, len(answer.members), _group_offsets(admin, name))
    return found


def delete_groups(admin: KafkaAdmin, names: Iterable[str]) -> None:
    """Delete consumer groups; one that does not exist is as good. Raises as `find_groups` does.

    A group that has consumers is a ConfigError.
    """
    wanted = list(dict.fromkeys(names))
    futures = admin.client.delete_consumer_groups(wanted, request_timeout=REQUEST_SECONDS) if wanted else {}
    for name, answer in admin.wait(futures, "delete consumer groups").items():
        if isinstance(answer, KafkaError) and answer.code() == KafkaError.NON_EMPTY_GROUP:
            raise ConfigError(
                f"Consumer group {name} has consumers, and Kafka does not delete it before they have left.",
                where=f"brokers {admin.faults.brokers}",
                next_step="Stop them, or wait until their session ends.",
            )
        if isinstance(answer, KafkaError) and answer.code() not in _UNKNOWN_GROUP:
            raise admin.faults.explain(answer, f"delete consumer group {name}")


def delete_topic(admin: KafkaAdmin, name: str) -> None:
    """Delete a topic; one that does not exist is as good. Raises as `find_topics` does."""
    doing = f"delete topic {name}"
    answer = admin.wait(admin.client.delete_topics([name], request_timeout=REQUEST_SECONDS), doing)[name]
    if isinstance(answer, KafkaError) and answer.code() not in _UNKNOWN_TOPIC:
        raise admin.faults.explain(answer, doing)


def _group_offsets(admin: KafkaAdmin, group: str) -> dict[tuple[str, int], int]:
    doing = f"read the offsets of group {group}"
    request = [ConsumerGroupTopicPartitions(group)]
    answer = admin.wait(admin.client.list_consumer_group_offsets(request, request_timeout=REQUEST_SECONDS), doing)[
        group
    ]
    if not isinstance(answer, KafkaError):
        return {(each.topic, each.partition): each.offset for each in answer.topic_partitions}
    if answer.code() in _UNKNOWN_GROUP:
        return {}
    raise admin.faults.explain(answer, doing)


def _no_offset(admin: KafkaAdmin, topic: str, partition: int, error: KafkaError) -> FirnError:
    """librdkafka says "No leaders found" where the topic or partition does not exist: ask before explaining."""
    info = describe_topics(admin, [topic])[topic]
    if partition < info.partitions:
        return admin.faults.explain(error, f"list offsets of {topic}-{partition}")
    return ConfigError(
        f"Topic {topic} has no partition {partition}: it has {info.partitions}.",
        where=f"brokers {admin.faults.brokers}",
        next_step="Name partitions from 0 to the last one.",
    )


def _unknown_topics(admin: KafkaAdmin, absent: list[str]) -> ConfigError:
    known = topic_names(admin)
    near = list(dict.fromkeys(match for name in absent for match in difflib.get_close_matches(name, known, n=3)))
    hint = f"Did you mean {', '.join(near)}? Otherwise make" if near else "Make"
    return ConfigError(
        f"Topic does not exist: {', '.join(absent)}.",
        where=f"brokers {admin.faults.brokers}",
        next_step=f"{hint} it with `firn provision --topic {absent[0]}`.",
    )


def _topic_id(uuid: Any) -> str:
    """librdkafka prints plain base64, Kafka's own tools the URL-safe alphabet."""
    return str(uuid).replace("+", "-").replace("/", "_")
