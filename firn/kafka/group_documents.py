"""Small documents in a consumer group: each partition's offset carries a text, written without joining the group.

Kafka keeps metadata beside every committed offset (OffsetCommit of the Kafka protocol), and an administrator may write
both (KIP-396). So a group of Firn's alone is a small, replicated table: one row a partition, one writer a row, the
newest write wins, a deleted topic takes its rows along. An absent row says nothing: the writer may lack the right.
An administrator's requests and not a consumer's (`Consumer.committed`, `Consumer.commit`): only they return every row
of a group, also those of topics that the caller does not know, tell a partition with an open transaction apart instead
of waiting for it, and serve several groups with one client. What librdkafka gets wrong in them: docs/reliability.md.
Not for positions that must move with records (`transactional_producer`), nor for what the texts mean.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaOffset

from firn.errors import ConfigError, FirnError, TransientError, unexpected
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import KafkaAdmin
from firn.kafka.partitions import TopicPartition
from firn.kafka.producer_faults import ProducerFaults
from firn.kafka.transactional_producer import CommittedOffset

LIMIT = 4000
"""Characters that a text may have; brokers take a little more by default (offset.metadata.max.bytes)."""
MOMENT_SECONDS = 0.25
"""How long an offer waits for Kafka's answer; a broker in order needs a tenth of it."""
CLOSE_SECONDS = 3.0
_REQUEST_SECONDS = 30.0
_POLL_SECONDS = 0.05

_HAS_MEMBERS = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
_MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
}
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART}


class GroupInUseError(ConfigError):
    """The group has consumers: Kafka lets nobody else write its offsets."""


class GroupMovingError(TransientError):
    """The group moves between brokers, as after a broker's start: the next request asks again."""


class PartitionGoneError(ConfigError):
    """A topic or partition does not exist any more: what was to be written for it is dropped."""


