"""STREAM objects: CREATE, ALTER, DROP, SHOW and DESCRIBE. What they return is in `change_tracking`.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-stream, alter-stream, drop-stream, show-streams,
desc-stream. The first stream on a table makes its changes be tracked; on a view, those of its tables, as far as the
role owns them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fakesnow.dialect import parse_one
from sqlglot import exp

from firn_local.snowflake.change_tracking import retention
from firn_local.snowflake.change_tracking.stream_rows import Source
from firn_local.snowflake.change_tracking.stream_table import Stream, new_id
from firn_local.snowflake.change_tracking.tracked_tables import TrackedTable
from firn_local.snowflake.engine import named_objects, stream_reads
from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, ownership
from firn_local.snowflake.privileges.requirements import Need
from firn_local.snowflake.sql.full_names import around, own_name
from firn_local.snowflake.sql.result_set import TEXT, TIME, ResultSet
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error, duplicate, missing, unsupported
from firn_local.snowflake.sql.tokenizer import Tokenizer
from firn_local.snowflake.transactions.locks import Claim, columns_of

_COLUMNS = [
    ("created_on", TIME), ("name", TEXT), ("database_name", TEXT), ("schema_name", TEXT), ("owner", TEXT),
    ("comment", TEXT), ("table_name", TEXT), ("source_type", TEXT), ("base_tables", TEXT), ("type", TEXT),
    ("stale", TEXT), ("mode", TEXT), ("stale_after", TIME), ("invalid_reason", TEXT), ("owner_role_type", TEXT),
]  # fmt: skip
_TERSE = [
    ("created_on", TIME), ("name", TEXT), ("kind", TEXT), ("database_name", TEXT), ("schema_name", TEXT),
    ("tableOn", TEXT),
]  # fmt: skip
_RELATION = """
SELECT 'TABLE' FROM duckdb_tables() WHERE database_name = $1 AND schema_name = $2 AND table_name = $3
UNION ALL SELECT 'VIEW' FROM duckdb_views() WHERE database_name = $1 AND schema_name = $2 AND view_name = $3
"""


@dataclass(frozen=True)
class _Wanted:
    """What CREATE STREAM says: full names."""

    name: str
    replace: bool
    if_absent: bool
    copy_grants: bool
    source_kind: str
    source: str
    since: exp.HistoricalData | None
    options: dict[str, Any]


def _create(session: Session, sql: str) -> ResultSet:
    wanted = _parsed(session, sql)
    enforcement.demand(session, Need(("CREATE STREAM",), "SCHEMA", around(wanted.name)))
    session.transactions.commit()
    with _locked(session, wanted), session.ddl():
        answer = _create_inside(session, wanted)
    session.account.commits.record([wanted.name])
    return answer


@contextmanager
def _locked(session: Session, wanted: _Wanted) -> Iterator[None]:
    """Hold the locks of tables whose changes were not tracked before: nobody is halfway through changing them."""
    claim = Claim(f"tracking-{session.id}-{wanted.name}", "")
    try:
        if wanted.source_kind != "STREAM":
            source = Source(session.duck, session.account.tracked, wanted.source, wanted.source_kind)
            names = [".".join(place) for place in source.base_places()]
            for name in sorted(name for name in names if session.account.tracked.named(name) is None):
                session.lock(name, claim)
        yield
    finally:
        session.account.locks.release(claim.transaction)


def _create_inside(session: Session, wanted: _Wanted) -> ResultSet:
    streams, short = session.account.streams, own_name(wanted.name)
    old = streams.named(wanted.name)
    _refuse_what_is_there(session, wanted, old)
    if old is not None and wanted.if_absent:
        return ResultSet.status(f"{short} already exists, statement succeeded.")
    made = _clone(session, wanted) if wanted.source_kind == "STREAM" else _made(session, wanted)
    if old is not None:
        streams.remove(old)
    streams.keep(made)
    if wanted.source_kind == "STREAM":
        streams.copy_offset(_require(session, wanted.source), made)
    forget = old is not None and not wanted.copy_grants
    ownership.record_owner(session.role_grants, session.role, "STREAM", wanted.name, replaced=forget)
    return ResultSet.status(f"Stream {short} successfully created.")


def _parsed(session: Session, sql: str) -> _Wanted:
    tokens = Tokenizer(sql)
    tokens.expect("CREATE")
    or_replace = tokens.skip("OR", "REPLACE")
    tokens.expect("STREAM")
    if_absent = tokens.skip("IF", "NOT", "EXISTS")
    name = session.full_name(tokens.name())
    copy_grants = tokens.skip("COPY", "GRANTS")
    if tokens.skip("CLONE"):
        source = session.full_name(tokens.name())
        return _Wanted(name, or_replace, if_absent, tokens.skip("COPY", "GRANTS"), "STREAM", source, None, {})
    tokens.expect("ON")
    kind = tokens.peek()
    if kind not in {"TABLE", "VIEW"}:
        raise unsupported(sql, "streams are on tables and views")
    tokens.expect(kind)
    source = session.full_name(tokens.name())
    since = _historical(tokens.clause()) if tokens.peek() in {"AT", "BEFORE"} else None
    options = tokens.properties()
    if options.get("INSERT_ONLY") is True:
        raise compilation_error(
            SYNTAX, f"INSERT_ONLY streams are on external tables, not on {kind.lower()} '{source}'."
        )
    return _Wanted(name, or_replace, if_absent, copy_grants, kind, source, since, options)


def _historical(clause: str) -> exp.HistoricalData:
    found = parse_one(f"SELECT * FROM T {clause}").find(exp.HistoricalData)  # noqa: S608  (parsed only)
    if found is None:
        raise compilation_error(SYNTAX, f"syntax error in '{clause}'.")
    return found


def _refuse_what_is_there(session: Session, wanted: _Wanted, old: Stream | None) -> None:
    """A stream shares its name with no other stream, table or view."""
    if old is None:
        if session.store.query(_RELATION, wanted.name.split(".", 2)):
            raise duplicate(own_name(wanted.name))
        return
    enforcement.refuse_unseen(session, "STREAM", wanted.name)
    if wanted.replace:
        enforcement.demand(session, Need(("OWNERSHIP",), "STREAM", wanted.name))
    elif not wanted.if_absent:
        raise duplicate(own_name(wanted.name))


def _made(session: Session, wanted: _Wanted) -> Stream:
    """The stream, at the version of now or of then; its tables are tracked from here."""
    account = session.account
    enforcement.demand(session, Need(("SELECT",), "TABLE", wanted.source))
    kinds = [row[0] for row in session.store.query(_RELATION, wanted.source.split(".", 2))]
    if wanted.source_kind not in kinds:
        raise missing(wanted.source_kind.capitalize(), wanted.source)
    append_only, initial = (wanted.options.get(word) is True for word in ("APPEND_ONLY", "SHOW_INITIAL_ROWS"))
    with session.store.duck_conn.cursor() as conn:
        source = Source(conn, account.tracked, wanted.source, wanted.source_kind)
        source.check(append_only=append_only)
        bases = _track(session, source)
        with account.versions.lock:
            version = account.versions.now()
            if wanted.since is not None:
                version = stream_reads.version_at(session, bases, wanted.since)
            now = account.now().isoformat()
            stream = Stream(
                new_id(), wanted.name, wanted.source, wanted.source_kind, [t.id for t in bases],
                [t.full_name for t in bases], append_only, initial, version, now, now,
                str(wanted.options.get("COMMENT", "")),
            )  # fmt: skip
            if initial:
                conn.execute(f"CREATE TABLE {stream.first_rows} AS {source.at(version)}")
    return stream


def _track(session: Session, source: Source) -> list[TrackedTable]:
    """The tracked tables under a stream. Its own role must own those whose changes were not tracked before."""
    tracked = session.account.tracked
    found = []
    for place in source.base_places():
        name = ".".join(place)
        if tracked.named(name) is None:
            enforcement.demand(session, Need(("OWNERSHIP",), "TABLE", name))
            tracked.enable(name, session.account.now())
            session.account.commits.record(columns_of([name]))
        table = tracked.named(name)
        if table is not None:
            found.append(table)
    return found


def _clone(session: Session, wanted: _Wanted) -> Stream:
    source = _require(session, wanted.source)
    enforcement.demand(session, Need(("SELECT",), "STREAM", source.name))
    if source.initial and session.account.streams.offset(source.id).initial:
        raise unsupported("CREATE STREAM ... CLONE", "the source still has its initial rows")
    now = session.account.now().isoformat()
    return replace(source, id=new_id(), name=wanted.name, created_at=now, initial=False)


def _alter(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("ALTER", "STREAM")
    if_exists = tokens.skip("IF", "EXISTS")
    name = session.full_name(tokens.name())
    if if_exists and session.account.streams.named(name) is None:
        return ResultSet.status()
    enforcement.demand(session, Need(("OWNERSHIP",), "STREAM", name))
    stream = _require(session, name)
    with session.ddl():
        if tokens.skip("UNSET", "COMMENT"):
            comment = ""
        else:
            tokens.expect("SET")
            options = tokens.properties()
            if set(options) != {"COMMENT"}:
                raise unsupported(sql)
            comment = str(options["COMMENT"])
        session.account.streams.keep(replace(stream, comment=comment))
    return ResultSet.status()


def _drop(session: Session, sql: str) -> ResultSet:
    return named_objects.dropped(session, sql, "STREAM", _find, _remove)


def _remove(session: Session, _: str, stream: Stream) -> None:
    account = session.account
    account.streams.remove(stream)
    retention.forget_old_changes(account.tracked, account.streams)


def _show(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("SHOW")
    terse = tokens.skip("TERSE")
    tokens.expect("STREAMS")
    like = tokens.like()
    scope = session.scope(tokens)
    begins = tokens.literal() if tokens.skip("STARTS", "WITH") else ""
    streams = [stream for stream in session.account.streams.all() if stream.name.startswith(scope)]
    seen = enforcement.visible(session, "STREAM", [stream.name for stream in streams])
    listed = []
    for stream in streams:
        short = stream.name.split(".", 2)[2]
        if stream.name in seen and short.startswith(begins) and (like is None or like.fullmatch(short)):
            listed.append(_row(session, stream))
    if tokens.skip("LIMIT"):
        listed = listed[: int(tokens.name())]
    if terse:
        return ResultSet(_TERSE, [(row[0], row[1], row[9], row[2], row[3], row[6]) for row in listed])
    return ResultSet(_COLUMNS, listed)


def _describe(session: Session, sql: str) -> ResultSet:
    return ResultSet(_COLUMNS, [_row(session, named_objects.described(session, sql, "STREAM", _find))])


def _find(session: Session, name: str) -> Stream | None:
    return session.account.streams.named(name)


def _require(session: Session, name: str) -> Stream:
    return named_objects.required("STREAM", name, _find(session, name))


def _row(session: Session, stream: Stream) -> tuple[Any, ...]:
    database, schema, name = stream.name.split(".", 2)
    owner = session.role_grants.now().owner("STREAM", stream.name)
    tracked = session.account.tracked
    reason = stream_reads.broken(session, stream)
    names = [
        table.full_name if (table := tracked.of_id(number)) is not None else old
        for number, old in zip(stream.bases, stream.base_names, strict=True)
    ]
    return (
        datetime.fromisoformat(stream.created_at), name, database, schema, owner, stream.comment,
        stream_reads.source_of(session, stream), stream.source_kind.capitalize(),
        ", ".join(names), "DELTA", str(stream_reads.is_stale(session, stream)).lower(),
        "APPEND_ONLY" if stream.append_only else "DEFAULT",
        None if reason else stream_reads.stale_after(session, stream), reason or "N/A", "ROLE",
    )  # fmt: skip


FAMILY = Family(
    commands={
        ("CREATE", "STREAM"): _create,
        ("CREATE", "OR", "REPLACE", "STREAM"): _create,
        ("ALTER", "STREAM"): _alter,
        ("DROP", "STREAM"): _drop,
        ("SHOW", "STREAMS"): _show,
        ("SHOW", "TERSE", "STREAMS"): _show,
        ("DESC", "STREAM"): _describe,
        ("DESCRIBE", "STREAM"): _describe,
    }
)
