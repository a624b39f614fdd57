"""Sinks of tests: a connector for a topic, and what is in its table afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firn.ledger.control import ControlTable
from firn.ledger.table import LedgerTable
from firn.secrets import SnowflakeSecret, read_secret
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, connect, execute, login_from, query
from firn.snowflake.identifiers import Namespace
from firn.snowflake.statements import run_statements
from tests.support import methods
from tests.support.kafka import Topic

JSON = {
    "value__converter": "org.apache.kafka.connect.json.JsonConverter",
    "value__converter__schemas__enable": "false",
}
"""Parameters of `connector` for values that need no registry."""


def connector(topic: Topic, **parameters: str | None) -> dict[str, str]:
    """Flat parameters of a sink for one topic; `firn__batch__records` stands for firn.batch.records, None removes."""
    extra = {name.replace("__", "."): value for name, value in parameters.items()}
    mapping = f"{topic.name}:{topic.table}"
    own = {"name": f"s_{topic.table}", "topics": topic.name, "snowflake.topic2table.map": mapping}
    chosen = methods.of_running_test()
    return {name: value for name, value in (own | chosen | extra).items() if value is not None}


def connector_file(folder: Path, topic: Topic, **parameters: str) -> Path:
    """The same as a connector file."""
    config = connector(topic, **parameters)
    file = folder / f"{topic.name}.json"
    file.write_text(json.dumps({"name": config.pop("name"), "config": config}))
    return file


def login_of(settings: Settings) -> SnowflakeLogin:
    """The service user's login."""
    return login_from(settings, read_secret(settings, settings.snowflake_secret_id, SnowflakeSecret))


def sql(settings: Settings, statement: str) -> list[dict[str, Any]]:
    """Rows of one statement; variants are parsed."""
    with connect(login_of(settings)) as connection:
        return next(iter(run_statements(connection, statement))).rows


def landed(settings: Settings, topic: Topic) -> list[tuple[int, int]]:
    """(partition, offset) of every row in the topic's table, doubles included, in order."""
    statement = f"SELECT RECORD_METADATA:partition::INT AS P, RECORD_METADATA:offset::INT AS O FROM {topic.table}"
    with connect(login_of(settings)) as connection:
        return sorted((int(row["P"]), int(row["O"])) for row in query(connection, statement))


def committed(settings: Settings, topic: Topic) -> dict[int, int]:
    """NEXT_OFFSET by partition, from the ledger; empty before the first claim."""
    statement = f"SELECT PARTITION, NEXT_OFFSET FROM FIRN_OFFSETS WHERE TOPIC = '{topic.name}'"
    with connect(login_of(settings)) as connection:
        if not query(connection, "SHOW TABLES LIKE 'FIRN_OFFSETS'"):
            return {}
        return {int(row["PARTITION"]): int(row["NEXT_OFFSET"]) for row in query(connection, statement)}


def ledger_id_of(settings: Settings) -> str:
    """The id of the ledger in the schema of these settings, which is made where there is none."""
    login = login_of(settings)
    ledger = LedgerTable(Namespace(login.database, login.schema), "")
    with connect(login) as connection:
        ledger.ensure(connection)
        found = ledger.ledger_id(connection)
    assert found is not None
    return found


def forget(settings: Settings, sink: str) -> None:
    """Take a sink of a test out of Firn's tables of sinks, so that `firn sink status` does not list it for ever."""
    login = login_of(settings)
    records = ControlTable(Namespace(login.database, login.schema), sink)
    with connect(login) as connection:
        records.ensure(connection)
        for table in ("FIRN_SINKS", "FIRN_REQUESTS"):
            execute(connection, f"DELETE FROM {table} WHERE SINK = '{sink}'")


def wait_until(condition: Callable[[], object], *, seconds: float = 60, what: str = "") -> None:
    """Poll until the condition holds; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)
