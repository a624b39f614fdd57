"""Committed positions as a consumer group's offsets, so that ordinary lag tools show how far a sink is.

For information alone: the ledger is the truth, and nothing here is ever read back. Not for the group of the dead
letters (`dead_letters`), whose offsets are part of a protocol. Kafka's AdminClient.alterConsumerGroupOffsets writes
without joining the group, so the group is empty to Kafka and every tool can still describe it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from firn.connector.config import SinkConfig
from firn.kafka.client import KafkaClient
from firn.kafka.group_documents import GroupDocuments, GroupInUseError, GroupMovingError
from firn.kafka.partitions import TopicPartition
from firn.kafka.properties import spelled
from firn.kafka.property_table import GROUP

log = logging.getLogger(__name__)


def group_of(config: SinkConfig) -> str:
    """The group under which a sink publishes: `group.id` of the connector, else as Kafka Connect names a sink's."""
    given = [p.value.get_secret_value() for p in config.kafka if p.name == GROUP]
    return (spelled(GROUP, given[-1]) if given else None) or f"connect-{config.name}"


class GroupOffsets:
    """Publishes positions of one group. Not for several threads at once.

    What is not published yet waits for the next call; the newest position of each partition wins.
    """

    def __init__(self, client: KafkaClient, group: str) -> None:
        self._documents, self._group = GroupDocuments(client, group), group
        self._failing = self._moving = False

    def publish(self, positions: Mapping[TopicPartition, int]) -> None:
        """Publish the next offset of each of these partitions. Never raises: a failure is one warning until it works
        again, and no warning where the group only moves between brokers. Takes `MOMENT_SECONDS` at most; a later
        answer is looked at by the next call.
        """
        written = self._documents.offer({where: (at, "") for where, at in positions.items()})
        self._report(written)

    def close(self) -> None:
        """Publish what is left, in `CLOSE_SECONDS` at most for what is under way, and again for what waits."""
        written = self._documents.close()
        self._report(written)
        if not written and self._documents.fault is None:
            self._warn("Kafka did not answer before the sink's end")

    def _report(self, written: bool) -> None:
        fault = self._documents.fault
        if written:
            if self._failing:
                log.warning("The sink's positions are published to group %s again.", self._group)
            self._failing = self._moving = False
        elif isinstance(fault, GroupMovingError) and not self._moving:
            self._moving = True  # ordinary after a broker's start: the next publish asks again
        elif isinstance(fault, GroupInUseError):
            self._warn(f"{fault.what} Name another group with consumer.override.group.id, or stop these consumers")
        elif fault is not None:
            self._warn(fault.what)

    def _warn(self, why: str) -> None:
        if not self._failing:
            text = "The sink's positions cannot be published to group %s: %s. The sink goes on; only lag tools miss it."
            log.warning(text, self._group, why.rstrip("."))
        self._failing = True
