"""What Kafka's refusals mean for dead letters: who is fenced tries again, who may not is told the right it lacks.

Codes: Kafka's protocol errors and librdkafka's rd_kafka_resp_err_t. All others: `firn.kafka.faults`.
"""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaError

from firn.errors import ConfigError, FirnError, PrivilegeError, TransientError
from firn.kafka.faults import ConnectionFaults

_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
_MAKE = "Make the topic; a dead-letter topic that is absent is made when its sink starts."
_REMEDIES = {
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise max.message.bytes of the topic above the record's size and some kilobytes "
    "for headers.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: _MAKE,
    KafkaError._UNKNOWN_TOPIC: _MAKE,
    KafkaError._UNKNOWN_PARTITION: "The topic has fewer partitions than it had: add partitions to it.",
    KafkaError.OFFSET_METADATA_TOO_LARGE: "Raise the brokers' offset.metadata.max.bytes to its default of 4096.",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "Raise the brokers' transaction.max.timeout.ms to five minutes or more.",
    KafkaError.INVALID_TIMESTAMP: "Raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the "
    "topic: letters keep the time of their record.",
    KafkaError.INVALID_RECORD: "The topic takes no such records: set its cleanup.policy=delete, for a compacted topic "
    "refuses records without a key.",
}


@dataclass(frozen=True)
class LetterFaults:
    """Explains errors of one client. `topic` is where it produces to; the ids are what its login needs rights for."""

    heard: ConnectionFaults
    topic: str
    group: str
    transactional_id: str

    def explain(self, error: KafkaError, doing: str) -> FirnError:
        """The error for a person, of the right kind."""
        code = error.code()
        if code in _FENCED:
            return TransientError(
                f"Somebody else publishes for {self.transactional_id} now: {error.str()}",
                where=f"brokers {self.heard.brokers}",
                next_step="Look whether the sink runs twice; the newer one goes on.",
            )
        if right := self._right(code):
            return PrivilegeError(
                f"Kafka does not allow this: {doing} ({error.str()}).",
                where=f"brokers {self.heard.brokers}",
                next_step=f"Grant the sink's Kafka login {right}.",
            )
        if remedy := _REMEDIES.get(code):
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
