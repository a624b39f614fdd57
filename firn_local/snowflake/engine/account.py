"""The account: what all sessions of one server share. Not for what belongs to one of them (`login_session`)."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from firn_local.snowflake.change_tracking.stream_table import StreamTable
from firn_local.snowflake.change_tracking.tracked_tables import TrackedTables
from firn_local.snowflake.change_tracking.versions import Versions
from firn_local.snowflake.metering.meter import Clock, Meter
from firn_local.snowflake.privileges import principal_table
from firn_local.snowflake.privileges.grant_table import GrantTable
from firn_local.snowflake.privileges.requirements import USAGE_DATABASE
from firn_local.snowflake.privileges.role_grants import ADMIN, RoleGrants
from firn_local.snowflake.store import dropped_objects
from firn_local.snowflake.store.duckdb_store import Store
from firn_local.snowflake.store.table_annotations import KnownColumn
from firn_local.snowflake.tasks.task_table import TaskTable
from firn_local.snowflake.transactions.locks import CommitLog, TableLocks


@dataclass
class Account:
    """What sessions share; `only_name` is the only account name that may log in, None means any."""

    store: Store
    only_name: str | None = None
    clock: Clock = time.time
    """What the meter counts by, what grows stale and what is scheduled."""
    locks: TableLocks = field(default_factory=TableLocks)
    commits: CommitLog = field(default_factory=CommitLog)
    role_grants: RoleGrants = field(init=False)
    meter: Meter = field(init=False)
    versions: Versions = field(init=False)
    tracked: TrackedTables = field(init=False)
    streams: StreamTable = field(init=False)
    tasks: TaskTable = field(init=False)
    started_ns: int = field(default_factory=time.time_ns)
    """When the server started, by the machine's clock."""
    locked_out: dict[str, float] = field(default_factory=dict)
    """When a user was disabled last (monotonic seconds): sessions from before have ended."""
    columns: dict[str, list[KnownColumn]] = field(default_factory=dict)
    """The committed columns of a table, by its full name; another dict after each DDL."""
    on_removed: list[Callable[[Store, str], None]] = field(default_factory=list)
    """What families forget with a dropped database or schema, whose name they get."""
    _upload_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def __post_init__(self) -> None:
        """Made of the store."""
        self.role_grants = RoleGrants(GrantTable(self.store))
        if self.role_grants.now().owner("DATABASE", USAGE_DATABASE) is None:
            self.grants.own("DATABASE", USAGE_DATABASE, ADMIN)
        self.meter = Meter(self.store, self.commits, self.clock)
        for name, _, _, properties in principal_table.rows(self.store, "WAREHOUSE"):
            self.meter.configure(name, properties)
        self.versions = Versions(self.store)
        self.tracked = TrackedTables(self.store, self.versions)
        self.streams = StreamTable(self.store, self.now)
        self.tasks = TaskTable(self.store)

    def now(self) -> datetime:
        """The time of the clock."""
        return datetime.fromtimestamp(self.clock(), UTC)

    @property
    def grants(self) -> GrantTable:
        """The table of grants."""
        return self.role_grants.table

    @property
    def name(self) -> str:
        """As CURRENT_ACCOUNT() has it."""
        return (self.only_name or "LOCAL").upper()

    def sign(self, path: str) -> str:
        """What an upload url to `path` must carry: only a PUT statement gives it out."""
        return hmac.new(self._upload_key, path.encode(), "sha256").hexdigest()

    def forget_inside(self, kind: str, name: str) -> None:
        """Remove what is kept for a dropped DATABASE or SCHEMA and for what was in it."""
        dropped_objects.forget_inside(self.store, name)
        self.grants.forget(kind, name)
        self.streams.forget_inside(name)
        self.tasks.forget_inside(name)
        for forget in self.on_removed:
            forget(self.store, name)

    @contextmanager
    def ddl(self) -> Iterator[None]:
        """Around a change of objects: one at a time in the whole server."""
        with self.store.ddl_lock:
            try:
                yield
            finally:
                self.columns = {}
                self.tracked.refresh()
