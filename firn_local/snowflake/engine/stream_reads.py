"""Streams where a statement reads them: what it needs, what it sees, and that it consumes them.

A stream's name stands for a temporary view of DuckDB over the changes that the transaction sees. DML and CREATE TABLE
AS consume all of them when they commit, whatever their WHERE says; a query consumes none. Source:
https://docs.snowflake.com/en/user-guide/streams-intro (repeatable read isolation), sql-reference/constructs/changes,
sql-reference/functions/system_stream_has_data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sqlglot import Expr, exp

from firn_local.snowflake.change_tracking import retention, row_versions
from firn_local.snowflake.change_tracking.row_versions import Span
from firn_local.snowflake.change_tracking.stream_rows import Source
from firn_local.snowflake.change_tracking.stream_table import Stream
from firn_local.snowflake.change_tracking.tracked_tables import TrackedTable, identifier
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, requirements
from firn_local.snowflake.privileges.requirements import Need
from firn_local.snowflake.sql.sql_errors import LOCKED, compilation_error, missing, sql_error
from firn_local.snowflake.sql.statement import Kind, Statement
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.transactions.locks import Claim

T = TypeVar("T")
_IS_VIEW = "SELECT 1 FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND view_name = ?"
UNAVAILABLE = (707, "02000")
"""Time travel data is not available: also of what a stale stream would need."""


def read_by(session: Session, statement: Statement) -> list[Stream]:
    """The streams that a statement reads, by name."""
    streams = session.account.streams
    if not streams:
        return []
    found = {}
    for table in statement.expression.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not requirements.is_cte(table):
            stream = streams.named(statement.full_name(table))
            if stream is not None:
                found[stream.name] = stream
    return [found[name] for name in sorted(found)]


def consumed_by(session: Session, statement: Statement, kind: Kind) -> list[Stream]:
    """The streams that a statement consumes."""
    create = statement.expression
    fills = isinstance(create, exp.Create) and create.kind == "TABLE" and create.expression is not None
    return read_by(session, statement) if fills or kind in (Kind.APPEND, Kind.CHANGE) else []


def needs(session: Session, statement: Statement) -> list[Need]:
    """To read a stream is also to read its source: SELECT on both."""
    return [Need(("SELECT",), "TABLE", source_of(session, stream)) for stream in read_by(session, statement)]


def consume_beside(session: Session, streams: list[Stream], query_id: str, create: Callable[[], T]) -> T:
    """Run CREATE TABLE AS over streams, which move in the transaction that fills the table."""
    if not streams:
        return create()
    session.transactions.commit()
    claim = Claim(f"stream-{query_id}", query_id)
    try:
        for stream in streams:
            session.lock(stream.name, claim)
        with session.recorder.beside(stream.id for stream in streams):
            for stream in streams:
                session.recorder.consume(stream.id, stream.database)
            return create()
    finally:
        session.account.locks.release(claim.transaction)


def refuse_outrun(session: Session, streams: Iterable[Stream]) -> None:
    """A transaction that has read a stream may not consume what another one has consumed since."""
    for stream in streams:
        if session.recorder.is_outrun(stream.id):
            raise sql_error(
                LOCKED,
                f"Stream '{stream.name}' was consumed by another transaction after this one read it. "
                "Roll this one back and run it again.",
            )


def resolved(session: Session, expression: Expr) -> Expr:
    """The statement (changed in place) with DuckDB's views in the place of streams and CHANGES clauses."""
    statement = Statement("", expression, session.database, session.schema)
    for table in list(expression.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier) or requirements.is_cte(table):
            continue
        stream = session.account.streams.named(statement.full_name(table))
        if stream is not None:
            _point(session, table, f"_firn_stream_{stream.id}", changes(session, stream))
        elif table.args.get("changes") is not None:
            query = _changes_clause(session, statement, table)
            digest = hashlib.sha1(query.encode(), usedforsecurity=False).hexdigest()
            _point(session, table, f"_firn_changes_{digest}", query)
    return expression


def changes(session: Session, stream: Stream) -> str:
    """The query for what the open transaction, or a statement on its own, sees of a stream."""
    source = usable(session, stream)
    window = session.recorder.window(stream.id)
    if window.initial:
        columns = [identifier(c.name) for c in table_annotations.columns(session.duck, source.place)]
        return row_versions.as_inserts(stream.first_rows, columns)
    return source.changes(Span(window.since, window.until), append_only=stream.append_only)


def usable(session: Session, stream: Stream) -> Source:
    """The source of a stream that can be read: raises where it is stale, or its source is another one."""
    if (reason := broken(session, stream)) is not None:
        raise compilation_error(UNAVAILABLE, reason)
    if is_stale(session, stream):
        raise sql_error(
            UNAVAILABLE,
            f"Stream '{stream.name}' has become stale: time travel data is not available for its changes since "
            f"{stale_after(session, stream):%Y-%m-%d %H:%M:%S %z}. Create it again.",
        )
    return Source(session.duck, session.account.tracked, source_of(session, stream), stream.source_kind)


def source_of(session: Session, stream: Stream) -> str:
    """The full name of a stream's source, as a renamed table has it now."""
    table = session.account.tracked.of_id(stream.bases[0]) if stream.source_kind == "TABLE" else None
    return stream.source if table is None else table.full_name


