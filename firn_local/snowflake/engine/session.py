"""One login: its DuckDB connection, current database and schema, parameters, role, temporary objects, transaction.

How a statement runs is in `cursor`; who is logged in, in `registry`.
"""

from __future__ import annotations

import hmac
import itertools
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
from fakesnow.conn import FakeSnowflakeConnection

from firn_local.snowflake.engine.column_values import Rule
from firn_local.snowflake.engine.cursor import Cursor
from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.privileges.role_grants import Holdings
from firn_local.snowflake.statements import principals
from firn_local.snowflake.statements.session_settings import DEFAULTS
from firn_local.snowflake.store.duckdb_store import Engine
from firn_local.snowflake.transactions.locks import CommitLog, TableLocks
from firn_local.snowflake.transactions.read_committed import Transactions

_numbers = itertools.count(time.time_ns() // 1000)


@dataclass
class Shared:
    """What all sessions of the server share; `account` is the only account that may log in, None means any."""

    engine: Engine
    account: str | None = None
    locks: TableLocks = field(default_factory=TableLocks)
    commits: CommitLog = field(default_factory=CommitLog)
    holdings: Holdings = field(init=False)
    locked_out: dict[str, float] = field(default_factory=dict)
    """When a user was disabled last (monotonic seconds): sessions from before have ended."""
    upload_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    column_rules: dict[str, dict[str, Rule]] = field(default_factory=dict)
    """What the columns of a table take, by its full name; another dict after each DDL."""

    def __post_init__(self) -> None:
        """Made of the engine."""
        self.holdings = Holdings(self.engine)

    def sign(self, path: str) -> str:
        """What an upload url to `path` must carry: only a PUT statement gives it out."""
        return hmac.new(self.upload_key, path.encode(), "sha256").hexdigest()


class Session(FakeSnowflakeConnection):
    """A fakesnow connection with Snowflake's session state. One statement at a time: take `busy` around it."""

    shared: Shared
    user: str
    role: str
    id: int
    transactions: Transactions

    def __init__(self, shared: Shared, user: str, role: str) -> None:
        engine = shared.engine
        super().__init__(
            engine.duck_conn.cursor(),
            engine.results_cache,
            create_database=False,
            create_schema=False,
            db_path=engine.db_path,
        )
        self.shared, self.user, self.role = shared, user, role
        self.id = next(_numbers)
        self._opened = time.monotonic()
        self.secondary = False  # whether the user's other roles count too
        # Until the first user is made, and in the bootstrap, whoever logs in may do everything.
        self.is_restricted = principals.properties(engine, "USER", user) is not None
        self.warehouse: str | None = None
        self.parameters: dict[str, Any] = dict(DEFAULTS)
        self.temporary: set[str] = set()
        self.transactions = Transactions(self._duck_conn, shared.locks, shared.commits, engine.ddl_lock)
        self.last_query_id: str | None = None
        self.busy = threading.Lock()
        self.cancelled = False

    @property
    def is_locked_out(self) -> bool:
        """Whether its user was disabled since it was opened."""
        return self.shared.locked_out.get(self.user, 0.0) >= self._opened

    @property
    def duck(self) -> duckdb.DuckDBPyConnection:
        """This session's DuckDB connection."""
        return self._duck_conn

    def cursor(self, *_: Any, **__: Any) -> Cursor:
        """A cursor of ours on this session's one DuckDB connection."""
        return Cursor(self)

    def secondary_roles(self) -> frozenset[str]:
        """The user's roles beside the primary one, where they count (USE SECONDARY ROLES ALL)."""
        return self.shared.holdings.now().roles_of(self.user) - {"PUBLIC"} if self.secondary else frozenset()

    def enter(self, database: str | None, schema: str | None) -> None:
        """Take the login's database and schema as far as they exist for its role, as Snowflake does."""
        if database and self.has_schema(database, "main") and not enforcement.holds_nothing(self, "DATABASE", database):
            wanted = schema or "PUBLIC"
            found = self.has_schema(database, wanted) and not enforcement.holds_nothing(
                self, "SCHEMA", f"{database}.{wanted}"
            )
            self.use(database, wanted if found else None)

    def use(self, database: str, schema: str | None) -> None:
        """Make `database` and `schema` the current ones (both exist)."""
        self._duck_conn.execute(f"SET schema = '{database}.{schema or 'main'}'")
        self.database, self._schema = database, schema
        self.database_set, self.schema_set = True, schema is not None

    @contextmanager
    def at(self, place: tuple[str | None, str | None]) -> Iterator[None]:
        """Inside (database, schema): a statement that is repeated must find the names it found first."""
        now = (self.database, self.schema)
        if place == now or place[0] is None or now[0] is None:
            yield
            return
        self.use(place[0], place[1])
        try:
            yield
        finally:
            self.use(now[0], now[1])

    def leave_database(self) -> None:
        """Have no current database."""
        self._duck_conn.execute("SET schema = 'memory.main'")
        self.database = self._schema = None
        self.database_set = self.schema_set = False

    def has_schema(self, database: str, schema: str) -> bool:
        """Whether the schema exists."""
        sql = "SELECT 1 FROM duckdb_schemas() WHERE database_name = ? AND schema_name = ?"
        return self.shared.engine.query(sql, [database, schema]) != []

    def full_name(self, name: str) -> str:
        """DATABASE.SCHEMA.NAME of a name with one to three parts."""
        parts = name.split(".")
        return ".".join([*[self.database or "", self.schema or ""][: 3 - len(parts)], *parts])

    def set_parameters(self, parameters: dict[str, Any]) -> None:
        """Set session parameters by name; unknown ones are kept and have no effect."""
        for name, value in parameters.items():
            text = str(value)
            typed = {"TRUE": True, "FALSE": False}.get(text.upper(), int(text) if text.isdigit() else value)
            if name.upper() == "AUTOCOMMIT":
                self.transactions.commit()
            self.parameters[name.upper()] = typed

    @contextmanager
    def ddl(self) -> Iterator[None]:
        """Around a statement that commits what is open first; one such statement at a time in the whole server."""
        self.transactions.commit()
        with self.shared.engine.ddl_lock:
            try:
                yield
            finally:
                self.shared.column_rules = {}

    def cancel(self) -> None:
        """Stop the running statement: a lock wait ends, DuckDB is interrupted."""
        self.cancelled = True
        self._duck_conn.interrupt()
        self.shared.locks.wake()

    def close(self, retry: bool = True) -> None:
        """Roll back what is open, release its locks, drop temporary objects with the DuckDB connection."""
        with self.busy:
            if not self._is_closed:
                self.transactions.rollback()
                super().close(retry)
