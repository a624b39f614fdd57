"""What a sink leaves behind, made without running one: ledger rows, staged files, groups, replay positions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.connector.parse import parse_sink_config
from firn.kafka import cluster
from firn.kafka.client import client_from_settings
from firn.kafka.partitions import KafkaPartition
from firn.kafka.partitions import TopicPartition as Where
from firn.ledger import kafka_names
from firn.ledger.positions import Ledger
from firn.ledger.table import LedgerTable
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, query
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.snowpipe.refused_files import remember_refused
from spark_jobs.sink.methods.snowpipe.stage import Stage
from tests.support.sinks import login_of


@dataclass(frozen=True)
class LeftSink:
    """A sink named `name` of topic `topic` (which need not exist), in the schema of `settings`.

    folder: where its files are made before they are staged. connection: a session for all that one thread does here.
    """

    settings: Settings
    name: str
    topic: str
    folder: Path
    connection: SnowflakeConnection

    @property
    def parameters(self) -> dict[str, str]:
        """Its connector, flat."""
        return {
            "name": self.name,
            "topics": self.topic,
            "snowflake.topic2table.map": f"{self.topic}:T_{self.name.upper()}",
            "snowflake.schema.name": self.settings.snowflake_schema,
        }

    @property
    def config(self) -> SinkConfig:
        """The same, parsed."""
        return parse_sink_config(self.parameters, where="test")

    @property
    def login(self) -> SnowflakeLogin:
        """Who runs it."""
        return login_of(self.settings)

    @property
    def namespace(self) -> Namespace:
        """Where its ledger and stage are."""
        return Namespace(self.login.database, self.login.schema)

    @property
    def groups(self) -> list[str]:
        """Its consumer groups."""
        own = (
            kafka_names.dead_letter_group,
            kafka_names.replay_group,
            kafka_names.task_group,
            kafka_names.sign_group,
            kafka_names.request_group,
        )
        return [f"connect-{self.name}", *(name(self.ledger_id, self.name) for name in own)]

    @property
    def ledger_id(self) -> str:
        """The id of its ledger; empty where there is none yet."""
        return LedgerTable(self.namespace, self.name).ledger_id(self.connection) or ""

    @property
    def replay_topic(self) -> str:
        """The topic of its replay positions."""
        return kafka_names.replay_group(self.ledger_id, self.name)

    def file(self, folder: Path, **parameters: str) -> Path:
        """Its connector file, with parameters more or other; `__` stands for a dot."""
        extra = {name.replace("__", "."): value for name, value in parameters.items()}
        made = folder / f"{self.name}.json"
        made.write_text(json.dumps({"name": self.name, "config": self.parameters | extra}))
        return made

    def claim(self, *, run_id: str = "a-run", ended: bool = True, target: str = "") -> Ledger:
        """A start of the sink; of one partition that holds 100 records."""
        table, connection = LedgerTable(self.namespace, self.name, run_id), self.connection
        seen = {Where(self.topic, 0): KafkaPartition("an-id", 0, 100)}
        table.ensure(connection)
        ledger = table.claim(connection, lambda: seen, "earliest", lambda _: target or f"T_{self.name.upper()}")
        if ended:
            table.release(connection, ledger.epoch)
        return ledger

    def stage_files(self, epoch: int, count: int = 1, *, keep: bool = False) -> list[str]:
        """Files on their way; with `keep`, the owner row says that COPY refused them."""
        stage = Stage(self.namespace, self.name, epoch)
        folder = stage.folder("T", self.topic, 0)
        local = self.folder / "staged"
        local.mkdir(exist_ok=True)
        paths = []
        stage.ensure(self.connection)
        for number in range(count):
            name = stage.file_name(number, number)
            (local / name).write_bytes(b"12345")
            stage.put(self.connection, local / name, folder)
            paths.append(folder + name)
        if keep:
            remember_refused(LedgerTable(self.namespace, self.name, ""), self.connection, epoch, paths)
        return paths

    def stage_foreign(self) -> str:
        """A file of somebody else under the sink's name."""
        stage = Stage(self.namespace, self.name, 0)
        local = self.folder / "notes.txt"
        local.write_text("mine")
        stage.ensure(self.connection)
        stage.put(self.connection, local, f"{self.name}/")
        return f"{self.name}/notes.txt"

    def make_groups(self, topic: str = "", groups: list[str] | None = None) -> None:
        """Its consumer groups with one offset each; the topic must exist."""
        admin = cluster.admin_client(client_from_settings(self.settings)).client
        for group in groups or self.groups:
            asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic or self.topic, 0, 7)])
            admin.alter_consumer_group_offsets([asked])[group].result(30)

    def make_replay_positions(self, *sinks: str) -> str:
        """The topic of replay positions, with one of each of these sinks."""
        topic, client = self.replay_topic, client_from_settings(self.settings)
        made = NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})
        admin = cluster.admin_client(client).client  # which must live until the answer comes
        admin.create_topics([made])[topic].result(30)
        producer = Producer(client.librdkafka())
        for sink in sinks:
            producer.produce(topic, json.dumps({"offset": 3, "list": ""}), json.dumps([sink, "an-id", 0]))
        assert producer.flush(30) == 0
        return topic

    def left(self) -> Mapping[str, Any]:
        """What is there now under its name: kind -> names, epochs or rows."""
        admin = cluster.admin_client(client_from_settings(self.settings))
        ledger = self.namespace.qualified("FIRN_OFFSETS")
        files = [file.path for file in Stage(self.namespace, self.name, 0).files(self.connection)]
        rows = query(self.connection, f"SELECT TOPIC FROM {ledger} WHERE SINK = ?", (self.name,))
        return {
            "files": files,
            "rows": len(rows),
            "groups": sorted(cluster.find_groups(admin, self.groups)),
            "replay positions": sorted(cluster.find_topics(admin, [self.replay_topic])),
        }

    def renamed(self, name: str) -> LeftSink:
        """A sink of another name beside it."""
        return replace(self, name=name)


NOTHING: Mapping[str, Any] = {"files": [], "rows": 0, "groups": [], "replay positions": []}
