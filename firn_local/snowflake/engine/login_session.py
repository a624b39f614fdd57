"""One login: its DuckDB connection, current database and schema, parameters, role, temporary objects, transaction.

How a statement runs is in `cursor`; who is logged in, in `server.login_registry`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
from fakesnow.conn import FakeSnowflakeConnection

from firn_local.snowflake.change_tracking.recorder import Recorder
from firn_local.snowflake.engine.account import Account
from firn_local.snowflake.privileges import enforcement, principal_table
from firn_local.snowflake.privileges.role_grants import RoleGrants
from firn_local.snowflake.sql.tokenizer import Tokenizer
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.duckdb_store import Store
from firn_local.snowflake.store.table_annotations import Place
from firn_local.snowflake.transactions.locks import Claim
from firn_local.snowflake.transactions.read_committed import Transactions

DEFAULTS = {"AUTOCOMMIT": True, "LOCK_TIMEOUT": 43_200, "QUERY_TAG": "", "TIMEZONE": "Etc/UTC"}
"""Session parameters that every session has."""
_numbers = itertools.count(time.time_ns() // 1000)


class Session(FakeSnowflakeConnection):
    """A fakesnow connection with Snowflake's session state. One statement at a time: take `busy` around it."""

    account: Account
    user: str
    role: str
    id: int
    transactions: Transactions

    def __init__(self, account: Account, user: str, role: str) -> None:
        store = account.store
        super().__init__(
            store.duck_conn.cursor(),
            store.results_cache,
            create_database=False,
            create_schema=False,
            db_path=store.db_path,
        )
        self.account, self.user, self.role = account, user, role
        self.id = next(_numbers)
        self._opened = time.monotonic()
        self.secondary = False  # whether the user's other roles count too
        # Until the first user is made, and in the bootstrap, whoever logs in may do everything.
        self.is_restricted = principal_table.properties(store, "USER", user) is not None
        self.warehouse: str | None = None
        self.is_serverless = False
        self.parameters: dict[str, Any] = dict(DEFAULTS)
        self.temporary: set[str] = set()
        self.recorder = Recorder(self._duck_conn, account.versions, account.tracked, account.streams)
        self.transactions = Transactions(self._duck_conn, account.locks, account.commits, store.ddl_lock, self.recorder)
        self.last_query_id: str | None = None
        self.busy = threading.Lock()
        self.cancelled = False

    @property
    def is_locked_out(self) -> bool:
        """Whether its user was disabled since it was opened."""
        return self.account.locked_out.get(self.user, 0.0) >= self._opened

    @property
    def duck(self) -> duckdb.DuckDBPyConnection:
        """This session's DuckDB connection."""
        return self._duck_conn

    @property
    def store(self) -> Store:
        """Where everything is kept."""
        return self.account.store

    @property
    def role_grants(self) -> RoleGrants:
        """The grants of the account."""
        return self.account.role_grants

    @property
    def account_name(self) -> str:
        """As CURRENT_ACCOUNT() has it."""
        return self.account.name

    @property
    def uncommitted(self) -> set[str]:
        """Full names of the tables that its open transaction has changed."""
        current = self.transactions.current
        return current.tables if current is not None else set()

    def secondary_roles(self) -> frozenset[str]:
        """The user's roles beside the primary one, where they count (USE SECONDARY ROLES ALL)."""
        return self.role_grants.now().roles_of(self.user) - {"PUBLIC"} if self.secondary else frozenset()

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
        return self.store.query(sql, [database, schema]) != []

    def full_name(self, name: str) -> str:
        """DATABASE.SCHEMA.NAME of a name with one to three parts."""
        parts = name.split(".")
        return ".".join([*[self.database or "", self.schema or ""][: 3 - len(parts)], *parts])

    def scope(self, tokens: Tokenizer) -> str:
        """What the full names of those objects begin with that SHOW ... [IN ACCOUNT | DATABASE d | SCHEMA s] lists."""
        if not tokens.skip("IN"):
            schema = f"{self.schema}." if self.schema else ""
            return f"{self.database}.{schema}" if self.database else ""
        if tokens.skip("ACCOUNT"):
            return ""
        if tokens.skip("DATABASE"):
            return f"{tokens.name() if tokens else self.database}."
        tokens.skip("SCHEMA")
        schema = tokens.name() if tokens else str(self.schema)
        return f"{schema}." if "." in schema else f"{self.database}.{schema}."

    def place_of(self, full_name: str) -> Place:
        """Where DuckDB has a table: a temporary one lies elsewhere."""
        return table_annotations.place_of(full_name, self.temporary)

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
        with self.account.ddl():
            yield

    def lock(self, table: str, claim: Claim) -> None:
        """Wait for a table's lock, LOCK_TIMEOUT seconds at most."""
        self.account.locks.acquire(table, claim, float(self.parameters["LOCK_TIMEOUT"]), lambda: self.cancelled)

    def cancel(self) -> None:
        """Stop the running statement: a lock wait ends, DuckDB is interrupted."""
        self.cancelled = True
        self._duck_conn.interrupt()
        self.account.locks.wake()

    def close(self, retry: bool = True) -> None:
        """Roll back what is open, release its locks, drop temporary objects with the DuckDB connection."""
        with self.busy:
            if not self._is_closed:
                self.transactions.rollback()
                super().close(retry)
