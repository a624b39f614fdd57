"""One login: its DuckDB connection, parameters, role, temporary objects and transaction; and how a statement runs.

A statement goes to the first of: our own commands (`commands`), transaction control, DDL (commits what is open),
queries and DML (inside the transaction layer), everything else to fakesnow as it is. Not for HTTP.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
from fakesnow.conn import FakeSnowflakeConnection
from fakesnow.cursor import SQL_SUCCESS, FakeSnowflakeCursor
from fakesnow.dialect import parse_one
from fakesnow.statement_type import statement_type_id
from sqlglot import Expr, exp

from firn.local.snowflake.engine import Engine
from firn.local.snowflake.errors import to_snowflake
from firn.local.snowflake.locks import Claim, CommitLog, TableLocks
from firn.local.snowflake.statements import Kind, Statement
from firn.local.snowflake.transactions import Tables, Transactions

LOCK_TIMEOUT_SECONDS = 43_200
_session_numbers = itertools.count(time.time_ns() // 1000)

_ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "JSON": pa.string(),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True)
class Answer:
    """A result set of our own: (column, DuckDB type) pairs and rows."""

    columns: list[tuple[str, str]]
    rows: list[tuple[Any, ...]]

    @staticmethod
    def status(text: str = "Statement executed successfully.") -> Answer:
        """The one-row answer of a statement that returns no data."""
        return Answer([("status", "VARCHAR")], [(text,)])

    def describing_sql(self) -> str:
        """A query with the same columns, for fakesnow to describe the result by."""
        return "SELECT " + ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in self.columns)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        schema = pa.schema([(name, _ARROW[kind]) for name, kind in self.columns])
        columns = [list(c) for c in zip(*self.rows, strict=True)] or [[] for _ in self.columns]
        return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@dataclass
class Shared:
    """What all sessions of the server share."""

    engine: Engine
    account: str | None = None
    locks: TableLocks = field(default_factory=TableLocks)
    commits: CommitLog = field(default_factory=CommitLog)


class Session(FakeSnowflakeConnection):
    """A fakesnow connection with Snowflake's session state. One statement at a time: take `busy` around it."""

    def __init__(self, shared: Shared, database: str | None, schema: str | None, user: str, role: str | None) -> None:
        engine = shared.engine
        super().__init__(
            engine.duck_conn.cursor(),
            engine.results_cache,
            database,
            schema,
            create_database=False,
            create_schema=False,
            db_path=engine.db_path,
        )
        self.shared, self.user, self.role = shared, user, role
        self.id = next(_session_numbers)
        self.warehouse: str | None = None
        self.parameters: dict[str, Any] = {"AUTOCOMMIT": True, "LOCK_TIMEOUT": LOCK_TIMEOUT_SECONDS, "QUERY_TAG": ""}
        self.temporary: dict[str, str] = {}
        self.transactions = Transactions(self._duck_conn, shared.locks, shared.commits)
        self.busy = threading.Lock()
        self.cancelled = False

    @property
    def duck(self) -> duckdb.DuckDBPyConnection:
        """This session's DuckDB connection."""
        return self._duck_conn

    def cursor(self, *_: Any, **__: Any) -> Cursor:
        """A cursor of ours on this session's one DuckDB connection."""
        return Cursor(conn=self, duck_conn=self._duck_conn)

    def set_parameters(self, parameters: dict[str, Any]) -> None:
        """Set session parameters by name; unknown ones are kept and have no effect."""
        for name, value in parameters.items():
            self.parameters[name.upper()] = _typed(value)

    def autocommit(self, mode: bool) -> None:
        """ALTER SESSION SET AUTOCOMMIT: what is open is committed first."""
        self.transactions.commit()
        self.parameters["AUTOCOMMIT"] = mode

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


