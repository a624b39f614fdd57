"""What a sink keeps in Kafka about itself: consumer groups without consumers, and the positions of its replays.

Groups of a sink of this name in another ledger are shown and left: it may run there. Not the topics with records or
dead letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firn.connector.config import SinkConfig
from firn.dead_letters.queue import DeadLetterQueue
from firn.dead_letters.replay_positions import ReplayPositions, UnreadablePositionError
from firn.errors import PrivilegeError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.ledger import kafka_names
from firn.operations.residue.finding import Finding
from firn.plural import counted
from firn.sinks.group_offsets import group_of

_DELETE_GROUP = "kafka-consumer-groups --delete --group '{}'"
_DELETE_TOPIC = "kafka-topics --delete --topic '{}'"
_NAMES = {
    "dlq": kafka_names.dead_letter_group,
    "replay": kafka_names.replay_group,
    "tasks": kafka_names.task_group,
    "sign": kafka_names.sign_group,
    "request": kafka_names.request_group,
}
_PURPOSES = {
    "dlq": "published dead letters",
    "replay": "replayed dead letters",
    "tasks": "how far tasks are",
    "sign": "the driver's signs of life",
    "request": "that something was requested",
}


@dataclass(frozen=True)
class KafkaResidue:
    """What was found in Kafka. groups: those that a clean deletes. replay_topic: the topic that it deletes, if any."""

    admin: cluster.KafkaAdmin
    found: tuple[Finding, ...]
    groups: tuple[str, ...]
    replay_topic: str | None

    def findings(self) -> list[Finding]:
        """Each group, and the topic of replay positions."""
        return list(self.found)

    def remove(self) -> None:
        """Delete them. Raises as Kafka's requests do, and ConfigError for a group that has consumers by now."""
        cluster.delete_groups(self.admin, self.groups)
        if self.replay_topic:
            cluster.delete_topic(self.admin, self.replay_topic)


def group_purposes(config: SinkConfig, ledger_id: str | None) -> dict[str, str]:
    """The groups that a sink may have, and what each is for; without a ledger only the one for lag tools."""
    purposes = {group_of(config): "the sink's positions, for lag tools"}
    if ledger_id is None:
        return purposes
    return purposes | {name(ledger_id, config.name): _PURPOSES[purpose] for purpose, name in _NAMES.items()}


def possible_groups(config: SinkConfig, ledger_id: str | None, reason: str) -> list[Finding]:
    """The groups that may exist where nobody looked, and why nobody did."""
    return [
        Finding("consumer group", name, detail=reason, by_hand=_DELETE_GROUP.format(name), unseen=True)
        for name in group_purposes(config, ledger_id)
    ]


def find_kafka_residue(
    config: SinkConfig, ledger_id: str | None, client: KafkaClient, reads: Callable[[str], bool]
) -> KafkaResidue:
    """Look at the groups and replay positions of a sink; no topic need exist any more. reads: is a topic the sink's.

    ledger_id: of the sink's ledger; None where there is none. Raises Transient-, Authentication-, Privilege- or
    ConfigError where Kafka does not tell.
    """
    admin = cluster.admin_client(client)
    # The first may be a group that the connector names: perhaps one that others use too.
    groups = [
        _group(admin, name, purpose, reads if name == group_of(config) else None)
        for name, purpose in group_purposes(config, ledger_id).items()
    ]
    positions = None
    if ledger_id is not None:
        queue = DeadLetterQueue(
            ledger_id, config.name, "", context_headers=False, client=client, value_class="", key_class=""
        )
        positions = _replay_positions(ReplayPositions(queue), config.name)
    foreign = _foreign_groups(admin, config.name, ledger_id)
    return KafkaResidue(
        admin,
        tuple(finding for finding in (*groups, positions, *foreign) if finding),
        groups=tuple(finding.name for finding in groups if finding and not finding.by_hand),
        replay_topic=positions.name if positions and not positions.by_hand else None,
    )


def _foreign_groups(admin: cluster.KafkaAdmin, sink: str, ledger_id: str | None) -> list[Finding]:
    """Groups of a sink of this name in another ledger, as far as this login sees them."""
    try:
        groups = cluster.group_names(admin)
    except PrivilegeError:
        return []
    found = []
    for group in sorted(groups):
        name = kafka_names.read_group_name(group)
        if name and name.sink == sink and name.ledger_id != ledger_id:
            reason = f"it is of ledger {name.ledger_id}, perhaps of another account"
            found.append(_left("consumer group", group, _PURPOSES[name.purpose], reason, _DELETE_GROUP))
    return found


def _group(admin: cluster.KafkaAdmin, name: str, purpose: str, reads: Callable[[str], bool] | None) -> Finding | None:
    """A group, if it exists; one that this login may not look at is listed and left, as the sink could not use it."""
    try:
        group = cluster.find_groups(admin, [name]).get(name)
    except PrivilegeError as error:
        return _left("consumer group", name, purpose, f"this login may not look: {error.next_step}", _DELETE_GROUP)
    if group is None:
        return None
    if held_by := _held_by(group, reads):
        return _left("consumer group", name, purpose, held_by, _DELETE_GROUP, len(group.offsets))
    return Finding("consumer group", name, len(group.offsets), None, purpose)


def _held_by(group: cluster.GroupInfo, reads: Callable[[str], bool] | None) -> str:
    """Who else needs the group; empty for nobody. reads: of which topics alone it may hold offsets."""
    if group.members:
        return f"it has {counted(group.members, 'consumer')}"
    others = sorted({topic for topic, _ in group.offsets if not reads(topic)}) if reads else []
    return f"it holds offsets of other topics: {', '.join(others[:5])}" if others else ""


def _replay_positions(positions: ReplayPositions, sink: str) -> Finding | None:
    """The topic of replay positions, if it exists; two sinks may have one topic where their names differ little."""
    what, purpose = "replay positions", "replayed dead letters"
    try:
        sinks = positions.sinks()
    except PrivilegeError as error:
        return _left(what, positions.topic, purpose, f"this login may not look: {error.next_step}", _DELETE_TOPIC)
    except UnreadablePositionError as error:
        return _left(what, positions.topic, purpose, error.what, _DELETE_TOPIC)
    if sinks is None:
        return None
    if others := sorted(sinks - {sink}):
        reason = f"it holds positions of sink {', '.join(others)}"
        return _left(what, positions.topic, purpose, reason, _DELETE_TOPIC)
    return Finding(what, positions.topic, detail=purpose)


def _left(what: str, name: str, purpose: str, reason: str, command: str, count: int | None = None) -> Finding:
    return Finding(what, name, count, None, f"{purpose}; left, because {reason}", command.format(name))
