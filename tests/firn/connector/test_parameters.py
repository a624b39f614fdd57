"""The definitions themselves: readable defaults, reasons where they are due, and documentation that is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.connector.document import document
from firn.connector.parameter import Effect, Parameter
from firn.connector.parameters import PARAMETERS


def test_the_documentation_is_up_to_date() -> None:
    assert Path("docs/configuration.md").read_text(encoding="utf-8") == document(), (
        "run: python -m firn.connector.document"
    )


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=PARAMETERS)
def test_every_definition_is_whole(parameter: Parameter) -> None:
    for default in filter(None, (parameter.default, parameter.streaming_default)):
        parameter.reader.parse(default)
    assert parameter.doc.endswith((".", ")"))
    assert parameter.group
    assert parameter.effect is Effect.HONOURED or parameter.reason.endswith(".")


@pytest.mark.parametrize(
    "name",
    [
        *("name", "connector.class", "tasks.max", "tasks.max.enforce", "topics", "topics.regex", "key.converter"),
        *("value.converter", "header.converter", "transforms", "predicates", "config.action.reload"),
        *("errors.tolerance", "errors.log.enable", "errors.log.include.messages", "errors.retry.timeout"),
        *("errors.retry.delay.max.ms", "errors.deadletterqueue.topic.name", "snowflake.role.name", "provider", "jmx"),
        *("errors.deadletterqueue.topic.replication.factor", "errors.deadletterqueue.context.headers.enable"),
        *("snowflake.oauth.client.secret", "snowflake.oauth.token.endpoint", "snowflake.private.key.passphrase"),
        *("snowflake.enable.schematization", "snowflake.streaming.iceberg.enabled", "snowflake.jdbc.map"),
        *("snowflake.streaming.metadata.connectorPushTime", "snowflake.metadata.createtime", "jvm.proxy.password"),
        *("auto.create.tables", "auto.evolve", "input.data.format", "input.key.format", "kafka.auth.mode"),
        *("kafka.service.account.id", "schema.context.name", "max.poll.interval.ms", "auto.restart.on.user.error"),
        *("firn.snowflake.warehouse", "firn.batch.records", "firn.batch.bytes", "firn.trigger.interval.seconds"),
        *("firn.topics.refresh.seconds", "firn.share.target", "key.converter.schemas.enable"),
        *("value.converter.schema.registry.url", "value.converter.basic.auth.credentials.source"),
    ],
)
def test_parameters_of_all_connectors_are_known(name: str) -> None:
    assert name in PARAMETERS
