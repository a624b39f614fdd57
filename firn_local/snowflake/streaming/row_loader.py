"""Batches of rows into their tables, with tokens and counters, in one transaction; bad rows left out and counted.

ON_ERROR is CONTINUE, as the service works: https://docs.snowflake.com/en/user-guide/snowpipe-streaming/
snowpipe-streaming-error-tables. At first every row is expected to be good, which costs one INSERT a pipe. Where that
fails, DuckDB names the rows that cannot be (`Plan.rejected`) and the others are inserted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from snowflake.connector.errors import ProgrammingError

from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.metering.ingestion import size_of_lines
from firn_local.snowflake.privileges.role_grants import ADMIN
from firn_local.snowflake.sql.sql_errors import LOCKED, to_snowflake
from firn_local.snowflake.store import channel_table, table_annotations
from firn_local.snowflake.store.channel_table import ChannelRow
from firn_local.snowflake.store.table_annotations import KnownColumn
from firn_local.snowflake.streaming import transformation, value_casts
from firn_local.snowflake.streaming.pipes import Pipe
from firn_local.snowflake.streaming.protocol_errors import ProtocolError
from firn_local.snowflake.streaming.transformation import ROWS, Plan
from firn_local.snowflake.transactions.locks import columns_of
from firn_local.snowflake.transactions.read_committed import Tables

MOST_ATTEMPTS = 20
_KEYS = f"SELECT DISTINCT json_keys(line) FROM {ROWS}"  # noqa: S608
_MALFORMED = (
    f"SELECT batch, position FROM {ROWS} "  # noqa: S608
    "WHERE NOT CASE WHEN json_valid(line) THEN json_type(line) = 'OBJECT' ELSE false END"
)
# What is wrong with rows or their table. Anything else (memory, disk, a conflict) is no reason to reject a row.
_OF_ROWS = (duckdb.DataError, duckdb.IntegrityError, duckdb.ProgrammingError, duckdb.NotSupportedError)
_NO_OBJECT = "Error parsing JSON: a row must be one JSON object"


class Batch(Protocol):
    """Rows of one request, in order, and the channel they came through."""

    @property
    def pipe(self) -> Pipe:
        """Where they go."""

    @property
    def lines(self) -> pa.LargeStringArray:
        """One JSON text a row."""

    @property
    def end_token(self) -> str | None:
        """The channel's token once they are committed."""

    @property
    def channel(self) -> ChannelRow:
        """The channel when they were taken: name, creation, client sequencer."""


@dataclass(frozen=True)
class Rejection:
    """Rows that a test wants refused: those with one of `values` (texts) under `path`, a JSON path from the row.

    pipe: only rows of the pipe of this name.
    """

    path: str
    values: tuple[str, ...]
    message: str = "Injected row error"
    pipe: str | None = None


@dataclass
class Outcome:
    """What became of one batch."""

    parsed: int
    inserted: int = 0
    errors: int = 0
    message: str | None = None


@dataclass
class _Load:
    """The batches of one pipe on their way; the relation's `batch` is an index of `batches` and `outcomes`."""

    pipe: Pipe
    batches: list[Batch]
    rows: pa.Table
    outcomes: list[Outcome]
    plan: Plan | None = None

    def leave_out(self, rejected: Sequence[tuple[int, int]], reason: Callable[[int], str]) -> None:
        """Drop rows, (batch, position) each, and count them; `reason` is asked about the last of each batch."""
        if not rejected:
            return
        last = dict(sorted(rejected, key=lambda row: row[1]))
        for batch, position in last.items():
            self.outcomes[batch].message = reason(position)
        for batch, _ in rejected:
            self.outcomes[batch].errors += 1
        gone = pa.array([position for _, position in rejected], pa.int64())
        self.rows = self.rows.filter(pc.invert(pc.is_in(self.rows["position"], gone)))

    def row(self, position: int) -> pa.Table:
        """The relation of one row alone."""
        return self.rows.filter(pc.equal(self.rows["position"], position))


class _Refused(Exception):  # noqa: N818  (the way from an INSERT to the next attempt)
    """A pipe's INSERT failed for what is in its rows."""

    def __init__(self, pipe: Pipe, error: duckdb.Error) -> None:
        super().__init__(_reason(error))
        self.pipe = pipe


class _ChannelGone(Exception):  # noqa: N818  (as above)
    """A channel went away while its rows were inserted."""


