"""The last statements and the usage of warehouses, in memory and in tables that survive a restart.

Statements are written down some hundreds at a time, when somebody reads the tables and at the end: a killed server
forgets the last ones. Text that may contain a credential is not kept, nor are bound values and messages of errors. How
the tables are read as Snowflake's views: `engine.usage_views`.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections import deque
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from firn_local.snowflake.metering.compute import Compute
from firn_local.snowflake.metering.ingestion import CREDITS_PER_GB, GB
from firn_local.snowflake.metering.usage import CLOUD_SERVICES_ALLOWANCE, Place, Usage
from firn_local.snowflake.sql.tokenizer import first_words
from firn_local.snowflake.store.duckdb_store import Store

PLACE = "_fs_global._firn"
"""The schema of the tables and views below."""
QUERIES = f"{PLACE}.ended_queries"
USAGE = f"{PLACE}.warehouse_usage"
VIEWS = {
    "QUERY_HISTORY": f"SELECT * FROM {QUERIES}",  # noqa: S608  (names of our own, as below)
    "WAREHOUSE_METERING_HISTORY": (
        "SELECT hour AS START_TIME, hour + INTERVAL 1 HOUR AS END_TIME, id AS WAREHOUSE_ID, "  # noqa: S608
        "warehouse AS WAREHOUSE_NAME, compute_credits + cloud_services_credits AS CREDITS_USED, "
        f"compute_credits AS CREDITS_USED_COMPUTE, cloud_services_credits AS CREDITS_USED_CLOUD_SERVICES FROM {USAGE} "
        "WHERE ingested_rows = 0"
    ),
    "METERING_HISTORY": (
        "SELECT if(ingested_rows > 0, 'SNOWPIPE_STREAMING', 'WAREHOUSE_METERING') AS SERVICE_TYPE, "  # noqa: S608
        "hour AS START_TIME, hour + INTERVAL 1 HOUR AS END_TIME, warehouse AS NAME, "
        f"compute_credits + ingested_bytes / {GB} * {CREDITS_PER_GB} AS CREDITS_USED_COMPUTE, "
        "cloud_services_credits AS CREDITS_USED_CLOUD_SERVICES, "
        "CREDITS_USED_COMPUTE + CREDITS_USED_CLOUD_SERVICES AS CREDITS_USED, "
        f"ingested_bytes AS BYTES, ingested_rows AS ROWS FROM {USAGE}"
    ),
    "METERING_DAILY_HISTORY": (
        "SELECT 'WAREHOUSE_METERING' AS SERVICE_TYPE, hour::DATE AS USAGE_DATE, "  # noqa: S608
        "sum(compute_credits) AS CREDITS_USED_COMPUTE, sum(cloud_services_credits) AS CREDITS_USED_CLOUD_SERVICES, "
        "sum(compute_credits) + sum(cloud_services_credits) AS CREDITS_USED, "
        f"-least(sum(cloud_services_credits), {CLOUD_SERVICES_ALLOWANCE} * sum(compute_credits)) "
        "AS CREDITS_ADJUSTMENT_CLOUD_SERVICES, CREDITS_USED + CREDITS_ADJUSTMENT_CLOUD_SERVICES AS CREDITS_BILLED "
        f"FROM {USAGE} WHERE ingested_rows = 0 GROUP BY ALL"
    ),
}
"""Snowflake's views by their names, over these tables."""
WITHOUT_WAREHOUSE = "CLOUD_SERVICES_ONLY"
"""WAREHOUSE_NAME of what sessions without a warehouse used."""
KEPT_STATEMENTS = 20_000
WRITTEN_AT_ONCE = 500
LONGEST_TEXT = 10_000
_CREDENTIAL = re.compile(
    r"\b(PASSWORD|SECRET|TOKEN|CREDENTIALS|PRIVATE_KEY|RSA_PUBLIC_KEY|MASTER_KEY|ACCESS_KEY|AWS_KEY_ID|AWS_SECRET_KEY)",
    re.IGNORECASE,
)
_NOISE = {"OR", "REPLACE", "TEMPORARY", "TEMP", "TRANSIENT", "INTERACTIVE"}
_TYPES = {
    "WITH": "SELECT", "BEGIN": "BEGIN_TRANSACTION", "START": "BEGIN_TRANSACTION", "DESC": "DESCRIBE",
    "PUT": "PUT_FILES", "LIST": "LIST_FILES", "LS": "LIST_FILES", "REMOVE": "REMOVE_FILES", "RM": "REMOVE_FILES",
}  # fmt: skip