def broken(session: Session, stream: Stream) -> str | None:
    """Why a stream can never be read again, or None."""
    tracked = session.account.tracked
    for number, name in zip(stream.bases, stream.base_names, strict=True):
        if tracked.of_id(number) is None:
            return f"Base table '{name}' dropped or no longer tracked, cannot read from stream '{stream.name}'."
    if stream.source_kind == "VIEW" and not table_annotations.columns(session.duck, _place(stream.source)):
        return f"View '{stream.source}' dropped, cannot read from stream '{stream.name}'."
    return None


def stale_after(session: Session, stream: Stream) -> datetime:
    """When its changes may be gone, unless it is consumed or found empty before."""
    tables = [table for number in stream.bases if (table := session.account.tracked.of_id(number))]
    kept = min((retention.kept_for(session.duck, table) for table in tables), default=timedelta())
    return session.account.streams.read_at(stream) + kept


def is_stale(session: Session, stream: Stream) -> bool:
    """Whether that time has passed."""
    return broken(session, stream) is not None or session.account.now() > stale_after(session, stream)


def has_data(session: Session, name: str) -> bool:
    """SYSTEM$STREAM_HAS_DATA. Looks at the changes of the tables, so what came and went counts."""
    stream = session.account.streams.named(session.full_name(name))
    if stream is None:
        raise missing("Stream", name)
    enforcement.demand(session, Need(("SELECT",), "STREAM", stream.name))
    usable(session, stream)
    window = session.recorder.window(stream.id)
    if window.initial:
        found = session.store.query(f"SELECT 1 FROM {stream.first_rows} LIMIT 1") != []  # noqa: S608
        return found or _any_change(session, stream, Span(window.since, window.until))
    if _any_change(session, stream, Span(window.since, window.until)):
        return True
    session.account.streams.found_empty(stream)
    return False


def _any_change(session: Session, stream: Stream, span: Span) -> bool:
    tables = [table for number in stream.bases if (table := session.account.tracked.of_id(number))]
    queries = [row_versions.any_change(table, span, only_added=stream.append_only) for table in tables]
    return any(session.store.query(query) for query in queries)


def version_at(session: Session, tables: list[TrackedTable], clause: exp.HistoricalData) -> int:
    """The version that AT or BEFORE names. Raises where a table was not tracked then."""
    kind, before = clause.text("kind").upper(), clause.text("this").upper() == "BEFORE"
    if kind == "STREAM":
        stream = session.account.streams.named(session.full_name(clause.expression.name))
        if stream is None:
            raise missing("Stream", clause.expression.name)
        version = session.account.streams.offset(stream.id).version
        for table in tables:
            _require_versions(table, there=table.since <= version)
        return version
    if kind not in {"TIMESTAMP", "OFFSET"}:
        raise compilation_error((2, "0A000"), f"Unsupported feature 'AT({kind} => ...)' (local Snowflake).")
    moment = _moment(session, clause.expression, is_offset=kind == "OFFSET")
    if before:
        moment -= timedelta(microseconds=1)
    for table in tables:
        _require_versions(table, there=table.since_moment <= moment)
    return max(max(table.since, session.account.versions.at(table.place[0], moment)) for table in tables)


def _require_versions(table: TrackedTable, *, there: bool) -> None:
    if not there:
        raise sql_error(
            UNAVAILABLE,
            f"Time travel data is not available for table {table.full_name}. The requested time is either beyond the "
            "allowed time travel period or before change tracking was enabled.",
        )


def _moment(session: Session, value: Expr, *, is_offset: bool) -> datetime:
    sql = value.sql(dialect="duckdb")
    if is_offset:
        seconds = session.store.query(f"SELECT ({sql})::DOUBLE")[0][0]
        return session.account.now() + timedelta(seconds=seconds)
    moment: datetime = session.store.query(f"SELECT ({sql})::TIMESTAMPTZ")[0][0]
    return moment.astimezone(UTC)


def _changes_clause(session: Session, statement: Statement, table: exp.Table) -> str:
    clause = table.args["changes"]
    name = statement.full_name(table)
    is_view = session.duck.execute(_IS_VIEW, name.split(".", 2)).fetchall() != []
    source = Source(session.duck, session.account.tracked, name, "VIEW" if is_view else "TABLE")
    tables = tracked_bases(session, source, name)
    until = session.account.versions.now()
    if (end := clause.args.get("end")) is not None:
        until = version_at(session, tables, end)
    since = version_at(session, tables, clause.args["at_before"])
    table.set("changes", None)
    return source.changes(Span(since, until), append_only=clause.text("information").upper() == "APPEND_ONLY")


def tracked_bases(session: Session, source: Source, name: str) -> list[TrackedTable]:
    """The tracked tables under a source. Raises where one is not tracked."""
    found = []
    for place in source.base_places():
        table = session.account.tracked.named(".".join(place))
        if table is None:
            raise compilation_error(
                UNAVAILABLE,
                f"Change tracking is not enabled or has been missing for the time range requested on '{name}'.",
            )
        found.append(table)
    return found


def _point(session: Session, table: exp.Table, name: str, query: str) -> None:
    session.duck.execute(f"CREATE OR REPLACE TEMP VIEW {identifier(name)} AS {query}")
    if not table.alias:
        table.set("alias", exp.TableAlias(this=table.this.copy()))
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", exp.to_identifier("main", quoted=True))
    table.set("catalog", exp.to_identifier("temp", quoted=True))


def _place(full_name: str) -> table_annotations.Place:
    return table_annotations.place_of(full_name, frozenset())
