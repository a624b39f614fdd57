"""One local Snowflake over one data directory, in this process: its store, its account, its families of statements.

    snowflake = LocalSnowflake(Path("data"))
    with snowflake.session("ME", "ACCOUNTADMIN") as session:
        snowflake.run(session, "CREATE DATABASE D").fetchall()

`server` puts HTTP in front of it. A new family of statements gets a line in FAMILIES.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firn_local.snowflake.engine.account import Account
from firn_local.snowflake.engine.cursor import Cursor
from firn_local.snowflake.engine.family import Dispatcher
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.metering.meter import Clock, Meter
from firn_local.snowflake.privileges import principal_table
from firn_local.snowflake.statements import (
    channel_objects,
    copy_files,
    create_and_alter_table,
    databases,
    grant_and_revoke,
    pipe_objects,
    principals,
    queries_and_rows,
    session_settings,
    show_and_describe,
    stages,
    stream_objects,
    tag_objects,
    task_objects,
    transaction_control,
)
from firn_local.snowflake.store.duckdb_store import Store

FAMILIES = (
    queries_and_rows.FAMILY,
    copy_files.FAMILY,
    transaction_control.FAMILY,
    create_and_alter_table.FAMILY,
    stages.FAMILY,
    pipe_objects.FAMILY,
    channel_objects.FAMILY,
    stream_objects.FAMILY,
    task_objects.FAMILY,
    tag_objects.FAMILY,
    databases.FAMILY,
    show_and_describe.FAMILY,
    session_settings.FAMILY,
    principals.FAMILY,
    grant_and_revoke.FAMILY,
)


class LocalSnowflake:
    """Opens the data directory, which is made when absent; `close` writes it back."""

    def __init__(
        self,
        data_dir: Path,
        *,
        account: str | None = None,
        memory_limit: str = "1GB",
        threads: int = 2,
        clock: Clock = time.time,
    ) -> None:
        """`account` is the only account name that may log in; None means any. memory_limit and threads are DuckDB's.

        clock: what warehouses are billed by, in seconds since 1970.
        """
        store = Store(data_dir, memory_limit=memory_limit, threads=threads)
        principal_table.create_table(store)
        self.account = Account(store, account, clock)
        self._dispatcher = Dispatcher(FAMILIES)
        for family in FAMILIES:
            if family.create_tables is not None:
                family.create_tables(store)
            if family.on_removed is not None:
                self.account.on_removed.append(family.on_removed)

    def session(self, user: str, role: str) -> Session:
        """A new session of a user, who need not exist; a context manager that closes it."""
        return Session(self.account, user, role)

    def run(self, session: Session, sql: str, params: Any = None) -> Cursor:
        """Run one statement; the cursor holds its rows. Raises ProgrammingError as the connector would."""
        with self.statement(session) as cursor:
            return cursor.execute(sql, params)

    @contextmanager
    def statement(self, session: Session) -> Iterator[Cursor]:
        """A cursor for one statement, while no other one of the session runs. A failed one leaves a usable session."""
        with session.busy:
            session.cancelled = False
            try:
                yield Cursor(session, self._dispatcher)
            except BaseException:
                session.transactions.repair()
                raise

    @property
    def meter(self) -> Meter:
        """What the account's warehouses were used for, and what that bills."""
        return self.account.meter

    def close(self) -> None:
        """Close the files, written back. Sessions must be closed before."""
        self.meter.write()
        self.account.store.close()