class Cursor(FakeSnowflakeCursor):
    """A fakesnow cursor whose statements go through the session's rules and fail with Snowflake errors only."""

    _conn: Session

    def execute(self, command: str, params: Any = None, *args: Any, **kwargs: Any) -> Cursor:
        """Run one statement. Raises ProgrammingError with Snowflake's errno and sqlstate for every fault."""
        try:
            self._sfqid = str(uuid.uuid4())
            self._run(self._inline_variables(command), kwargs.get("binding_params") or params)
        except Exception as error:
            failure = to_snowflake(error, command)
            self._sqlstate = failure.sqlstate
            raise failure from error
        return self

    def _run(self, sql: str, params: Any) -> None:
        from firn.local.snowflake import commands

        session = self._conn
        self._type_id = 0
        if (command := commands.find(sql)) is not None:
            self.answer(command(session, sql))
            return
        statement = Statement(sql, parse_one(sql), session.database, session.schema)
        self._type_id = statement_type_id(statement.expression)
        match statement.kind:
            case Kind.BEGIN:
                session.transactions.begin()
                self._execute(parse_duck(SQL_SUCCESS))
            case Kind.COMMIT:
                session.transactions.commit()
                self._execute(parse_duck(SQL_SUCCESS))
            case Kind.ROLLBACK:
                session.transactions.rollback()
                self._execute(parse_duck(SQL_SUCCESS))
            case Kind.DDL:
                self._run_ddl(statement, params)
            case Kind.QUERY | Kind.APPEND | Kind.CHANGE:
                self._run_dml(statement, params)
            case Kind.SESSION:
                self.run_plain(statement.expression, params)

    def _run_ddl(self, statement: Statement, params: Any) -> None:
        session = self._conn
        session.transactions.commit()
        claim = Claim(f"ddl-{self._sfqid}", str(self._sfqid))
        try:
            for table in sorted(statement.targets()):
                self._lock(table, claim)
            with session.shared.engine.ddl_lock:
                self.run_plain(statement.expression, params)
            session.transactions.record_ddl(statement.targets())
        finally:
            session.shared.locks.release(claim.transaction)

    def _run_dml(self, statement: Statement, params: Any) -> None:
        session, query_id = self._conn, str(self._sfqid)
        writes = frozenset() if statement.kind is Kind.QUERY else statement.targets()
        if writes and not session.parameters["AUTOCOMMIT"]:
            session.transactions.begin()

        def lock(transaction: str) -> None:
            if statement.kind is Kind.CHANGE:
                for table in sorted(writes):
                    self._lock(table, Claim(transaction, query_id))

        def work() -> int | None:
            return self.run_plain(statement.expression, params)

        session.transactions.run(work, Tables(statement.tables(), writes, lock))

    def _lock(self, table: str, claim: Claim) -> None:
        session = self._conn
        timeout = float(session.parameters["LOCK_TIMEOUT"])
        session.shared.locks.acquire(table, claim, timeout, lambda: session.cancelled)

    def run_plain(self, expression: Expr, params: Any) -> int | None:
        """Run a statement the way fakesnow does, without our rules; returns the count of affected rows."""
        expression = expression.copy()
        params = dict(params) if isinstance(params, dict) else None if params is None else list(params)
        self.check_db_and_schema(expression)
        for part in self._transform_explode(expression):
            transformed = self._transform(part, params)
            self._execute(transformed, params if transformed.find(exp.Placeholder) else None)
        return self._rowcount

    @property
    def statement_type(self) -> int:
        """Snowflake's statement type id of what ran last."""
        return self._type_id

    def upload(self, base_url: str) -> dict[str, Any] | None:
        """For a PUT, what the client needs to upload the file to `base_url`; None for other statements."""
        transformed = self._last_transformed
        data: dict[str, Any] | None = transformed.args.get("put_stage_data") if transformed is not None else None
        if data is None:
            return None
        directory = Path(data["stageInfo"]["location"])
        target = directory / Path(data["src_locations"][0]).name
        path = quote(str(target.relative_to(self._conn.shared.engine.stages_dir)))
        stage_info = {
            "locationType": "GCS",
            "location": f"{transformed.args['put_stage_name']}/",
            "creds": {},
            "presignedUrl": f"{base_url}{path}",
        }
        return {**data, "stageInfo": stage_info}

    def answer(self, answer: Answer) -> None:
        """Make `answer` this cursor's result."""
        self._arrow_table = answer.to_arrow()
        self._arrow_table_fetch_index = None
        self._rowcount = len(answer.rows)
        self._last_sql, self._last_params = answer.describing_sql(), None
        self._last_transformed = parse_duck(self._last_sql)
        self._sfqid = self._sfqid or str(uuid.uuid4())


def _typed(value: Any) -> Any:
    text = str(value)
    return {"TRUE": True, "FALSE": False}.get(text.upper(), int(text) if text.isdigit() else value)


def parse_duck(sql: str) -> Expr:
    """Parse DuckDB SQL of our own."""
    import sqlglot

    return sqlglot.parse_one(sql, read="duckdb")