class RowLoader:
    """Loads batches, one call at a time. `rejections` names the rows of a pipe that a test wants refused."""

    def __init__(self, snowflake: LocalSnowflake, rejections: Callable[[Pipe], Sequence[Rejection]]) -> None:
        self._snowflake, self._rejections = snowflake, rejections
        self._session = snowflake.session("SNOWFLAKE", ADMIN)
        self._selects: dict[tuple[object, ...], Plan] = {}

    def close(self) -> None:
        """Give its connection back."""
        self._session.close()

    def load(self, batches: Sequence[Batch]) -> list[Outcome | None]:
        """Commit batches of one database, in order; an outcome each, None where its channel does not exist any more.

        Raises ProgrammingError where DuckDB cannot commit at all.
        """
        careful: set[Pipe] = set()
        hopeless: dict[Pipe, str] = {}
        for _ in range(MOST_ATTEMPTS):
            channels = self._channels(batches)
            alive = [batch for batch in batches if _key(batch) in channels]
            try:
                # No table changes between the plan and the commit: that would pass for a fault of the rows, and an
                # ALTER of DuckDB's beside an INSERT fails.
                with self._session.store.ddl_lock:
                    loads = [
                        self._prepared(pipe, group, pipe in careful, hopeless.get(pipe))
                        for pipe, group in _by_pipe(alive).items()
                    ]
                    self._commit(loads, channels)
            except _Refused as refused:
                if refused.pipe in careful:
                    hopeless[refused.pipe] = str(refused)
                careful.add(refused.pipe)
            except _ChannelGone:
                pass
            except ProgrammingError as error:
                if error.errno != LOCKED[0]:
                    raise
            else:
                for batch in alive:
                    self._snowflake.meter.ingest(batch.pipe.full_name, size_of_lines(batch.lines), len(batch.lines))
                found = {id(b): o for load in loads for b, o in zip(load.batches, load.outcomes, strict=True)}
                return [found.get(id(batch)) for batch in batches]
        raise to_snowflake(duckdb.TransactionException("rows and changes of their table do not meet"), "")

    def _channels(self, batches: Sequence[Batch]) -> dict[object, ChannelRow]:
        """The channels of these batches that exist still, as they are committed."""
        found: dict[object, ChannelRow] = {}
        for pipe, group in _by_pipe(batches).items():
            names = list({batch.channel.channel_name for batch in group})
            for row in channel_table.find(self._session.duck, pipe.database, pipe.schema, pipe.name, names):
                found[_row_key(row)] = row
        return found

    def _prepared(self, pipe: Pipe, batches: list[Batch], careful: bool, hopeless: str | None) -> _Load:
        load = _Load(pipe, batches, _relation(batches), [Outcome(len(batch.lines)) for batch in batches])
        rejections = self._rejections(pipe)
        if hopeless is not None:
            every = zip(load.rows["batch"].to_pylist(), load.rows["position"].to_pylist(), strict=True)
            load.leave_out(list(every), _always(hopeless))
            return load
        self._session.use(pipe.database, pipe.schema)
        try:
            for rejection in rejections:
                load.leave_out(self._ask(load.rows, _injected(rejection)), _always(rejection.message))
            if careful:
                load.leave_out(self._ask(load.rows, _MALFORMED), lambda _: _NO_OBJECT)
            load.plan = self._plan(load, careful)
        except _OF_ROWS as error:
            raise _Refused(pipe, error) from error
        if careful:
            rejected = self._rejected(load.rows, load.plan)
            load.leave_out(rejected, lambda position: self._why(load.row(position), load.plan))
        return load

    def _plan(self, load: _Load, careful: bool) -> Plan:
        pipe = load.pipe
        columns = self._columns(pipe, careful)
        if not columns:
            raise duckdb.CatalogException(f"Table {pipe.table} does not exist")
        if transformation.matches_by_name(pipe):
            rows = self._ask(load.rows, _KEYS)
            if not careful and any(not keys for (keys,) in rows):
                raise duckdb.InvalidInputException(_NO_OBJECT)  # or {}: `_MALFORMED` tells
            keys = {key for (found,) in rows for key in found or []}
            return transformation.by_name(table_annotations.quoted(pipe.place), columns, keys)
        known = (pipe, *((column.name, column.duck_type, column.nullable, column.longest) for column in columns))
        if known not in self._selects:
            try:
                self._selects[known] = transformation.selected(self._snowflake, pipe, columns)
            except ProtocolError as error:  # a column that the SELECT needs was dropped
                raise duckdb.BinderException(str(error)) from error
        return self._selects[known]

    def _columns(self, pipe: Pipe, careful: bool) -> list[KnownColumn]:
        """The columns of its table: those that sessions know too, or after a failed INSERT what DuckDB has now."""
        known = self._snowflake.account.columns
        if careful or pipe.table not in known:
            known[pipe.table] = table_annotations.columns(self._session.duck, pipe.place)
        return known[pipe.table]

    def _rejected(self, rows: pa.Table, plan: Plan) -> list[tuple[int, int]]:
        try:
            return self._ask(rows, plan.rejected)
        except duckdb.BinderException:  # TRY takes no volatile functions: then a row at a time
            each = zip(rows["batch"].to_pylist(), rows["position"].to_pylist(), strict=True)
            return [(batch, at) for batch, at in each if self._fails(rows.filter(pc.equal(rows["position"], at)), plan)]

    def _fails(self, row: pa.Table, plan: Plan) -> bool:
        return self._why(row, plan) != ""

    def _why(self, row: pa.Table, plan: Plan | None) -> str:
        """Why a row cannot be; empty if it can."""
        if plan is None:
            return ""
        try:
            if not self._ask(row, plan.select):
                return ""
            for column, is_null in plan.nulls:
                if self._ask(row, f"SELECT 1 FROM {plan.source} WHERE {is_null}"):  # noqa: S608
                    return f"NULL result in a non-nullable column: {column}"
        except _OF_ROWS as error:
            return _reason(error)
        return ""

    def _ask(self, rows: pa.Table, sql: str) -> list[tuple[Any, ...]]:
        conn = self._session.duck
        conn.register(ROWS, rows)
        try:
            return conn.execute(sql).fetchall()
        finally:
            conn.unregister(ROWS)

    def _commit(self, loads: Sequence[_Load], channels: Mapping[object, ChannelRow]) -> None:
        tables = frozenset(load.pipe.table for load in loads)

        def work() -> int:
            return sum(self._insert(load) for load in loads) + self._store(loads, channels)

        if loads:
            self._session.transactions.run(work, Tables(columns_of(tables), tables, lambda _: None))

    def _insert(self, load: _Load) -> int:
        """Insert one pipe's rows inside the open transaction, and say in the outcomes what each batch put in."""
        kept: dict[int, int] = {}
        inserted = 0
        if load.plan is not None and load.rows.num_rows:
            self._session.use(load.pipe.database, load.pipe.schema)
            inserted, kept = self._inserted(load, load.plan)
        for batch, outcome in enumerate(load.outcomes):
            every = load.plan is not None and load.plan.condition is None
            outcome.inserted = outcome.parsed - outcome.errors if every else kept.get(batch, 0)
        return inserted

    def _inserted(self, load: _Load, plan: Plan) -> tuple[int, dict[int, int]]:
        conn = self._session.duck
        conn.register(ROWS, load.rows)
        try:
            count = int(conn.execute(plan.insert).fetchall()[0][0])
            kept = dict(conn.execute(plan.kept).fetchall()) if plan.condition else {}
        except _OF_ROWS as error:
            raise _Refused(load.pipe, error) from error
        conn.unregister(ROWS)
        return count, kept

    def _store(self, loads: Sequence[_Load], channels: Mapping[object, ChannelRow]) -> int:
        """Tokens and counters, in the transaction of the rows."""
        changed: dict[object, ChannelRow] = {}
        for load in loads:
            for batch, outcome in zip(load.batches, load.outcomes, strict=True):
                key = _key(batch)
                changed[key] = _advanced(changed.get(key, channels[key]), batch, outcome)
        database = loads[0].pipe.database
        if channel_table.store_rows(self._session.duck, database, list(changed.values())) != len(changed):
            raise _ChannelGone
        return 0


