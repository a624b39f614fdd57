"""Offsets and metadata that a consumer group holds once no transaction is open for them.

Such a group has no consumers: its offsets move in the transactions of `firn.kafka.transactional_producer`. Not for what
they mean to their caller.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError

from firn.errors import TransientError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.kafka.group_documents import altered, explained, held_offsets
from firn.kafka.partitions import TopicPartition as Where
from firn.kafka.transactional_producer import CommittedOffset, TransactionalProducer

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
    held = _held(admin, group, list(positions))
    changed = {where: CommittedOffset(at, "") for where, at in positions.items() if held[where]}
    if not changed:
        return
    doing = f"change the offsets of group {group}"
    answer = admin.wait({group: altered(admin, group, changed)}, doing)[group]
    for error in [answer] if isinstance(answer, KafkaError) else [each.error for each in answer.topic_partitions]:
        if error is not None:
            raise explained(admin, group, error, doing)


def _held(
    admin: cluster.KafkaAdmin, group: str, wheres: Collection[Where]
) -> dict[Where, CommittedOffset | KafkaError | None]:
    """What the group holds, None for nothing, an error where a transaction is open."""
    if not wheres:
        return {}
    held = held_offsets(admin, group, wheres, stable=True)
    for found in held.values():
        if isinstance(found, KafkaError) and found.code() != KafkaError.UNSTABLE_OFFSET_COMMIT:
            raise explained(admin, group, found, f"read the offsets of group {group}")
    return {where: held.get(where) for where in wheres}
