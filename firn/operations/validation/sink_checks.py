"""Live checks of a sink: its credentials, endpoints, topics, subjects, and Snowflake, each after what it depends on.

What a sink needs in Snowflake is checked by a function that is handed in. Not for the configuration itself
(`firn.connector.parse`): it must be free of faults here. Nothing is changed anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from firn.connector.config import Method, SinkConfig
from firn.kafka import cluster
from firn.kafka.client import KafkaClient, needs_secret
from firn.operations.validation.endpoints import Endpoint, check_endpoint
from firn.operations.validation.kafka_and_registry import (
    broker_endpoints,
    check_dead_letters,
    check_subjects,
    check_topics,
    registry_endpoints,
    snowflake_endpoint,
    streaming_endpoint,
)
from firn.operations.validation.live_check import LiveCheck, Task, impatient, run_tasks
from firn.registry.login import RegistryLogin
from firn.settings import Settings
from firn.sinks.context import kafka_login, own_snowflake_login, registry_login, snowflake_login
from firn.sinks.topics import NoTopicError, topics_of
from firn.snowflake.connection import SnowflakeLogin

_NAMED = "named by the connector"

CheckSnowflake: TypeAlias = Callable[[SinkConfig, SnowflakeLogin, Sequence[str]], Iterable[LiveCheck]]
"""Looks at what the sink needs in Snowflake for these topics. Raises FirnError where the login does not work."""


@dataclass
class _Found:
    """What the checks found so far and later ones need; None where it could not be had."""

    kafka: KafkaClient | None = None
    value_registry: RegistryLogin | None = None
    key_registry: RegistryLogin | None = None
    login: SnowflakeLogin | None = None
    topics: list[str] = field(default_factory=list)


def live_checks(config: SinkConfig, settings: Settings, check_snowflake: CheckSnowflake) -> list[LiveCheck]:
    """Look at everything the sink will use, in about the time of the slowest answer. Never raises for what it finds."""
    settings = impatient(settings)
    found = _Found(topics=list(config.topics))
    checks = run_tasks(_credential_tasks(config, settings, found))
    checks += run_tasks(_regex_tasks(config, found))
    checks += run_tasks(_endpoint_tasks(config, settings, found))
    reached = {check.subject for check in checks if check.state == "ok"}
    return checks + run_tasks(_content_tasks(config, found, reached, check_snowflake))


def _credential_tasks(config: SinkConfig, settings: Settings, found: _Found) -> Iterator[Task]:
    def kafka_credentials() -> str:
        kafka = kafka_login(config, settings)
        kafka.librdkafka()  # a key or trust store that is not here, or cannot be used, shows now
        found.kafka = kafka
        return f"secret {settings.kafka_secret_id}" if needs_secret(config.kafka) else _NAMED

    def registry_credentials() -> str:
        found.value_registry = registry_login(config, config.value, settings)
        found.key_registry = registry_login(config, config.key, settings)
        pairs = ((found.value_registry, config.value.registry), (found.key_registry, config.key.registry))
        used = {_NAMED if named else f"secret {settings.registry_secret_id}" for login, named in pairs if login}
        return ", ".join(sorted(used)) or "no converter needs a registry"

    def snowflake_credentials() -> str:
        found.login = snowflake_login(config, settings)
        return _NAMED if own_snowflake_login(config.snowflake, settings) else f"secret {settings.snowflake_secret_id}"

    yield _reading("credentials kafka", kafka_credentials)
    yield _reading("credentials registry", registry_credentials)
    yield _reading("credentials snowflake", snowflake_credentials)


def _reading(subject: str, read: Callable[[], str]) -> Task:
    return Task(subject, lambda: [LiveCheck(subject, "ok", read())])


def _regex_tasks(config: SinkConfig, found: _Found) -> Iterator[Task]:
    client = found.kafka
    if config.topics_regex is None or client is None:
        return

    def run() -> Iterator[LiveCheck]:
        try:
            found.topics = sorted(topics_of(cluster.admin_client(client), config))
        except NoTopicError as error:
            step = "Fine where topics come later: they are read from their beginning. Else correct topics.regex."
            yield LiveCheck("topics.regex", "warning", error.what, step)
        else:
            yield LiveCheck("topics.regex", "ok", f"matches {len(found.topics)}: {', '.join(found.topics)}")

    yield Task("topics.regex", run)


def _endpoint_tasks(config: SinkConfig, settings: Settings, found: _Found) -> Iterator[Task]:
    endpoints: list[Endpoint] = []
    if found.kafka:
        endpoints += broker_endpoints(found.kafka)
    for login in (found.value_registry, found.key_registry):
        endpoints += registry_endpoints(login) if login else []
    if found.login:
        endpoints.append(snowflake_endpoint(found.login))
    for endpoint in dict.fromkeys(endpoints):
        yield Task(_connection(endpoint), partial(check_endpoint, endpoint))
    if config.method is Method.SNOWPIPE_STREAMING and (account := found.login):
        yield Task("snowpipe streaming", lambda: check_endpoint(streaming_endpoint(account, settings)))


def _connection(endpoint: Endpoint) -> str:
    return f"connection {endpoint.name}"


def _content_tasks(
    config: SinkConfig, found: _Found, reached: set[str], check_snowflake: CheckSnowflake
) -> Iterator[Task]:
    """What only a login shows. Without a connection it is not tried: clients would wait for their time-outs."""

    def task(subject: str, endpoints: list[Endpoint], look: Callable[[], Iterable[LiveCheck]]) -> Task:
        if any(_connection(endpoint) in reached for endpoint in endpoints):
            return Task(subject, look)
        untried = LiveCheck(subject, "failed", "not tried: there is no connection", "Correct the connection first.")
        return Task(subject, lambda: [untried])

    client, login, topics = found.kafka, found.login, found.topics
    if client:
        yield task("kafka login", broker_endpoints(client), lambda: check_topics(client, topics))
        errors = config.errors
        if errors.tolerance == "all" and errors.dead_letter_topic:
            look = partial(check_dead_letters, client, errors.dead_letter_topic, errors.dead_letter_replication)
            yield task("dead-letter topic", broker_endpoints(client), look)
    for registry, wanted in _subjects(found):
        look = partial(check_subjects, registry, wanted)
        yield task("registry login", registry_endpoints(registry), look)
    if login:
        yield task("snowflake login", [snowflake_endpoint(login)], lambda: check_snowflake(config, login, topics))


def _subjects(found: _Found) -> list[tuple[RegistryLogin, dict[str, str]]]:
    """The subjects to look for in each registry: `<topic>-value` and `<topic>-key`, as serializers name them."""
    values = {f"{topic}-value": f"values of topic {topic}" for topic in found.topics}
    keys = {f"{topic}-key": f"keys of topic {topic}" for topic in found.topics}
    wanted: list[tuple[RegistryLogin, dict[str, str]]] = []
    if found.value_registry:
        wanted.append((found.value_registry, values))
    if found.key_registry and found.key_registry == found.value_registry:
        values |= keys
    elif found.key_registry:
        wanted.append((found.key_registry, keys))
    return wanted
