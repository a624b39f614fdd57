"""The context of an export's run: everything that it needs, resolved once from configuration, settings and secrets.

A secret is read only where the configuration leaves something out.
"""

from __future__ import annotations

from dataclasses import dataclass

from firn.connector.export.config import ExportConfig
from firn.kafka.client import KafkaClient
from firn.registry.login import RegistryLogin
from firn.settings import Settings
from firn.sinks.context import kafka_login, registry_login, snowflake_login
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.identifiers import Namespace


@dataclass(frozen=True)
class ExportContext:
    """Resolved inputs of a run. Secrets inside are masked; the whole value may travel to executors, never to disk.

    A registry is None where the format needs none.
    """

    config: ExportConfig
    settings: Settings
    kafka: KafkaClient
    value_registry: RegistryLogin | None
    key_registry: RegistryLogin | None
    login: SnowflakeLogin

    @property
    def namespace(self) -> Namespace:
        """Where the ledger of exports, outboxes and history live."""
        return Namespace(self.login.database, self.login.schema)


def resolve_export(config: ExportConfig, settings: Settings) -> ExportContext:
    """Read what the configuration leaves out from settings and secrets. Raises the errors of `read_secret`."""
    return ExportContext(
        config=config,
        settings=settings,
        kafka=kafka_login(config, settings),
        value_registry=registry_login(config, config.value, settings),
        key_registry=registry_login(config, config.key, settings),
        login=snowflake_login(config, settings),
    )
