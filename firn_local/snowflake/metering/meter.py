"""The warehouse meter: what each statement runs on, which of them woke a warehouse, what that bills.

    before = snowflake.meter.usage()
    ...
    used = snowflake.meter.usage() - before      # used.seconds, used.compute_credits, used.resumes
    [query.tag for query in snowflake.meter.resumed_by()]

All of it is worked out from the clock when somebody asks: no thread. The clock may be a test's own (`FastClock`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from firn_local.snowflake.metering import persisted_results
from firn_local.snowflake.metering.compute import Compute, compute_of
from firn_local.snowflake.metering.history import WITHOUT_WAREHOUSE, History, Query, kept_text, query_type
from firn_local.snowflake.metering.persisted_results import PersistedResults, Request
from firn_local.snowflake.metering.usage import CLOUD_SERVICES_CREDITS, Usage, UsageByHour
from firn_local.snowflake.metering.warehouse import Warehouse
from firn_local.snowflake.sql.sql_errors import sql_error
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store.duckdb_store import Store
from firn_local.snowflake.transactions.locks import CommitLog

Clock = Callable[[], float]
"""Seconds since 1970."""
SUSPENDED = (606, "57P03")
_BASE_TABLES = (
    "SELECT count(*) FROM duckdb_tables() WHERE database_name || '.' || schema_name || '.' || table_name = ANY (?)"
)


class FastClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time it was moved to."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Client(Protocol):
    """A session, as far as the meter looks at it."""

    id: int
    user: str
    role: str
    warehouse: str | None
    parameters: dict[str, Any]
    database: str | None

    @property
    def schema(self) -> str | None:
        """Its current schema."""

    @property
    def temporary(self) -> AbstractSet[str]:
        """Full names of its temporary tables and views."""

    @property
    def uncommitted(self) -> AbstractSet[str]:
        """Full names of the tables that its open transaction has changed."""


@dataclass
class Metered:
    """One statement under way: what it turned out to run on."""

    client: Client
    sql: str
    query_id: str
    started: float
    compute: Compute = Compute.SERVICES
    warehouse: Warehouse | None = None
    resumed: bool = False
    rows: int | None = None
    result: tuple[Request, tuple[int, ...]] | None = None
    """What its result can be reused for, and the versions of the tables it read."""


class Meter:
    """The warehouses of an account, its persisted results and its history."""

    def __init__(self, store: Store, commits: CommitLog, clock: Clock = time.time) -> None:
        self._store, self._commits, self._clock = store, commits, clock
        self._lock = threading.RLock()
        self._usage = UsageByHour()
        self._warehouses: dict[str, Warehouse] = {}
        self._results = PersistedResults()
        self._history = History(store)
        for name, hour, usage in self._history.load_usage():
            self._usage.load(name, hour, usage)

    # What an administrator does

    def configure(self, name: str, properties: Mapping[str, Any]) -> None:
        """CREATE or ALTER WAREHOUSE gave these properties; a new one is suspended."""
        with self._lock:
            found = self._warehouses.setdefault(name, Warehouse(name, self._usage.bill))
            found.configure(properties, self._clock())

    def forget(self, name: str) -> None:
        """DROP WAREHOUSE: what it used stays."""
        with self._lock:
            self._warehouses.pop(name).settle(self._clock())

    def resume(self, name: str) -> bool:
        """ALTER WAREHOUSE ... RESUME; whether it was suspended."""
        with self._lock:
            resumed = self._warehouses[name].resume(self._clock())
            self._count_resume(name, resumed)
            return resumed

    def suspend(self, name: str) -> bool:
        """ALTER WAREHOUSE ... SUSPEND; whether it ran."""
        with self._lock:
            return self._warehouses[name].suspend(self._clock())

    def is_started(self, name: str) -> bool:
        """Whether a warehouse runs."""
        with self._lock:
            return self._warehouses[name].is_started(self._clock())

    # What a statement does

    @contextmanager
    def statement(self, client: Client, sql: str, query_id: str) -> Iterator[Metered]:
        """Around one statement, from its arrival to its answer or its error."""
        metered = Metered(client, sql, query_id, self._clock())
        try:
            yield metered
        except BaseException as error:
            self._end(metered, f"{getattr(error, 'errno', None) or 0:06d}")
            raise
        self._end(metered, None)

    def runs(self, metered: Metered, statement: Statement, reads: AbstractSet[str], values: Any) -> None:
        """It is compiled and allowed, and runs now: wake the warehouse where it needs one.

        reads: full names of the tables it reads. values: what is bound. Raises Snowflake's 000606 where the warehouse
        is suspended and may not resume.
        """
        metered.compute = compute_of(statement)
        if metered.compute is not Compute.WAREHOUSE:
            return
        with self._lock:
            if self._is_reused(metered, statement, reads, values):
                metered.compute = Compute.REUSE
                return
            self._wake(metered)

    def _wake(self, metered: Metered) -> None:
        warehouse, now = self._warehouses.get(metered.client.warehouse or ""), self._clock()
        if warehouse is None:  # nobody has made one yet
            return
        if not warehouse.auto_resume and not warehouse.is_started(now):
            raise sql_error(SUSPENDED, f"Warehouse '{warehouse.name}' is suspended and AUTO_RESUME is FALSE.")
        metered.resumed = warehouse.begin(now)
        metered.warehouse = warehouse
        self._count_resume(warehouse.name, metered.resumed)

    def _count_resume(self, name: str, resumed: bool) -> None:
        if resumed:
            self._usage.add(name, self._clock(), Usage(resumes=1))

    def _is_reused(self, metered: Metered, statement: Statement, reads: AbstractSet[str], values: Any) -> bool:
        client = metered.client
        if client.parameters.get("USE_CACHED_RESULT") is False or not reads or reads & client.temporary:
            return False
        if reads & client.uncommitted or not persisted_results.is_repeatable(statement):
            return False
        options = persisted_results.options_of(client.parameters)
        request = Request(statement.sql, repr(values), (statement.database, statement.schema), options)
        versions = self._commits.versions(sorted(reads))
        if self._results.reuse(request, versions, self._clock(), lambda: self._are_tables(reads)):
            return True
        metered.result = request, versions
        return False

    def _are_tables(self, names: AbstractSet[str]) -> bool:
        """Whether none is a view, whose tables nobody looks at here."""
        return self._store.query(_BASE_TABLES, [sorted(names)]) == [(len(names),)]

    def _end(self, metered: Metered, error_code: str | None) -> None:
        with self._lock:
            now, warehouse = self._clock(), metered.warehouse
            if warehouse is not None:
                warehouse.end(now)
            if metered.result is not None and error_code is None:
                self._results.keep(*metered.result, now)
            name = metered.client.warehouse or WITHOUT_WAREHOUSE
            self._usage.add(name, now, Usage(cloud_services_credits=CLOUD_SERVICES_CREDITS, statements=1))
            is_full = self._history.add(_query(metered, now, error_code))
        if is_full:
            self.write()

    def ingest(self, pipe: str, size: int, rows: int) -> None:
        """Snowpipe Streaming took rows through a pipe (full name), with so many bytes of values."""
        with self._lock:
            self._usage.add(pipe, self._clock(), Usage(ingested_bytes=size, ingested_rows=rows))

    # What somebody reads

    def usage(self, warehouse: str | None = None) -> Usage:
        """What one warehouse, or all, used since the account was made; subtract two for the time between."""
        with self._lock:
            self._settle()
            return self._usage.total(warehouse)

    def queries(self, *, since: float = 0.0) -> list[Query]:
        """The last statements, oldest first, of those that began at `since` or later."""
        with self._lock:
            return [query for query in self._history.recent if query.started >= since]

    def resumed_by(self, *, since: float = 0.0) -> list[Query]:
        """Those of them that woke a warehouse."""
        return [query for query in self.queries(since=since) if query.resumed]

    def write(self) -> None:
        """Write the history and the usage into their tables, for whoever reads them."""
        with self._lock:
            self._settle()
            changed = list(self._usage.changed())
        self._history.write(changed)

    def _settle(self) -> None:
        for warehouse in self._warehouses.values():
            warehouse.settle(self._clock())


def _query(metered: Metered, now: float, error_code: str | None) -> Query:
    client, warehouse = metered.client, metered.warehouse
    return Query(
        query_id=metered.query_id,
        text=kept_text(metered.sql),
        query_type=query_type(metered.sql),
        session_id=client.id,
        user=client.user,
        role=client.role,
        database=client.database,
        schema=client.schema,
        warehouse=client.warehouse,
        warehouse_size=warehouse.size if warehouse else None,
        tag=str(client.parameters.get("QUERY_TAG") or ""),
        compute=metered.compute,
        resumed=metered.resumed,
        started=metered.started,
        ended=now,
        error_code=error_code,
        rows=metered.rows,
        cloud_services_credits=CLOUD_SERVICES_CREDITS,
    )