class GroupDocuments:
    """The documents of one group, for one thread. Connects on its first request."""

    def __init__(self, client: KafkaClient, group: str) -> None:
        self._admin, self.group = cluster.admin_client(client), group
        self._waiting: dict[TopicPartition, CommittedOffset] = {}
        self._sent: dict[TopicPartition, CommittedOffset] = {}
        self._answer: Future[Any] | None = None
        self.fault: FirnError | None = None
        """Why Kafka refused the newest request; None while that is under way, and where Kafka took it."""

    def read(self, seconds: float = cluster.REQUEST_SECONDS) -> dict[TopicPartition, CommittedOffset]:
        """Every document of the group that this login may see; none where there is no such group.

        seconds: how long Kafka may take. Raises Transient-, Authentication-, Privilege- or ConfigError where it does
        not tell.
        """
        return read_documents(self._admin, self.group, seconds)

    def write(self, documents: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Write these documents (offset and text by partition) and wait until Kafka has them.

        Raises as `offer` reports, and TransientError where no answer comes; nothing of it is written later on.
        """
        if not self.offer(documents, cluster.REQUEST_SECONDS):
            self._waiting.clear()
            raise self.fault or self._unanswered()

    def offer(self, documents: Mapping[TopicPartition, tuple[int, str]], seconds: float = MOMENT_SECONDS) -> bool:
        """Write these documents within `seconds`; whether Kafka has all that was offered so far. Never raises.

        One request is under way at a time. What is not written yet waits for the next offer, which may be of nothing;
        the newest document of each partition wins. Why Kafka refuses, `fault` says: GroupInUseError, GroupMovingError,
        PartitionGoneError, Privilege-, Authentication-, Transient- or ConfigError.
        """
        self._waiting |= {where: CommittedOffset(*document) for where, document in documents.items()}
        self._look(0)
        self._send()
        self._look(seconds)
        return self._answer is None and not self._waiting and self.fault is None

    def close(self) -> bool:
        """Write what waits, in `CLOSE_SECONDS` at most for what is under way and for what follows; as `offer`."""
        self._look(CLOSE_SECONDS)
        for _ in range(2):  # the first answer may be that the group moves
            if self._waiting and (self.fault is None or isinstance(self.fault, GroupMovingError)):
                self.offer({}, CLOSE_SECONDS)
        return self._answer is None and not self._waiting and self.fault is None

    def _send(self) -> None:
        if self._answer is not None or not self._waiting:
            return
        self._sent, self._waiting, self.fault = self._waiting, {}, None
        try:
            self._answer = altered(self._admin, self.group, self._sent)
        except KafkaException as error:
            self._refused(error.args[0], self._sent)

    def _look(self, seconds: float) -> None:
        """Take the answer, if it comes within `seconds`, or the reason why none can come."""
        deadline = time.monotonic() + seconds
        while self._answer is not None:
            left = max(0.0, deadline - time.monotonic())
            done = wait([self._answer], min(left, _POLL_SECONDS)).done
            self._admin.client.poll(0)  # hears why there is no connection
            if done:
                self._take(self._answer)
            elif not left or self._admin.faults.terminal():
                return

    def _take(self, answer: Future[Any]) -> None:
        self._answer, fault = None, answer.exception()
        if isinstance(fault, KafkaException):
            self._refused(fault.args[0], self._sent)
        elif fault is not None:
            self.fault = unexpected(fault)
        else:
            self._judge(answer.result().topic_partitions)

    def _judge(self, partitions: Iterable[KafkaOffset]) -> None:
        refused = {TopicPartition(p.topic, p.partition): p.error for p in partitions if p.error is not None}
        if not refused:
            self._admin.faults.clear()
            self.fault = None
            return
        # A topic that is gone stays gone; the rest is tried again with the next offer.
        again = {where: self._sent[where] for where, error in refused.items() if error.code() not in _GONE}
        self._refused(next(iter(refused.values())), again)

    def _refused(self, error: KafkaError, again: Mapping[TopicPartition, CommittedOffset]) -> None:
        self._waiting = {**again, **self._waiting}
        self.fault = explained(self._admin, self.group, error, f"write offsets of group {self.group}")

    def _unanswered(self) -> FirnError:
        timed_out = KafkaError(KafkaError._TIMED_OUT)
        return explained(self._admin, self.group, timed_out, f"write offsets of group {self.group}")


def read_documents(
    admin: KafkaAdmin, group: str, seconds: float = cluster.REQUEST_SECONDS
) -> dict[TopicPartition, CommittedOffset]:
    """As `GroupDocuments.read`, with a client that is there already."""
    found: dict[TopicPartition, CommittedOffset] = {}
    for where, held in held_offsets(admin, group, seconds=seconds).items():
        if isinstance(held, KafkaError):
            raise explained(admin, group, held, f"read the offsets of group {group}")
        found[where] = held
    return found


def altered(
    admin: KafkaAdmin, group: str, documents: Mapping[TopicPartition, CommittedOffset]
) -> Future[ConsumerGroupTopicPartitions]:
    """Ask Kafka to set offsets and their texts; its answer has an error for each partition that it refused.

    Raises KafkaException where the request cannot even be made.
    """
    offsets = [KafkaOffset(*where, at, metadata=text) for where, (at, text) in documents.items()]
    request = ConsumerGroupTopicPartitions(group, offsets)
    (answer,) = admin.client.alter_consumer_group_offsets([request], request_timeout=_REQUEST_SECONDS).values()
    return answer


def held_offsets(
    admin: KafkaAdmin,
    group: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    stable: bool = False,
    seconds: float = cluster.REQUEST_SECONDS,
) -> dict[TopicPartition, CommittedOffset | KafkaError]:
    """What the group holds of these partitions (None: of all): those that it holds nothing of are absent.

    stable: an error (UNSTABLE_OFFSET_COMMIT) stands for a partition whose offset an open transaction may still change.
    Raises as `GroupDocuments.read` does.
    """
    doing = f"read the offsets of group {group}"
    _check_coordinated(admin, group, doing, seconds)
    asked = None if partitions is None else [KafkaOffset(*where) for where in partitions]
    futures = admin.client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, asked)], require_stable=stable, request_timeout=seconds
    )
    answer = admin.wait(futures, doing)[group]
    if isinstance(answer, KafkaError):
        if answer.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        raise explained(admin, group, answer, doing)
    found: dict[TopicPartition, CommittedOffset | KafkaError] = {}
    for each in answer.topic_partitions:
        if each.error is not None or each.offset >= 0:
            where = TopicPartition(each.topic, each.partition)
            found[where] = each.error or CommittedOffset(each.offset, each.metadata or "")
    return found


def _check_coordinated(admin: KafkaAdmin, group: str, doing: str, seconds: float) -> None:
    """Raise GroupMovingError while no broker coordinates the group.

    librdkafka ends the whole process (SIGSEGV) where that is the answer to a request for offsets
    (https://github.com/confluentinc/librdkafka/issues/5040), and reports it of a request for the group's description.
    """
    futures = admin.client.describe_consumer_groups([group], request_timeout=seconds)
    answer = admin.wait(futures, doing)[group]
    if isinstance(answer, KafkaError) and answer.code() in _MOVING:
        raise explained(admin, group, answer, doing)


def explained(admin: KafkaAdmin, group: str, error: KafkaError, doing: str) -> FirnError:
    """What Kafka says of a group's offsets, as an error for a person."""
    where = f"brokers {admin.faults.brokers}"
    if error.code() in _HAS_MEMBERS:
        return GroupInUseError(
            f"Group {group} has consumers of its own, and Kafka lets nobody else write its offsets.",
            where=where,
            next_step="Stop these consumers.",
        )
    if error.code() in _MOVING:
        return GroupMovingError(
            f"Group {group} moves between brokers: {error.str()}.", where=where, next_step="Nothing: it ends by itself."
        )
    if error.code() in _GONE:
        return PartitionGoneError(
            f"A topic or partition of group {group} is gone.", where=where, next_step="Nothing, if it was deleted."
        )
    return ProducerFaults(admin.faults, "", group, "").explain(error, doing)
