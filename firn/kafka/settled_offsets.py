"""Offsets and metadata that a consumer group holds once no transaction is open for them.

Such a group has no consumers: its offsets move in the transactions of `firn.kafka.transactional_producer`. Not for what
they mean to their caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from firn.errors import FirnError, TransientError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import TopicPartition as Where
from firn.kafka.transactional_producer import CommittedOffset, ProducerFaults, TransactionalProducer

_ATTEMPTS = 3


def settled_offsets(client: KafkaClient, group: str, ids: Mapping[Where, str]) -> dict[Where, CommittedOffset | None]:
    """What the group holds (None: nothing) once no transaction is open for these partitions.

    ids: the transactional id that commits for each partition. Whoever has a transaction open is fenced: call this
    where the caller alone may go on. Raises TransientError, and as Kafka's requests do.
    """
    admin = cluster.admin_client(client)
    found: dict[Where, CommittedOffset | None] = {}
    left = list(ids)
    for _ in range(_ATTEMPTS):
        answers = _held(admin, group, left)
        found |= {where: held for where, held in answers.items() if not isinstance(held, KafkaError)}
        left = [where for where in left if where not in found]
        if not left:
            return found
        for where in left:
            with TransactionalProducer(client, ids[where], group, where, where.topic):
                pass  # entering fences every older producer of the id
    raise TransientError(
        f"Transactions of group {group} stay open for {', '.join(map(str, left))}.",
        where=f"brokers {client.brokers}",
        next_step="Wait until they end: that takes five minutes at most.",
    )


def overwrite_offsets(client: KafkaClient, group: str, positions: Mapping[Where, int]) -> None:
    """Set offsets and clear their metadata, where the group holds any. Raises as Kafka's requests do."""
    admin = cluster.admin_client(client)
    held = _held(admin, group, positions)
    changed = [TopicPartition(*where, at, metadata="") for where, at in positions.items() if held[where]]
    if not changed:
        return
    doing = f"change the offsets of group {group}"
    futures = admin.client.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, changed)], request_timeout=cluster.REQUEST_SECONDS
    )
    answer = admin.wait(futures, doing)[group]
    for error in [answer] if isinstance(answer, KafkaError) else [each.error for each in answer.topic_partitions]:
        if error is not None:
            raise _explained(admin, group, error, doing)


def _held(
    admin: cluster.KafkaAdmin, group: str, wheres: Iterable[Where]
) -> dict[Where, CommittedOffset | KafkaError | None]:
    """What the group holds, None for nothing, an error where a transaction is open."""
    doing = f"read the offsets of group {group}"
    asked = [TopicPartition(*where) for where in wheres]
    if not asked:
        return {}
    futures = admin.client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, asked)], require_stable=True, request_timeout=cluster.REQUEST_SECONDS
    )
    answer = admin.wait(futures, doing)[group]
    if isinstance(answer, KafkaError):
        if answer.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return dict.fromkeys(Where(each.topic, each.partition) for each in asked)
        raise _explained(admin, group, answer, doing)
    found: dict[Where, CommittedOffset | KafkaError | None] = {}
    for each in answer.topic_partitions:
        if each.error is not None and each.error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
            raise _explained(admin, group, each.error, doing)
        held = CommittedOffset(each.offset, each.metadata or "") if each.offset >= 0 else None
        found[Where(each.topic, each.partition)] = each.error or held
    return found


def _explained(admin: cluster.KafkaAdmin, group: str, error: KafkaError, doing: str) -> FirnError:
    return ProducerFaults(admin.faults, "", group, "").explain(error, doing)
