"""FIRN_SINKS and FIRN_REQUESTS in the local Snowflake: what is wanted and what was seen, and one row a sink each."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from snowflake.connector import SnowflakeConnection

from firn.errors import TerminalError
from firn.ledger.control import ControlTable, read_all
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query
from firn.snowflake.identifiers import Namespace
from tests.support.sinks import login_of
from tests.support.snowflake import schema_of_its_own


@pytest.fixture(scope="module")
def schema(stack) -> Iterator[str]:
    with schema_of_its_own(stack.settings, "CONTROL") as name:
        yield name


@pytest.fixture
def login(stack, schema: str) -> SnowflakeLogin:
    return replace(login_of(stack.settings), schema=schema)


@pytest.fixture
def namespace(login: SnowflakeLogin) -> Namespace:
    return Namespace(login.database, login.schema)


@pytest.fixture
def connection(login: SnowflakeLogin) -> Iterator[SnowflakeConnection]:
    with connect(login) as opened:
        yield opened


@pytest.fixture
def sink() -> str:
    return f"s_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def records(connection: SnowflakeConnection, namespace: Namespace, sink: str) -> ControlTable:
    made = ControlTable(namespace, sink)
    made.ensure(connection)
    return made


@pytest.mark.stack
def test_before_anybody_made_the_table_there_is_nothing(connection, login, stack) -> None:
    with schema_of_its_own(stack.settings, "EMPTY") as name:
        empty = Namespace(login.database, name)
        assert ControlTable(empty, "orders").read(connection) is None
        assert read_all(connection, empty) == []


@pytest.mark.stack
def test_what_is_wanted_is_kept_apart_from_what_was_seen(connection, records, sink) -> None:
    assert records.read(connection) is None
    records.request(connection, DesiredState.PAUSED, "anna@laptop")
    desired = records.read(connection)
    assert (desired.sink, desired.desired, desired.desired_by) == (sink, DesiredState.PAUSED, "anna@laptop")
    assert (desired.state, desired.updated_at, desired.silent_seconds) == (State.STOPPED, None, None)
    assert records.read_request(connection).at == desired.desired_at
    assert datetime.now(UTC) - desired.desired_at < timedelta(minutes=1)

    records.report(connection, State.FAILED, reason="it's over", next_step="do so", stats={"restarts": 3})
    seen = records.read(connection)
    assert (seen.desired, seen.desired_by, seen.desired_at) == (DesiredState.PAUSED, "anna@laptop", desired.desired_at)
    assert (seen.state, seen.reason, seen.next_step) == (State.FAILED, "it's over", "do so")
    assert seen.stats == {"restarts": 3, "host": socket.gethostname(), "pid": os.getpid()}
    assert seen.updated_at is not None
    assert 0 <= seen.silent_seconds < 60


@pytest.mark.stack
def test_what_is_wanted_is_read_by_one_text_that_names_the_sink_and_no_moment(login, connection, namespace) -> None:
    """Else Snowflake could not answer it from its result cache, and every look would need a warehouse."""
    odd = f"it's a \\ sink {uuid.uuid4().hex[:8]}"
    records = ControlTable(namespace, odd)
    records.ensure(connection)
    records.request(connection, DesiredState.PAUSED, "anna")
    records.report(connection, State.PAUSED)
    texts: list[str] = []

    class Recording:
        role = connection.role

        def cursor(self, *args: object) -> object:
            cursor = connection.cursor(*args)
            execute = cursor.execute

            def recorded(text: str, values: object = None, **more: object) -> object:
                assert not values
                texts.append(text)
                return execute(text, values, **more)

            cursor.execute = recorded
            return cursor

    for _ in range(2):
        assert records.read(Recording()).desired is DesiredState.PAUSED
    assert texts[:2] == texts[2:]
    assert not any(word in text for text in texts for word in ("SYSDATE", "CURRENT_", "?"))


@pytest.mark.stack
def test_a_clean_leaves_what_a_start_must_know(connection, namespace) -> None:
    def left(desired: DesiredState | None, state: State) -> tuple[bool, bool]:
        sink = f"s_{uuid.uuid4().hex[:8]}"
        records = ControlTable(namespace, sink)
        records.ensure(connection)
        if desired:
            records.request(connection, desired, "anna")
        records.report(connection, state)
        records.remove(connection)
        found = records.read(connection)
        return records.read_request(connection) is not None, bool(found and found.updated_at)

    assert left(DesiredState.RUNNING, State.RUNNING) == (False, False)
    assert left(DesiredState.PAUSED, State.PAUSED) == (True, False)
    assert left(None, State.FAILED) == (False, True)


@pytest.mark.stack
def test_a_state_began_when_it_changed_not_when_it_was_said_again(connection, records) -> None:
    records.report(connection, State.RUNNING)
    first = records.read(connection)
    records.report(connection, State.RUNNING, stats={"tasks": 2})
    again = records.read(connection)
    assert again.since == first.since
    assert again.updated_at > first.updated_at
    records.report(connection, State.STALLED, reason="no offset moved")
    stalled = records.read(connection)
    assert stalled.since > first.since
    records.report(connection, State.RUNNING)
    assert records.read(connection).reason == ""


@pytest.mark.stack
def test_the_first_state_a_supervisor_sees_begins_when_it_says_so(connection, records) -> None:
    records.request(connection, DesiredState.STOPPED, "anna")
    asked = records.read(connection)
    records.report(connection, State.STOPPED)
    assert records.read(connection).since > asked.desired_at


@pytest.mark.stack
def test_a_failure_stands_until_somebody_asks_for_something(connection, records) -> None:
    records.report(connection, State.FAILED, reason="fenced")
    assert records.read(connection).failed
    records.request(connection, DesiredState.RUNNING, "anna")
    assert not records.read(connection).failed
    records.report(connection, State.STARTING)
    records.report(connection, State.FAILED, reason="fenced")
    assert records.read(connection).failed


@pytest.mark.stack
def test_many_first_writers_at_once_make_one_table_and_one_row_a_sink(login, namespace) -> None:
    """Twice two sinks, each written first by four at the same time: the table is new as well."""
    tables = [namespace.qualified(name) for name in ("FIRN_SINKS", "FIRN_REQUESTS")]
    with connect(login) as own:
        for table in tables:
            execute(own, f"DROP TABLE IF EXISTS {table}")
    together = threading.Barrier(8)

    def write(number: int) -> None:
        with connect(login) as own:
            mine = ControlTable(namespace, f"sink_{number % 2}")
            together.wait(30)
            mine.ensure(own)
            if number < 4:
                mine.request(own, DesiredState.PAUSED, f"writer {number}")
            else:
                mine.report(own, State.RUNNING, stats={"writer": number})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    with connect(login) as own:
        for table in tables:
            rows = query(own, f"SELECT SINK, COUNT(*) AS N FROM {table} GROUP BY SINK")
            assert {row["SINK"]: row["N"] for row in rows} == {"": 1, "sink_0": 1, "sink_1": 1}
        found = read_all(own, namespace)
    assert [(each.sink, each.desired, each.state) for each in found] == [
        ("sink_0", DesiredState.PAUSED, State.RUNNING),
        ("sink_1", DesiredState.PAUSED, State.RUNNING),
    ]


@pytest.mark.stack
def test_a_table_without_its_lock_row_is_refused(connection, login, stack) -> None:
    with schema_of_its_own(stack.settings, "NOLOCK") as name:
        other = Namespace(login.database, name)
        records = ControlTable(other, "orders")
        records.ensure(connection)
        for table, write in (
            ("FIRN_SINKS", lambda: records.report(connection, State.RUNNING)),
            ("FIRN_REQUESTS", lambda: records.request(connection, DesiredState.PAUSED, "anna")),
        ):
            execute(connection, f"DELETE FROM {other.qualified(table)} WHERE SINK = ''")
            with pytest.raises(TerminalError, match=rf"{table}.* has no lock row"):
                write()


@pytest.mark.stack
def test_words_of_another_version_and_broken_numbers_do_not_break_a_look(connection, namespace, records, sink) -> None:
    records.report(connection, State.RUNNING, stats={"tasks": 1})
    table = namespace.qualified("FIRN_SINKS")
    execute(connection, f"UPDATE {table} SET STATE = 'resting', STATS = 'oops' WHERE SINK = '{sink}'")
    records.request(connection, DesiredState.PAUSED, "anna")
    execute(connection, f"UPDATE {namespace.qualified('FIRN_REQUESTS')} SET WANTED = 'sleep' WHERE SINK = '{sink}'")
    found = records.read(connection)
    assert (found.state, found.desired, found.stats) == (State.STOPPED, DesiredState.RUNNING, {})


def test_a_failure_that_nobody_answered_stands() -> None:
    now = datetime.now(UTC)
    assert ControlRecord("s", state=State.FAILED, since=now).failed
    assert not ControlRecord("s", state=State.STALLED, since=now).failed