@dataclass(frozen=True)
class Query:
    """One statement that has ended. Times are seconds since 1970; `resumed`: whether it woke its warehouse."""

    query_id: str
    text: str
    query_type: str
    session_id: int
    user: str
    role: str
    database: str | None
    schema: str | None
    warehouse: str | None
    warehouse_size: str | None
    tag: str
    compute: Compute
    resumed: bool
    started: float
    ended: float
    error_code: str | None
    rows: int | None
    cloud_services_credits: float


def kept_text(sql: str) -> str:
    """The text of a statement as the history has it."""
    if _CREDENTIAL.search(sql):
        return " ".join([*sql.split()[:2], "<not kept: it may contain a credential>"])
    return sql[:LONGEST_TEXT]


def query_type(sql: str) -> str:
    """QUERY_TYPE: the kind of a statement in Snowflake's words where they are known, else its first word."""
    words = [word for word in first_words(sql, 6) if word not in _NOISE]
    if not words:
        return "UNKNOWN"
    if words[0] in {"CREATE", "ALTER", "DROP", "TRUNCATE"}:
        return "_".join(words[:2])
    return _TYPES.get(words[0], words[0])


class History:
    """The statements that have ended; `recent` has the last ones, oldest first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writing = threading.Lock()
        self._unwritten: deque[Query] = deque(maxlen=KEPT_STATEMENTS)
        self.recent: deque[Query] = deque(maxlen=KEPT_STATEMENTS)
        _create_tables(store)

    def add(self, query: Query) -> bool:
        """Remember a statement; whether it is time to write down."""
        self.recent.append(query)
        self._unwritten.append(query)
        return len(self._unwritten) >= WRITTEN_AT_ONCE

    def load_usage(self) -> list[tuple[str, float, Usage]]:
        """(warehouse, hour, usage) of earlier starts of the server."""
        names = [each.name for each in fields(Usage)]
        rows = self._store.query(f"SELECT warehouse, epoch(hour), {', '.join(names)} FROM {USAGE}")  # noqa: S608
        return [(name, hour, Usage(*values)) for name, hour, *values in rows]

    def write(self, usage: list[tuple[Place, Usage]]) -> None:
        """Write down the statements that are not yet, and what changed of the usage."""
        with self._writing:
            queries = [self._unwritten.popleft() for _ in range(len(self._unwritten))]
            with self._store.duck_conn.cursor() as conn:
                if queries:
                    conn.register("ended", pa.Table.from_pylist([_row(each) for each in queries]))
                    conn.execute(f"INSERT INTO {QUERIES} BY NAME SELECT * FROM ended")  # noqa: S608
                    conn.execute(
                        f"DELETE FROM {QUERIES} WHERE START_TIME < (SELECT min(START_TIME) FROM (SELECT START_TIME "  # noqa: S608
                        f"FROM {QUERIES} ORDER BY START_TIME DESC LIMIT {KEPT_STATEMENTS}))"
                    )
                for (name, hour), each in usage:
                    start, number = datetime.fromtimestamp(hour, UTC), zlib.crc32(name.encode())
                    values = {"warehouse": name, "hour": start, "id": number} | asdict(each)
                    marks = ", ".join("?" * len(values))
                    insert = f"INSERT OR REPLACE INTO {USAGE} ({', '.join(values)}) VALUES ({marks})"  # noqa: S608
                    conn.execute(insert, list(values.values()))


def _create_tables(store: Store) -> None:
    """Names and types of Snowflake's QUERY_HISTORY view; the last two columns are the local Snowflake's own."""
    store.duck_conn.execute(
        f"CREATE TABLE IF NOT EXISTS {QUERIES} (QUERY_ID VARCHAR, QUERY_TEXT VARCHAR, DATABASE_NAME VARCHAR, "
        "SCHEMA_NAME VARCHAR, QUERY_TYPE VARCHAR, SESSION_ID BIGINT, USER_NAME VARCHAR, ROLE_NAME VARCHAR, "
        "WAREHOUSE_NAME VARCHAR, WAREHOUSE_SIZE VARCHAR, QUERY_TAG VARCHAR, EXECUTION_STATUS VARCHAR, "
        "ERROR_CODE VARCHAR, ERROR_MESSAGE VARCHAR, START_TIME TIMESTAMPTZ, END_TIME TIMESTAMPTZ, "
        "TOTAL_ELAPSED_TIME BIGINT, EXECUTION_TIME BIGINT, BYTES_SCANNED BIGINT, ROWS_PRODUCED BIGINT, "
        "CREDITS_USED_CLOUD_SERVICES DOUBLE, LOCAL_ANSWERED_BY VARCHAR, LOCAL_RESUMED BOOLEAN)"
    )
    # Younger than the table.
    store.duck_conn.execute(f"ALTER TABLE {QUERIES} ADD COLUMN IF NOT EXISTS EXECUTION_TIME BIGINT DEFAULT 0")
    store.duck_conn.execute(
        f"CREATE TABLE IF NOT EXISTS {USAGE} (warehouse VARCHAR, hour TIMESTAMPTZ, id BIGINT, seconds DOUBLE, "
        "compute_credits DOUBLE, cloud_services_credits DOUBLE, resumes BIGINT, statements BIGINT, "
        "PRIMARY KEY (warehouse, hour))"
    )
    for column in ("ingested_bytes", "ingested_rows"):  # younger than the table
        store.duck_conn.execute(f"ALTER TABLE {USAGE} ADD COLUMN IF NOT EXISTS {column} BIGINT DEFAULT 0")
    for name, query in VIEWS.items():
        store.duck_conn.execute(f"CREATE OR REPLACE VIEW {PLACE}.{name} AS {query}")


def _row(query: Query) -> dict[str, Any]:
    elapsed = round(1000 * (query.ended - query.started))
    return {
        "QUERY_ID": query.query_id,
        "QUERY_TEXT": query.text,
        "DATABASE_NAME": query.database,
        "SCHEMA_NAME": query.schema,
        "QUERY_TYPE": query.query_type,
        "SESSION_ID": query.session_id,
        "USER_NAME": query.user,
        "ROLE_NAME": query.role,
        "WAREHOUSE_NAME": query.warehouse,
        "WAREHOUSE_SIZE": query.warehouse_size,
        "QUERY_TAG": query.tag,
        "EXECUTION_STATUS": "FAIL" if query.error_code else "SUCCESS",
        "ERROR_CODE": query.error_code,
        "START_TIME": datetime.fromtimestamp(query.started, UTC),
        "END_TIME": datetime.fromtimestamp(query.ended, UTC),
        "TOTAL_ELAPSED_TIME": elapsed,
        "EXECUTION_TIME": elapsed if query.compute is Compute.WAREHOUSE else 0,
        "BYTES_SCANNED": None if query.compute is Compute.WAREHOUSE else 0,
        "ROWS_PRODUCED": query.rows,
        "CREDITS_USED_CLOUD_SERVICES": query.cloud_services_credits,
        "LOCAL_ANSWERED_BY": str(query.compute),
        "LOCAL_RESUMED": query.resumed,
    }
