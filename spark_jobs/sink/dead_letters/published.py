"""Which dead letters are out already: the driver asks Kafka right after each claim, before it plans.

A transaction that is still open then belongs to an epoch that is over: it is aborted, not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from firn import kafka
from firn.errors import FirnError, TerminalError, TransientError
from firn.kafka_client import KafkaClient
from spark_jobs.sink.dead_letters.faults import LetterFaults
from spark_jobs.sink.dead_letters.offset_list import UnreadableError, read_list
from spark_jobs.sink.dead_letters.queue import DeadLetterQueue
from spark_jobs.sink.dead_letters.transaction import Committed, GroupTransactions
from spark_jobs.sink.ledger import TopicPartition as Where

_NOBODY_KNOWS = {KafkaError.GROUP_ID_NOT_FOUND}
_LOOKS = 3


@dataclass(frozen=True)
class Letters:
    """What is out of one partition: the offsets that became letters, from the ledger's NEXT_OFFSET on.

    group_offset: the offset that the group holds, -1 for none. metadata: as the group holds it; None where the caller
    does not know it, because it went on within its epoch.
    """

    group_offset: int = -1
    published: frozenset[int] = frozenset()
    metadata: str | None = None

    def agrees_with(self, now: Committed) -> bool:
        """Whether the group still holds what this is about."""
        return self.group_offset == now.offset and self.metadata in (None, now.metadata)


def published_letters(queue: DeadLetterQueue, positions: Mapping[Where, tuple[str, int]]) -> dict[Where, Letters]:
    """What is out, for each of `positions` (topic id and NEXT_OFFSET of each partition of the ledger).

    Raises TerminalError where nobody can tell, otherwise as Kafka's requests do.
    """
    found = _stable_offsets(queue, positions)
    return {where: _letters(queue, where, *at, found[where]) for where, at in positions.items()}


def forget_letters(client: KafkaClient, sink: str, positions: Mapping[Where, int]) -> None:
    """Forget what is out of these partitions: the sink begins anew at `positions`, so records are judged anew.

    For a reset of the ledger while no run of the sink is alive. Only what the group holds is changed.
    """
    group = f"firn-dlq-{sink}"
    admin = kafka.admin_client(client)
    held = _offsets(admin, group, list(positions))
    changed = [TopicPartition(*where, at, metadata="") for where, at in positions.items() if held[where]]
    if not changed:
        return
    request = [ConsumerGroupTopicPartitions(group, changed)]
    doing = f"change the offsets of group {group}"
    futures = admin.client.alter_consumer_group_offsets(request, request_timeout=kafka.REQUEST_SECONDS)
    answer = admin.wait(futures, doing)[group]
    errors = [answer] if isinstance(answer, KafkaError) else [p.error for p in answer.topic_partitions if p.error]
    for error in errors:
        raise _explain(admin, group, error, doing)


def _letters(queue: DeadLetterQueue, where: Where, topic_id: str, next_offset: int, held: Committed | None) -> Letters:
    if held is None:
        return Letters(metadata="")
    try:
        of, offsets = read_list(held.metadata)
    except UnreadableError as error:
        if held.offset > next_offset:
            raise _unreadable(queue, where, next_offset, held, error) from None
        return Letters(held.offset, metadata=held.metadata)
    published = frozenset(offsets[offsets >= next_offset].tolist()) if of == topic_id else frozenset()
    return Letters(held.offset, published, held.metadata)


def _unreadable(
    queue: DeadLetterQueue, where: Where, next_offset: int, held: Committed, error: UnreadableError
) -> TerminalError:
    return TerminalError(
        f"Which records of {where} from offset {next_offset} to {held.offset - 1} are dead letters already cannot be "
        f"read: {error}.",
        where=f"metadata of group {queue.group}, partition {where}",
        next_step=f"Find out who changed the group's offsets. `firn sink offsets <config> --reset {next_offset}` "
        "forgets them: bad records among these become dead letters once more.",
    )


def _stable_offsets(queue: DeadLetterQueue, wheres: Mapping[Where, tuple[str, int]]) -> dict[Where, Committed | None]:
    """What the group holds once no transaction is open; what is open is of an older epoch and is fenced."""
    admin = kafka.admin_client(queue.client)
    found: dict[Where, Committed | None] = {}
    for _ in range(_LOOKS):
        left = [where for where in wheres if where not in found]
        if not left:
            return found
        unstable: list[Where] = []
        found |= _offsets(admin, queue.group, left, unstable)
        for where in unstable:
            topic_id, _ = wheres[where]
            name = queue.transactional_id(topic_id, where.partition)
            with GroupTransactions(queue.client, name, queue.group, where, queue.topic):
                pass  # entering fences
    if missing := [str(where) for where in wheres if where not in found]:
        raise TransientError(
            f"A transaction of group {queue.group} stays open for {', '.join(missing)}.",
            next_step="Wait until it ends: within five minutes.",
        )
    return found


def _offsets(
    admin: kafka.KafkaAdmin, group: str, wheres: Iterable[Where], unstable: list[Where] | None = None
) -> dict[Where, Committed | None]:
    """What the group holds, None for nothing. Partitions with an open transaction go to `unstable`, where given."""
    doing = f"read the offsets of group {group}"
    asked = [TopicPartition(*where) for where in wheres]
    if not asked:
        return {}
    request = [ConsumerGroupTopicPartitions(group, asked)]
    futures = admin.client.list_consumer_group_offsets(
        request, require_stable=unstable is not None, request_timeout=kafka.REQUEST_SECONDS
    )
    answer = admin.wait(futures, doing)[group]
    if isinstance(answer, KafkaError):
        if answer.code() in _NOBODY_KNOWS:
            return {Where(p.topic, p.partition): None for p in asked}
        raise _explain(admin, group, answer, doing)
    found: dict[Where, Committed | None] = {}
    for held in answer.topic_partitions:
        where = Where(held.topic, held.partition)
        if held.error is None:
            found[where] = Committed(held.offset, held.metadata or "") if held.offset >= 0 else None
        elif held.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT and unstable is not None:
            unstable.append(where)
        else:
            raise _explain(admin, group, held.error, doing)
    return found


def _explain(admin: kafka.KafkaAdmin, group: str, error: KafkaError, doing: str) -> FirnError:
    return LetterFaults(admin.faults, "", group, "").explain(error, doing)
