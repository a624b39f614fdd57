"""What the errors of a transactional producer mean, and what to do about each.

Error codes: Kafka's protocol errors and librdkafka's rd_kafka_resp_err_t. Not for faults of connections (`faults`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from firn.errors import ConfigError, FirnError, PrivilegeError, TransientError
from firn.kafka.faults import ConnectionFaults

_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
"""A batch of records that is larger than the topic, or a segment of it, takes. Java's client says RecordTooLarge."""
_REMEDIES: Mapping[int, str] = {
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise max.message.bytes of the topic above the record's size and some kilobytes "
    "for headers.",
    KafkaError.RECORD_LIST_TOO_LARGE: "Raise segment.bytes of the topic above the record's size.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "Create the topic.",
    KafkaError._UNKNOWN_TOPIC: "Create the topic.",
    KafkaError._UNKNOWN_PARTITION: "The topic has fewer partitions than before: add partitions to it.",
    KafkaError._QUEUE_FULL: "Leave the record out.",
    KafkaError.OFFSET_METADATA_TOO_LARGE: "Raise the brokers' offset.metadata.max.bytes to its default of 4096.",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "Raise the brokers' transaction.max.timeout.ms to five minutes or more.",
    KafkaError.INVALID_TIMESTAMP: "Raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the "
    "topic: records are produced with their original timestamps.",
    KafkaError.INVALID_RECORD: "Set cleanup.policy=delete on the topic: a compacted topic refuses records without a "
    "key.",
}


@dataclass(frozen=True)
class ProducerFaults:
    """Explains errors of one client. `topic` is where it produces to; the ids are what its login needs rights for.

    remedies: next steps by error code, where the caller knows a better one than `_REMEDIES`.
    """

    heard: ConnectionFaults
    topic: str
    group: str
    transactional_id: str
    remedies: Mapping[int, str] = field(default_factory=dict)

    def remedy(self, code: int) -> str:
        """What to do about a refusal; empty where this client knows nothing special."""
        return self.remedies.get(code) or _REMEDIES.get(code, "")

    def explain(self, error: KafkaError, doing: str) -> FirnError:
        """The error for a person, of the right kind."""
        code = error.code()
        if code in _FENCED:
            return TransientError(
                f"A newer producer has taken over transactional id {self.transactional_id}: {error.str()}",
                where=f"brokers {self.heard.brokers}",
                next_step="Check whether the same job runs twice; the newer one goes on.",
            )
        if right := self._right(code):
            return PrivilegeError(
                f"Kafka does not allow this: {doing} ({error.str()}).",
                where=f"brokers {self.heard.brokers}",
                next_step=f"Grant the Kafka login {right}.",
            )
        if remedy := self.remedy(code):
            return ConfigError(
                f"Kafka refuses to {doing}: {error.str()}", where=f"topic {self.topic}", next_step=remedy
            )
        return self.heard.explain(error, doing)

    def _right(self, code: int) -> str:
        """The ACL that is missing, or ""."""
        return {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: f"WRITE and DESCRIBE on topic {self.topic}, and READ on the topics "
            f"whose offsets group {self.group} holds",
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "WRITE and DESCRIBE on transactional ids that begin with "
            f"{self.group}-",
            KafkaError.GROUP_AUTHORIZATION_FAILED: f"READ on group {self.group}",
            KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IDEMPOTENT_WRITE on the cluster",
        }.get(code, "")
