"""Kafka's client, and what Confluent Cloud's managed connector has beside the self-managed one's parameters."""

from __future__ import annotations

from firn.connector import readers as r
from firn.connector.parameters.make import group, honoured, no_effect

_CLOUD = "Firn does not run in Confluent Cloud."
_POLL = "Spark plans each batch from offsets; firn.batch.records, firn.batch.bytes and buffer.* bound it."

CLOUD = group(
    "Confluent Cloud",
    honoured(
        "kafka.auth.mode",
        r.one_of("KAFKA_API_KEY", "SERVICE_ACCOUNT"),
        "KAFKA_API_KEY logs in with kafka.api.key. SERVICE_ACCOUNT exists in Confluent Cloud only: the Kafka secret "
        "is used instead, with a warning.",
        "KAFKA_API_KEY",
    ),
    honoured("kafka.api.key", r.TEXT, "API key of the cluster.", elsewhere="Kafka secret", secret=True),
    honoured("kafka.api.secret", r.TEXT, "Its secret.", elsewhere="Kafka secret", secret=True),
    honoured("kafka.endpoint", r.TEXT, "Address of the cluster, with a port.", elsewhere="Kafka secret"),
    no_effect("kafka.service.account.id", r.TEXT, "Account that Confluent Cloud acts for.", _CLOUD),
    no_effect("kafka.region", r.TEXT, "Region of the cluster.", _CLOUD),
    no_effect("kafka.deployment.type", r.TEXT, "Kind of the cluster.", _CLOUD),
    no_effect("cloud.environment", r.TEXT, "Environment of the connector.", _CLOUD),
    no_effect("cloud.provider", r.TEXT, "Cloud of the connector.", _CLOUD),
    no_effect("cloud.region", r.TEXT, "Region of the connector.", _CLOUD),
    no_effect("connector.id", r.TEXT, "Id of the connector.", _CLOUD),
    no_effect(
        "auto.restart.on.user.error",
        r.BOOLEAN,
        "Whether Confluent Cloud restarts a connector whose user made an error.",
        "Firn stops and tells what to do; Prefect restarts a sink after other faults.",
        "true",
    ),
    no_effect("max.poll.interval.ms", r.whole(1), "Milliseconds between polls.", _POLL, "300000"),
    no_effect("max.poll.records", r.whole(1), "Records of one poll.", _POLL, "500"),
    honoured(
        "schema.context.name",
        r.only("default", "schemas are found by id in the registry's default context"),
        "Context of the registry.",
        "default",
    ),
    honoured(
        "csfle.enabled",
        r.only("false", "fields that are encrypted in the client cannot be decrypted"),
        "Decrypt fields that a client encrypted.",
        "false",
    ),
    no_effect("csfle.onFailure", r.TEXT, "What happens when that fails.", "csfle.enabled cannot be true."),
    *(
        no_effect(name, r.TEXT, "How subjects are named.", "Firn finds a schema by the id in the record.")
        for name in ("key.subject.name.strategy", "value.subject.name.strategy")
    ),
    no_effect("sr.service.account.id", r.TEXT, "Account for the registry.", _CLOUD),
)