def _advanced(row: ChannelRow, batch: Batch, outcome: Outcome) -> ChannelRow:
    after = replace(
        row,
        row_sequencer=row.row_sequencer + 1,
        token=row.token if batch.end_token is None else batch.end_token,
        rows_parsed=row.rows_parsed + outcome.parsed,
        rows_inserted=row.rows_inserted + outcome.inserted,
        rows_errors=row.rows_errors + outcome.errors,
    )
    if outcome.errors:
        after.last_error_token, after.last_error_message = batch.end_token, outcome.message
        after.last_error_ms = time.time_ns() // 1_000_000
    return after


def _by_pipe(batches: Sequence[Batch]) -> dict[Pipe, list[Batch]]:
    groups: dict[Pipe, list[Batch]] = {}
    for batch in batches:
        groups.setdefault(batch.pipe, []).append(batch)
    return groups


def _key(batch: Batch) -> object:
    return _row_key(batch.channel)


def _row_key(row: ChannelRow) -> object:
    return row.schema_name, row.pipe_name, row.channel_name, row.created_ms


def _relation(batches: Sequence[Batch]) -> pa.Table:
    sizes = [len(batch.lines) for batch in batches]
    return pa.table(
        {
            "batch": pa.array(np.repeat(np.arange(len(batches), dtype=np.int32), sizes)),
            "position": pa.array(np.arange(sum(sizes))),
            "line": pa.chunked_array([batch.lines for batch in batches], pa.large_string()),
        }
    )


def _always(reason: str) -> Callable[[int], str]:
    return lambda _: reason


def _injected(rejection: Rejection) -> str:
    values = ", ".join("'{}'".format(value.replace("'", "''")) for value in rejection.values)
    path = "'{}'".format(rejection.path.replace("'", "''"))
    return (
        f"SELECT batch, position FROM {ROWS} WHERE CASE WHEN json_valid(line) "  # noqa: S608
        f"THEN json_extract_string(line, {path}) IN ({values}) ELSE false END"
    )


def _reason(error: duckdb.Error) -> str:
    return value_casts.reason_of(str(error)) or str(to_snowflake(error, "").raw_msg)
