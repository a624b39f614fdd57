"""The topic: made when absent, otherwise compared. Settings: Kafka's Topic Configs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from firn.kafka.cluster import REQUEST_SECONDS, KafkaAdmin, TopicInfo, find_topics
from firn.provision.findings import CAUTIOUS, Finding, Mode
from firn.settings import Settings


@dataclass(frozen=True)
class TopicSpec:
    """What a topic should be. Replication factor -1 leaves it to the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    retention_ms: int
    cleanup_policy: str

    @property
    def configs(self) -> dict[str, str]:
        """Topic-level settings that are ours to state."""
        return {"retention.ms": str(self.retention_ms), "cleanup.policy": self.cleanup_policy}

    def __str__(self) -> str:
        replicas = "the broker's default" if self.replication_factor < 0 else str(self.replication_factor)
        configs = ", ".join(f"{key} {value}" for key, value in self.configs.items())
        return f"partitions {self.partitions}, replication factor {replicas}, {configs}"


def topic_spec(settings: Settings, name: str) -> TopicSpec:
    """What the settings want a topic of this name to be."""
    return TopicSpec(
        name,
        settings.topic_partitions,
        settings.topic_replication_factor,
        settings.topic_retention_ms,
        settings.topic_cleanup_policy,
    )


def ensure_topic(admin: KafkaAdmin, spec: TopicSpec, mode: Mode = CAUTIOUS) -> list[Finding]:
    """Make the topic where it is absent, otherwise compare it with `spec`. Raises as `firn.kafka.cluster` does."""
    existing = find_topics(admin, [spec.name]).get(spec.name)
    if existing is not None:
        return list(_compare(admin, spec, existing, mode))
    if mode.dry_run:
        return [Finding("topic", spec.name, "would make", str(spec))]
    topic = NewTopic(spec.name, spec.partitions, spec.replication_factor, config=spec.configs)
    futures = admin.client.create_topics([topic], operation_timeout=REQUEST_SECONDS)
    if not _done(admin, futures, f"make topic {spec.name}"):
        return ensure_topic(admin, spec, mode)  # somebody made it since we looked
    return [Finding("topic", spec.name, "made", str(spec))]


def _compare(admin: KafkaAdmin, spec: TopicSpec, existing: TopicInfo, mode: Mode) -> Iterator[Finding]:
    configs = topic_configs(admin, spec.name)
    held = f"partitions {existing.partitions}, replication factor {existing.replication_factor}"
    stated = ", ".join(f"{key} {configs.get(key)}" for key in spec.configs)
    yield Finding("topic", spec.name, "found", f"{held}, {stated}")
    if spec.partitions > existing.partitions:
        yield _grow(admin, spec, existing, mode)
    elif spec.partitions < existing.partitions:
        detail = f"partitions {existing.partitions} stay: Kafka cannot lower them to {spec.partitions}"
        yield Finding("topic", spec.name, "warning", detail)
    if spec.replication_factor not in (-1, existing.replication_factor):
        detail = (
            f"replication factor {existing.replication_factor} stays, wanted {spec.replication_factor}: reassign it"
        )
        yield Finding("topic", spec.name, "warning", detail)
    changes = {key: value for key, value in spec.configs.items() if not _same(configs.get(key), value)}
    for key, value in changes.items():
        detail = f"{key} {configs.get(key)} -> {value}"
        if mode.writes:
            _alter(admin, spec.name, key, value)
        yield mode.change("topic", spec.name, detail)


def _same(held: str | None, wanted: str) -> bool:
    return held is not None and sorted(held.split(",")) == sorted(wanted.split(","))


def _grow(admin: KafkaAdmin, spec: TopicSpec, existing: TopicInfo, mode: Mode) -> Finding:
    if mode.writes:
        futures = admin.client.create_partitions([NewPartitions(spec.name, spec.partitions)])
        _done(admin, futures, f"add partitions to {spec.name}")
    detail = f"partitions {existing.partitions} -> {spec.partitions}; keys then move to other partitions"
    return mode.change("topic", spec.name, detail)


def topic_configs(admin: KafkaAdmin, topic: str) -> dict[str, str]:
    """The settings in force for a topic, defaults included."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    futures = admin.client.describe_configs([resource], request_timeout=REQUEST_SECONDS)
    answer = next(iter(admin.wait(futures, f"read settings of {topic}").values()))
    if isinstance(answer, KafkaError):
        raise admin.faults.explain(answer, f"read settings of topic {topic}")
    return {name: entry.value for name, entry in answer.items()}


def _alter(admin: KafkaAdmin, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    futures = admin.client.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS)
    _done(admin, futures, f"set {key} of topic {topic}")


def _done(admin: KafkaAdmin, futures: dict[Any, Any], doing: str) -> bool:
    """Wait for one change; False where the topic turned out to exist. Raises for anything else Kafka says."""
    (error,) = admin.wait(futures, doing).values()
    if error is None:
        return True
    if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return False
    raise admin.faults.explain(error, doing)
