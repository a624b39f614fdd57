"""What a sink keeps in Kafka about itself: consumer groups that have no consumers, and the marks of replays.

Not the topics with records or dead letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firn.connector.config import SinkConfig
from firn.dead_letters.queue import DeadLetterQueue, group_of_letters, group_of_replays
from firn.dead_letters.replay_positions import ReplayMarks, UnreadableMarkError
from firn.errors import PrivilegeError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.operations.residue.finding import Finding
from firn.plural import counted
from firn.sinks.group_offsets import group_of

_DELETE_GROUP = "kafka-consumer-groups --delete --group '{}'"
_DELETE_TOPIC = "kafka-topics --delete --topic '{}'"


@dataclass(frozen=True)
class Groups:
    """What was found in Kafka. doomed: the groups that a clean deletes. marks: the topic that it deletes, if any."""

    admin: cluster.KafkaAdmin
    found: tuple[Finding, ...]
    doomed: tuple[str, ...]
    marks: str | None

    def findings(self) -> list[Finding]:
        """Each group, and the topic of the marks."""
        return list(self.found)

    def remove(self) -> None:
        """Delete them. Raises as Kafka's requests do, and ConfigError for a group that has consumers by now."""
        cluster.delete_groups(self.admin, self.doomed)
        if self.marks:
            cluster.delete_topic(self.admin, self.marks)


def group_names(config: SinkConfig) -> dict[str, str]:
    """The groups that a sink may have, and what each is for."""
    return {
        group_of(config): "the sink's positions, for lag tools",
        group_of_letters(config.name): "which dead letters are out",
        group_of_replays(config.name): "which letters were replayed",
    }


def look_at_groups(config: SinkConfig, client: KafkaClient, reads: Callable[[str], bool]) -> Groups:
    """Look at the groups and the marks of a sink; no topic need exist any more. reads: whether a topic is the sink's.

    Raises Transient-, Authentication-, Privilege- or ConfigError where Kafka does not tell.
    """
    admin = cluster.admin_client(client)
    letters = DeadLetterQueue(config.name, "", context_headers=False, client=client, value_class="", key_class="")
    purposes = group_names(config)
    # The first may be a group that the connector names: perhaps one that others use too.
    groups = [_group(admin, name, why, reads if name == group_of(config) else None) for name, why in purposes.items()]
    marks = _marks(ReplayMarks(letters), config.name)
    return Groups(
        admin,
        tuple(finding for finding in (*groups, marks) if finding),
        doomed=tuple(finding.name for finding in groups if finding and not finding.by_hand),
        marks=marks.name if marks and not marks.by_hand else None,
    )


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


def _marks(marks: ReplayMarks, sink: str) -> Finding | None:
    """The topic of the marks, if it exists: names of sinks may differ where their topics' names do not."""
    what, purpose = "replay marks", "which letters were replayed"
    try:
        sinks = marks.sinks()
    except PrivilegeError as error:
        return _left(what, marks.topic, purpose, f"this login may not look: {error.next_step}", _DELETE_TOPIC)
    except UnreadableMarkError as error:
        return _left(what, marks.topic, purpose, error.what, _DELETE_TOPIC)
    if sinks is None:
        return None
    if others := sorted(sinks - {sink}):
        return _left(what, marks.topic, purpose, f"it has marks of sink {', '.join(others)}", _DELETE_TOPIC)
    return Finding(what, marks.topic, detail=purpose)


def _left(what: str, name: str, purpose: str, why: str, command: str, count: int | None = None) -> Finding:
    return Finding(what, name, count, None, f"{purpose}; left, because {why}", command.format(name))
