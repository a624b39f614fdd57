"""What a run of an incremental mart costs as its table grows: the same new records on 1, 10 and 100 times the rows.

    python -m benchmarks.models [--rows 10000] [--new 1000]

It builds Firn's own fct_order_events, and fct_orders below it, on a local Snowflake of its own. Seconds of DuckDB are
not what Snowflake bills, so three figures stand beside each other: seconds of each model (of fct_order_events the local
Snowflake spends most on reading the JSON of all rows, where Snowflake prunes micro-partitions by the bounds), rows
within its bounds, and rows it wrote.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from benchmarks.results import write_results
from firn.dbt.transform import Build, run_dbt
from firn.settings import Settings, load_settings
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query

MODEL, BELOW = "fct_order_events", "fct_orders"
_SELECT = f"+{BELOW},resource_type:model order_statuses,resource_type:seed"
_SIZES = (1, 10, 100)
_DAY_MS = 86_400_000
_INSERT = """
INSERT INTO ORDER_EVENTS SELECT
    PARSE_JSON('{{"topic": "order-events", "partition": ' || MOD(n, 3) || ', "offset": ' || (n + {first})
        || ', "CreateTime": {pushed}, "SnowflakeConnectorPushTime": ' || ({pushed} + n)
        || ', "schema_id": 1, "key": "k"}}'),
    PARSE_JSON('{{"order_id": ' || n || ', "customer_id": "cust_' || MOD(n, 1000)
        || '", "order_status": "CREATED", "order_total": 9.5, "created_at": {pushed}}}')
FROM (SELECT SEQ4() AS n FROM TABLE(GENERATOR(ROWCOUNT => {rows})))
"""
_BOUNDED = """
SELECT COUNT(*) AS FOUND FROM STG_ORDER_EVENTS AS e
WHERE e.PUSHED_AT >= (SELECT DATEADD(HOUR, -6, MAX(m.PUSHED_AT)) FROM FCT_ORDER_EVENTS AS m)
"""
_WRITTEN = (
    "SELECT COUNT(*) AS FOUND FROM FCT_ORDER_EVENTS WHERE LOADED_AT = (SELECT MAX(LOADED_AT) FROM FCT_ORDER_EVENTS)"
)


def main() -> None:
    """Measure each size, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000, help="rows of the smallest table")
    parser.add_argument("--new", type=int, default=1000, help="new rows of each run")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="firn-models-"))
    try:
        with _snowflake(home) as login:
            settings = load_settings().model_copy(update={"home": home})
            sizes = [_measured(settings, login, given.rows * times, given.new) for times in _SIZES]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    for size in sizes:
        print(size)
    print(write_results("models", {"model": MODEL, "below": BELOW, "new_rows": given.new, "sizes": sizes}))


def _measured(settings: Settings, login: SnowflakeLogin, rows: int, new: int) -> dict[str, Any]:
    now = int(time.time() * 1000)
    with connect(login) as connection:
        execute(connection, "CREATE OR REPLACE TABLE ORDER_EVENTS (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
        execute(connection, _INSERT.format(first=0, rows=rows, pushed=now - 2 * _DAY_MS))
    refreshed = _seconds(settings, login, full_refresh=True)
    with connect(login) as connection:
        execute(connection, _INSERT.format(first=rows, rows=new, pushed=now))
    incremental = _seconds(settings, login)
    with connect(login) as connection:
        found = {name: int(query(connection, sql)[0]["FOUND"]) for name, sql in (("b", _BOUNDED), ("w", _WRITTEN))}
    return {
        "rows": rows,
        "full_refresh_seconds": refreshed[MODEL],
        "incremental_seconds": incremental[MODEL],
        "full_refresh_seconds_below": refreshed[BELOW],
        "incremental_seconds_below": incremental[BELOW],
        "rows_within_bounds": found["b"],
        "rows_written": found["w"],
    }


def _seconds(settings: Settings, login: SnowflakeLogin, *, full_refresh: bool = False) -> dict[str, float]:
    """By model."""
    result = run_dbt(settings, login, Build(_SELECT, full_refresh, freshness=False))
    return {node.name: node.seconds for node in result.nodes}


@contextmanager
def _snowflake(home: Path) -> Iterator[SnowflakeLogin]:
    """A local Snowflake with the database STREAMING."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "firn_local.snowflake", "--port", str(port), "--data-dir", str(home / "snowflake")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    user = "SVC_KAFKA_CONNECTOR"
    login = SnowflakeLogin(
        *("local", user, user, "INGEST_WH", "STREAMING", "PUBLIC", "127.0.0.1"),
        port=port,
        protocol="http",
        private_key=SecretStr(key.decode()),
    )
    try:
        _wait_for(port)
        with connect(login) as connection:
            execute(connection, "CREATE DATABASE IF NOT EXISTS STREAMING")
            execute(connection, "CREATE SCHEMA IF NOT EXISTS STREAMING.PUBLIC")
        yield login
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("The local Snowflake did not open its port within 120 s.")


if __name__ == "__main__":
    main()
