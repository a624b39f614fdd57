"""Everything a run of one sink needs, put together once from its configuration, the settings and Secrets Manager."""

from __future__ import annotations

from dataclasses import dataclass, replace

from firn.connector_config import SinkConfig
from firn.secrets import KafkaSecret, RegistrySecret, SnowflakeSecret, read_secret
from firn.settings import Settings
from firn.snowflake import SnowflakeLogin, login_from, with_url
from spark_jobs.sink.identifiers import Namespace


@dataclass(frozen=True)
class SinkContext:
    """Resolved inputs of a run. Secrets inside are masked; the whole value may travel to executors, never to disk."""

    config: SinkConfig
    settings: Settings
    kafka: KafkaSecret
    registry: RegistrySecret
    login: SnowflakeLogin

    @property
    def namespace(self) -> Namespace:
        """Where tables, stage and ledger live."""
        return Namespace(self.login.database, self.login.schema)

    @property
    def checkpoints(self) -> str:
        """Folder of this sink's checkpoints, one inside it for each epoch."""
        base = self.config.checkpoint_location or str(self.settings.home / "checkpoints")
        return f"{base.rstrip('/')}/firn/{self.login.database}.{self.login.schema}/{self.config.name}"


def resolve(config: SinkConfig, settings: Settings) -> SinkContext:
    """Read what the configuration leaves out from settings and secrets. Raises the errors of `read_secret`."""
    return SinkContext(
        config=config,
        settings=settings,
        kafka=read_secret(settings, settings.kafka_secret_id, KafkaSecret),
        registry=read_secret(settings, settings.registry_secret_id, RegistrySecret),
        login=_login(config, settings),
    )


def _login(config: SinkConfig, settings: Settings) -> SnowflakeLogin:
    secret = read_secret(settings, settings.snowflake_secret_id, SnowflakeSecret)
    login = login_from(settings, secret)
    if config.url:
        login = with_url(login, config.url)
    if config.private_key:
        login = replace(login, private_key=config.private_key, private_key_passphrase=config.private_key_passphrase)
    return replace(
        login,
        user=config.user or login.user,
        role=config.role or login.role,
        warehouse=config.warehouse or login.warehouse,
        database=config.database or login.database,
        schema=config.schema or login.schema,
    )
