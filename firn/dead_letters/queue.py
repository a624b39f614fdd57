"""Where a sink's dead letters go, and what publishes them.

Not for creating the topic (`topic`), nor for writing dead letters, which tasks do; the names in Kafka are those of
`firn.ledger.kafka_names`.
"""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaError

from firn.connector.config import ConverterConfig, SinkConfig
from firn.connector.formats import CLASSES, JSON_CONVERTER, Format
from firn.errors import ConfigError
from firn.java_regex import matches
from firn.kafka.client import KafkaClient
from firn.ledger.kafka_names import dead_letter_group, replay_group, transactional_id
from firn.sinks.context import SinkContext

REMEDIES = {
    **dict.fromkeys(
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC),
        "Create the topic; a sink creates its absent dead-letter topic when it starts.",
    ),
    KafkaError._QUEUE_FULL: "Skip the record: `firn sink offsets <config> --reset` with the offset behind it.",
}
"""What to do where Kafka refuses a dead letter, by error code."""


@dataclass(frozen=True)
class DeadLetterQueue:
    """What every task of a sink needs to publish dead letters. Travels to executors; credentials inside are masked.

    ledger_id: of the sink's ledger, part of the names under which Kafka remembers what is published and replayed.
    context_headers: whether dead letters have an envelope. value_class, key_class: the converters, under the names of
    Connect's classes.
    """

    ledger_id: str
    sink: str
    topic: str
    context_headers: bool
    client: KafkaClient
    value_class: str
    key_class: str

    @property
    def group(self) -> str:
        """The consumer group whose offsets say which ranges, and in their metadata which records, are published."""
        return dead_letter_group(self.ledger_id, self.sink)

    @property
    def replay_group(self) -> str:
        """The consumer group whose offsets say which dead letters were replayed."""
        return replay_group(self.ledger_id, self.sink)

    def transactional_id(self, topic_id: str, partition: int) -> str:
        """One for each source partition: a newer producer of it fences every older one."""
        return transactional_id(self.ledger_id, self.sink, topic_id, partition)


def dead_letter_queue(context: SinkContext, ledger_id: str) -> DeadLetterQueue | None:
    """The queue of a sink; None as `dead_letter_topic` gives it. Raises as that does."""
    return queue_of(context.config, context.kafka, ledger_id)


def queue_of(config: SinkConfig, client: KafkaClient, ledger_id: str) -> DeadLetterQueue | None:
    """As `dead_letter_queue`, for who needs nothing but Kafka."""
    topic = dead_letter_topic(config)
    if topic is None:
        return None
    return DeadLetterQueue(
        ledger_id=ledger_id,
        sink=config.name,
        topic=topic,
        context_headers=config.errors.dead_letter_headers,
        client=client,
        value_class=converter_class(config.value),
        key_class=converter_class(config.key),
    )


def dead_letter_topic(config: SinkConfig) -> str | None:
    """The topic of a sink's dead letters; None where it stops at bad records (errors.tolerance=none), or drops them.

    Raises ConfigError where the sink would read its own letters.
    """
    errors = config.errors
    if errors.tolerance != "all" or not errors.dead_letter_topic:
        return None
    if reads(config, errors.dead_letter_topic):
        raise ConfigError(
            f"The sink would read its own dead letters: {errors.dead_letter_topic} is one of its topics.",
            where=f"errors.deadletterqueue.topic.name of sink {config.name}",
            next_step="Name another topic there, or correct topics or topics.regex.",
        )
    return errors.dead_letter_topic


def reads(config: SinkConfig, topic: str) -> bool:
    """Whether a topic is one that the sink reads, or would read if it existed."""
    if config.topics_regex is None:
        return topic in config.topics
    return matches(config.topics_regex, topic)


def converter_class(converter: ConverterConfig) -> str:
    """The class by which Connect knows a converter."""
    if converter.format is Format.JSON and converter.json_null_is_tombstone:
        return JSON_CONVERTER  # with schemas.enable=false
    return next(name for name, known in CLASSES.items() if known is converter.format)
