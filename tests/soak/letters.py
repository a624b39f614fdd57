"""The dead letters of a topic, as an ordinary consumer reads them (read_committed): which record each is about."""

from __future__ import annotations

import uuid
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as At

from firn.kafka.partitions import TopicPartition
from tests.support.kafka import Topic

_SECONDS = 30.0


def read_letters(topic: Topic) -> dict[TopicPartition, Counter[int]]:
    """How many letters there are of each record, by Connect's own headers."""
    letters: dict[TopicPartition, Counter[int]] = {}
    limits = {"group.id": f"soak-{uuid.uuid4()}", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(topic.client.librdkafka() | limits | {"enable.auto.commit": False, "log_level": 0})
    try:
        count = len(topic.admin.client.list_topics(topic.name, timeout=_SECONDS).topics[topic.name].partitions)
        consumer.assign([At(topic.name, number, OFFSET_BEGINNING) for number in range(count)])
        ended: set[int] = set()
        while len(ended) < count:
            message = consumer.poll(_SECONDS)
            assert message is not None, f"{topic.name} cannot be read to its end"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(int(message.partition() or 0))
                continue
            headers = {str(name): _text(value) for name, value in list(message.headers() or [])}
            about = TopicPartition(headers["__connect.errors.topic"], int(headers["__connect.errors.partition"]))
            letters.setdefault(about, Counter())[int(headers["__connect.errors.offset"])] += 1
    finally:
        consumer.close()
    return letters


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
