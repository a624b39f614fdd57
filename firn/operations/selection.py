"""Which sinks to look at: those of connector files, or all that a schema of Snowflake knows.

Not for looking (`observe`). Registries are left out: whether a sink works does not depend on who asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from firn.connector.config import ConverterConfig, Format, SinkConfig
from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.ledger.control import SinkRecord, read_all
from firn.ledger.owner import Owner
from firn.ledger.table import LedgerTable
from firn.operations.pace import at_pace
from firn.secrets import secret_reader
from firn.settings import Settings
from firn.sinks.context import SinkContext, kafka_login, snowflake_login
from firn.snowflake.connection import connect
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace


def of_files(files: Iterable[Path], settings: Settings) -> list[SinkContext]:
    """The sinks of connector files. Raises ConfigError for a faulty one, and the errors of `read_secret`."""
    return [of_config(load_sink_config(file, Resolver(secret_reader(settings))), settings) for file in files]


def of_config(config: SinkConfig, settings: Settings) -> SinkContext:
    """What is needed to look at a sink. Raises the errors of `read_secret`."""
    return SinkContext(config, settings, kafka_login(config, settings), None, None, snowflake_login(config, settings))


def of_schema(settings: Settings) -> list[SinkContext]:
    """All sinks that FIRN_SINKS of the settings' database and schema knows, by name.

    Their files are elsewhere: the topics and tables are those of the last claim, the pace (`policy.pace_of`) is that
    which the supervisor wrote down, the cluster is the settings'. Raises the errors of `read_secret` and of Snowflake.
    """
    login = snowflake_login(SinkConfig(""), settings)
    namespace = Namespace(login.database, login.schema)
    with connect(login, query_tag="firn sink status") as connection:
        records = read_all(connection, namespace)
        try:
            owners = {each.sink: LedgerTable(namespace, each.sink).owner(connection) for each in records}
        except MissingObjectError:
            owners = {}
    return [of_config(_config(each, owners.get(each.sink)), settings) for each in records]


def _config(record: SinkRecord, owner: Owner | None) -> SinkConfig:
    targets = tuple(owner.targets.items()) if owner else ()
    topics = tuple(topic for topic, _ in targets)
    config = SinkConfig(record.sink, topics, table_map=targets, value=ConverterConfig(Format.STRING))
    return at_pace(config, record.stats)
