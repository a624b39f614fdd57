"""The context of a run: everything that it needs, resolved once from configuration, settings and Secrets Manager.

A secret is read only where the configuration leaves something out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from firn.connector.config import SinkConfig, SnowflakeConfig
from firn.kafka.client import KafkaClient, kafka_client, needs_secret
from firn.kafka.properties import KafkaProperty
from firn.keys import IN_CONNECTOR
from firn.proxy import ProxyConfig
from firn.registry.endpoint import RegistryConfig
from firn.registry.login import RegistryLogin, login_from_config, login_from_secret
from firn.secrets import KafkaSecret, RegistrySecret, SnowflakeSecret, read_secret
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, login_from, login_without_secret, with_url
from firn.snowflake.identifiers import Namespace


@dataclass(frozen=True)
class SinkContext:
    """Resolved inputs of a run. Secrets inside are masked; the whole value may travel to executors, never to disk.

    A registry is None where the converter needs none.
    """

    config: SinkConfig
    settings: Settings
    kafka: KafkaClient
    value_registry: RegistryLogin | None
    key_registry: RegistryLogin | None
    login: SnowflakeLogin

    @property
    def namespace(self) -> Namespace:
        """Where tables, stage and ledger live."""
        return Namespace(self.login.database, self.login.schema)


def resolve(config: SinkConfig, settings: Settings) -> SinkContext:
    """Read what the configuration leaves out from settings and secrets. Raises the errors of `read_secret`."""
    return SinkContext(
        config=config,
        settings=settings,
        kafka=kafka_login(config, settings),
        value_registry=registry_login(config, config.value, settings),
        key_registry=registry_login(config, config.key, settings),
        login=snowflake_login(config, settings),
    )


def spark_log(settings: Settings, sink: str) -> Path:
    """The file that Spark writes its log to, on the machine of the driver; older ones have a number behind it."""
    return settings.home / "logs" / f"spark-{sink}.log"


class Reached(Protocol):
    """What a configuration says of the outside world, a sink's or an export's."""

    @property
    def snowflake(self) -> SnowflakeConfig:
        """Where the tables are."""
        ...

    @property
    def kafka(self) -> tuple[KafkaProperty, ...]:
        """Properties of Kafka's clients."""
        ...

    @property
    def proxy(self) -> ProxyConfig | None:
        """What Snowflake and the registry are reached through."""
        ...


class Registered(Protocol):
    """What a converter says of its registry."""

    @property
    def registry(self) -> RegistryConfig | None:
        """Where it is; None: as the secret says."""
        ...

    @property
    def format(self) -> InRegistry:
        """The format."""
        ...


class InRegistry(Protocol):
    """A format that has its schema in the registry, or has not."""

    @property
    def in_registry(self) -> bool:
        """Whether it has."""
        ...


def kafka_login(config: Reached, settings: Settings) -> KafkaClient:
    """What Kafka's clients are told. Raises the errors of `read_secret`, and ConfigError."""
    secret = None
    if needs_secret(config.kafka):
        secret = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    return kafka_client(settings, secret, config.kafka)


def registry_login(config: Reached, converter: Registered, settings: Settings) -> RegistryLogin | None:
    """How a converter reaches its registry; None for one without. Raises the errors of `read_secret`, ConfigError."""
    if not converter.format.in_registry:
        return None
    if converter.registry:
        return login_from_config(converter.registry, config.proxy)
    return login_from_secret(read_secret(settings, settings.registry_secret_id, RegistrySecret), config.proxy)


def snowflake_login(config: Reached, settings: Settings) -> SnowflakeLogin:
    """Who writes the rows, and where. Raises the errors of `read_secret`, ConfigError."""
    given = config.snowflake
    login = own_snowflake_login(given, settings) or _login_of_secret(given, settings)
    return replace(
        login,
        role=given.role or login.role,
        warehouse=given.warehouse or login.warehouse,
        database=given.database or login.database,
        schema=given.schema or login.schema,
        proxy=config.proxy,
    )


def own_snowflake_login(given: SnowflakeConfig, settings: Settings) -> SnowflakeLogin | None:
    """The login of a configuration that names account, user and key itself; None for one that needs the secret."""
    if not (given.url and given.user and given.private_key):
        return None
    return login_without_secret(settings, given.url, given.user, given.private_key, given.private_key_passphrase)


def _login_of_secret(given: SnowflakeConfig, settings: Settings) -> SnowflakeLogin:
    login = login_from(settings, read_secret(settings, settings.snowflake_secret_id, SnowflakeSecret))
    if given.url:
        login = with_url(login, given.url)
    if given.private_key:
        login = replace(
            login,
            private_key=given.private_key,
            private_key_passphrase=given.private_key_passphrase,
            key_place=IN_CONNECTOR,
        )
    return replace(login, user=given.user or login.user)
