"""Whatever DML runs, a stream returns the difference of two snapshots of its table, and a row keeps its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

VALUES = st.integers(0, 3)
"""Few, so that rows are often equal."""
KEYS = st.integers(0, 12)
ROWS = st.lists(VALUES, min_size=1, max_size=4)


@dataclass(frozen=True)
class Dml:
    """A statement; `{k}` is a number that no row has yet."""

    sql: str


def _insert(values: list[int]) -> Dml:
    return Dml("INSERT INTO T (V) SELECT * FROM VALUES " + ", ".join(f"({v})" for v in values))


def _merge(arguments: tuple[int, int, int]) -> Dml:
    low, value, added = arguments
    return Dml(
        f"MERGE INTO T USING (SELECT DISTINCT K FROM T WHERE K < {low} UNION ALL SELECT -1) S ON T.K = S.K "
        f"WHEN MATCHED AND T.V = {value} THEN DELETE WHEN MATCHED THEN UPDATE SET V = {value} "
        f"WHEN NOT MATCHED THEN INSERT (V) VALUES ({added})"
    )


STATEMENTS = st.one_of(
    ROWS.map(_insert),
    st.tuples(VALUES, VALUES).map(lambda v: Dml(f"UPDATE T SET V = {v[0]} WHERE V = {v[1]}")),
    st.tuples(VALUES, KEYS).map(lambda v: Dml(f"UPDATE T AS X SET V = X.V + {v[0]} WHERE X.K >= {v[1]}")),
    st.tuples(VALUES, VALUES).map(
        lambda v: Dml(f"UPDATE T SET V = S.N FROM (SELECT {v[0]} AS N, {v[1]} AS O) S WHERE T.V = S.O")
    ),
    VALUES.map(lambda v: Dml(f"DELETE FROM T WHERE V = {v}")),
    KEYS.map(lambda k: Dml(f"DELETE FROM T USING (SELECT {k} AS A) S WHERE T.K = S.A")),
    st.tuples(KEYS, VALUES, VALUES).map(_merge),
    st.just(Dml("TRUNCATE TABLE T")),
    ROWS.map(lambda values: Dml(f"INSERT OVERWRITE INTO T (V) SELECT {values[0]}")),
    st.just(Dml("INSERT INTO T (V) SELECT V FROM T WHERE V > 1")),
    st.just(Dml("UPDATE T SET V = V")),
    st.just(Dml("DELETE FROM T WHERE K IN (SELECT K FROM T ORDER BY K LIMIT 1)")),
    st.just(Dml("INSERT INTO T (V) VALUES ('no number')")),
)
ENDS = st.sampled_from(["COMMIT", "COMMIT", "ROLLBACK"])
TRANSACTIONS = st.lists(
    st.one_of(STATEMENTS, st.tuples(st.lists(STATEMENTS, min_size=1, max_size=4), ENDS)), min_size=1, max_size=5
)
ROUNDS = st.lists(st.tuples(TRANSACTIONS, st.booleans()), min_size=1, max_size=4)


@dataclass
class Reader:
    """A stream and the snapshot where it stands."""

    name: str
    then: Counter[tuple[Any, ...]]
    ids: dict[int, str] = field(default_factory=dict)


def snapshot(connection: Connection, source: str = "T") -> Counter[tuple[Any, ...]]:
    return Counter(run(connection, f"SELECT K, V FROM {source}"))


def check(connection: Connection, reader: Reader) -> None:
    """What the stream returns against the difference of snapshots."""
    now = snapshot(connection)
    changes = run(connection, f"SELECT K, V, METADATA$ACTION, METADATA$ISUPDATE, METADATA$ROW_ID FROM {reader.name}")
    gone = Counter((k, v) for k, v, action, _, _ in changes if action == "DELETE")
    came = Counter((k, v) for k, v, action, _, _ in changes if action == "INSERT")
    assert gone == reader.then - now
    assert came == now - reader.then
    actions = Counter(change[4] for change in changes)
    assert all(updated is (actions[row] == 2) for _, _, _, updated, row in changes)
    for k, _, _, _, row in changes:  # K names a row for good
        assert reader.ids.setdefault(k, row) == row
    has_data = run(connection, f"SELECT SYSTEM$STREAM_HAS_DATA('{reader.name}')")
    assert not changes or has_data == [(True,)]


def perform(connection: Connection, transaction: Dml | tuple[list[Dml], str]) -> None:
    statements, end = ([transaction], None) if isinstance(transaction, Dml) else transaction
    if end is not None:
        run(connection, "BEGIN")
    for statement in statements:
        try:
            run(connection, statement.sql)
        except ProgrammingError as error:  # a failed statement leaves its transaction open
            assert "no number" in statement.sql, error  # noqa: PT017
    if end is not None:
        run(connection, end)


@pytest.fixture(scope="module")
def connection(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


@pytest.mark.parametrize("key", ["K INT IDENTITY", "K INT IDENTITY PRIMARY KEY"])
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(before=TRANSACTIONS, rounds=ROUNDS)
def test_a_stream_is_the_difference_of_two_snapshots(
    connection: Connection, key: str, before: list[Any], rounds: list[Any]
) -> None:
    run(connection, f"CREATE OR REPLACE TABLE T ({key}, V INT)")
    run(connection, "CREATE OR REPLACE TABLE SINK (K INT)")
    for transaction in before:
        perform(connection, transaction)
    then = snapshot(connection)
    run(connection, "CREATE OR REPLACE STREAM KEPT ON TABLE T")
    run(connection, "CREATE OR REPLACE STREAM MOVED ON TABLE T")
    ids: dict[int, str] = {}
    kept, moved = Reader("KEPT", then, ids), Reader("MOVED", then, ids)
    for transactions, consumes in rounds:
        for transaction in transactions:
            perform(connection, transaction)
        check(connection, kept)
        check(connection, moved)
        if consumes:
            run(connection, "INSERT INTO SINK SELECT K FROM MOVED WHERE 1 = 0")
            moved.then = snapshot(connection)


OTHER = st.one_of(
    VALUES.map(lambda v: Dml(f"INSERT INTO N VALUES ({v})")),
    VALUES.map(lambda v: Dml(f"DELETE FROM N WHERE V = {v}")),
    st.tuples(VALUES, VALUES).map(lambda v: Dml(f"UPDATE N SET V = {v[0]} WHERE V = {v[1]}")),
)
BOTH = st.lists(
    st.one_of(STATEMENTS, OTHER, st.tuples(st.lists(st.one_of(STATEMENTS, OTHER), min_size=1, max_size=3), ENDS)),
    min_size=1,
    max_size=5,
)
VIEWS = {
    "FILTERED": "SELECT K, V * 2 AS V FROM T WHERE V BETWEEN 1 AND 2",
    "JOINED": "SELECT T.K, N.V FROM T JOIN N ON T.V >= N.V WHERE T.K > 1",
    "UNITED": "SELECT K, V FROM T WHERE V > 1 UNION ALL SELECT V AS K, V FROM N",
    "NESTED": "WITH X AS (SELECT * FROM FILTERED) SELECT X.K, J.V FROM X, (SELECT * FROM JOINED WHERE V < 3) J "
    "WHERE J.K = X.K",
}


@pytest.mark.full
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(before=BOTH, rounds=st.lists(st.tuples(BOTH, st.sampled_from(sorted(VIEWS))), min_size=1, max_size=3))
def test_a_stream_on_a_view_is_the_difference_of_two_of_its_results(
    connection: Connection, before: list[Any], rounds: list[Any]
) -> None:
    for statement in ("TABLE T (K INT IDENTITY, V INT)", "TABLE N (V INT)", "TABLE SINK (K INT)"):
        run(connection, f"CREATE OR REPLACE {statement}")
    for name, query in VIEWS.items():
        run(connection, f"CREATE OR REPLACE VIEW {name} AS {query}")
    for transaction in before:
        perform(connection, transaction)
    then = {name: snapshot(connection, name) for name in VIEWS}
    for name in VIEWS:
        run(connection, f"CREATE OR REPLACE STREAM OF_{name} ON VIEW {name}")
    for transactions, consumed in rounds:
        for transaction in transactions:
            perform(connection, transaction)
        for name in VIEWS:
            now = snapshot(connection, name)
            found = run(connection, f"SELECT K, V, METADATA$ACTION, METADATA$ISUPDATE, METADATA$ROW_ID FROM OF_{name}")
            net = Counter((k, v) for k, v, action, _, _ in found if action == "INSERT")
            net.subtract(Counter((k, v) for k, v, action, _, _ in found if action == "DELETE"))
            expected = Counter(now)
            expected.subtract(then[name])
            assert {row: n for row, n in net.items() if n} == {row: n for row, n in expected.items() if n}, name
            actions = Counter((change[4], change[2]) for change in found)
            assert set(actions.values()) <= {1}
            assert all(
                updated is ((row, "INSERT") in actions and (row, "DELETE") in actions) for *_, updated, row in found
            )
        run(connection, f"INSERT INTO SINK SELECT K FROM OF_{consumed}")
        then[consumed] = snapshot(connection, consumed)
