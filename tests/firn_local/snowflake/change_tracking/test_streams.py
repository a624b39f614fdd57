"""Streams as one and two sessions see them: what they return, when they move, when they break."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from snowflake.connector.errors import ProgrammingError

from firn_local.snowflake.metering.meter import FastClock
from tests.firn_local.snowflake.in_process import Connection, InProcess, Rows, run, write_parquet

DAY = 24 * 3600
_schemas = itertools.count()


@pytest.fixture(scope="module")
def clock() -> FastClock:
    return FastClock()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, clock: FastClock) -> Iterator[InProcess]:
    server = InProcess(tmp_path_factory.mktemp("snowflake") / "data", clock=clock)
    with server.connect(database=None, schema=None) as connection:
        run(connection, "CREATE DATABASE STREAMING")
    yield server
    server.stop()


@pytest.fixture
def connect(server: InProcess) -> Iterator[Callable[[], Connection]]:
    """Sessions in a schema of the test's own."""
    schema = f"S{next(_schemas)}"
    with server.connect() as connection:
        run(connection, f"CREATE SCHEMA {schema}")
    opened: list[Connection] = []

    def connect() -> Connection:
        opened.append(server.connect(schema=schema))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def a(connect: Callable[[], Connection]) -> Connection:
    connection = connect()
    run(connection, "CREATE TABLE T (ID INT, V VARCHAR)")
    run(connection, "INSERT INTO T VALUES (1, 'one'), (2, 'two')")
    run(connection, "CREATE TABLE SINK (ID INT, V VARCHAR)")
    return connection


@pytest.fixture
def b(connect: Callable[[], Connection]) -> Connection:
    return connect()


def changes(connection: Connection, stream: str = "S") -> Rows:
    return run(connection, f"SELECT ID, V, METADATA$ACTION, METADATA$ISUPDATE FROM {stream} ORDER BY 1, 3, 2")


def has_data(connection: Connection, stream: str = "S") -> bool:
    return bool(run(connection, f"SELECT SYSTEM$STREAM_HAS_DATA('{stream}')")[0][0])


def shown(connection: Connection, stream: str = "S") -> dict[str, Any]:
    with connection.cursor() as cursor:
        rows = cursor.execute(f"SHOW STREAMS LIKE '{stream}'").fetchall()
        (row,) = rows
        return dict(zip((column.name for column in cursor.description), row, strict=True))


def consume(connection: Connection, stream: str = "S") -> None:
    run(connection, f"INSERT INTO SINK SELECT ID, V FROM {stream}")


# What a stream returns


def test_inserts_updates_and_deletes_since_the_offset(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    assert changes(a) == []
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "UPDATE T SET V = 'ONE' WHERE ID = 1")
    run(a, "DELETE FROM T WHERE ID = 2")
    assert changes(a) == [
        (1, "one", "DELETE", True),
        (1, "ONE", "INSERT", True),
        (2, "two", "DELETE", False),
        (3, "three", "INSERT", False),
    ]


def test_only_the_net_change_counts(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "UPDATE T SET V = 'THREE' WHERE ID = 3")
    run(a, "UPDATE T SET V = 'x' WHERE ID = 1")
    run(a, "UPDATE T SET V = 'one' WHERE ID = 1")
    run(a, "INSERT INTO T VALUES (4, 'gone')")
    run(a, "DELETE FROM T WHERE ID = 4")
    assert changes(a) == [(3, "THREE", "INSERT", False)]


def test_an_append_only_stream_returns_every_insert_as_it_came(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T APPEND_ONLY = TRUE")
    run(a, "INSERT INTO T VALUES (3, 'three'), (4, 'four')")
    run(a, "UPDATE T SET V = 'x'")
    run(a, "DELETE FROM T")
    assert changes(a) == [(3, "three", "INSERT", False), (4, "four", "INSERT", False)]
    assert shown(a)["mode"] == "APPEND_ONLY"


def test_an_append_only_stream_has_no_data_after_updates(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T APPEND_ONLY = TRUE")
    run(a, "UPDATE T SET V = 'x'")
    assert not has_data(a)


def test_first_only_the_rows_of_its_beginning_then_the_changes(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T SHOW_INITIAL_ROWS = TRUE")
    run(a, "UPDATE T SET V = 'ONE' WHERE ID = 1")
    assert changes(a) == [(1, "one", "INSERT", False), (2, "two", "INSERT", False)]
    assert has_data(a)
    consume(a)
    assert changes(a) == [(1, "one", "DELETE", True), (1, "ONE", "INSERT", True)]


def test_a_row_keeps_its_id_over_updates_of_its_key_and_consumption(a: Connection) -> None:
    run(a, "CREATE TABLE P (ID INT PRIMARY KEY, V VARCHAR)")
    run(a, "INSERT INTO P VALUES (1, 'one'), (2, 'two')")
    run(a, "CREATE STREAM S ON TABLE P SHOW_INITIAL_ROWS = TRUE")
    ids = dict(run(a, "SELECT V, METADATA$ROW_ID FROM S"))
    assert len(set(ids.values())) == 2
    consume(a)
    run(a, "UPDATE P SET ID = ID + 1 WHERE ID = 2")
    run(a, "UPDATE P SET ID = CASE ID WHEN 1 THEN 3 ELSE 1 END")  # keys that other rows had
    assert dict(run(a, "SELECT V, METADATA$ROW_ID FROM S WHERE METADATA$ACTION = 'INSERT'")) == ids
    assert changes(a)[0] == (1, "one", "DELETE", True)
    consume(a)
    run(a, "UPDATE P SET V = UPPER(V)")
    found = dict(run(a, "SELECT LOWER(V), METADATA$ROW_ID FROM S WHERE METADATA$ACTION = 'DELETE'"))
    assert found == ids


def test_a_merge_keeps_the_ids_of_rows_with_a_key_and_gives_new_rows_new_ones(a: Connection) -> None:
    run(a, "CREATE TABLE P (ID INT PRIMARY KEY, V VARCHAR)")
    run(a, "INSERT INTO P VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    run(a, "CREATE STREAM S ON TABLE P")
    run(
        a,
        "MERGE INTO P USING (SELECT * FROM VALUES (1, 'x'), (2, 'd'), (4, 'four') AS N (ID, V)) N ON P.ID = N.ID "
        "WHEN MATCHED AND N.V = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET ID = N.ID, V = N.V "
        "WHEN NOT MATCHED THEN INSERT (ID, V) VALUES (N.ID, N.V)",
    )
    assert changes(a) == [
        (1, "one", "DELETE", True), (1, "x", "INSERT", True), (2, "two", "DELETE", False), (4, "four", "INSERT", False),
    ]  # fmt: skip
    run(a, "MERGE INTO P USING (SELECT 1 AS ID) N ON P.ID = N.ID WHEN MATCHED THEN UPDATE SET V = 'one'")
    assert changes(a) == [(2, "two", "DELETE", False), (4, "four", "INSERT", False)]


def test_columns_come_before_metadata(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    with a.cursor() as cursor:
        names = [column.name for column in cursor.execute("SELECT * FROM S").description]
    assert names == ["ID", "V", "METADATA$ACTION", "METADATA$ISUPDATE", "METADATA$ROW_ID"]


def test_rows_of_copy_and_of_select_are_changes_too(a: Connection, tmp_path: Path) -> None:
    run(a, "CREATE TABLE E (META VARIANT, CONTENT VARIANT)")
    run(a, "CREATE STAGE ST")
    run(a, "CREATE STREAM S ON TABLE E")
    file = write_parquet(tmp_path / "a.parquet", 5)
    run(a, f"PUT file://{file} @ST AUTO_COMPRESS = FALSE")
    run(
        a,
        "COPY INTO E (META, CONTENT) FROM (SELECT PARSE_JSON($1:RECORD_METADATA), PARSE_JSON($1:RECORD_CONTENT) "
        "FROM @ST/) FILES = ('a.parquet') FILE_FORMAT = (TYPE = PARQUET)",
    )
    assert run(a, "SELECT COUNT(*), MAX(META:offset::INT) FROM S") == [(5, 4)]


# When a stream moves


def test_a_query_does_not_move_a_stream_and_dml_does(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    assert changes(a) == changes(a) != []
    consume(a)
    assert changes(a) == []
    assert run(a, "SELECT * FROM SINK") == [(3, "three")]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO SINK SELECT ID, V FROM S WHERE 1 = 0",
        "MERGE INTO SINK USING S ON SINK.ID = S.ID WHEN NOT MATCHED THEN INSERT (ID) VALUES (S.ID)",
        "UPDATE SINK SET V = S.V FROM S WHERE SINK.ID = S.ID",
        "DELETE FROM SINK USING S WHERE SINK.ID = S.ID",
        "DELETE FROM SINK WHERE ID IN (SELECT ID FROM S)",
        "INSERT INTO SINK WITH X AS (SELECT * FROM S) SELECT ID, V FROM X",
        "CREATE TABLE MADE AS SELECT * FROM S WHERE FALSE",
        "CREATE TEMPORARY TABLE MADE AS SELECT * FROM S",
    ],
)
def test_every_dml_and_ctas_that_reads_a_stream_moves_it(a: Connection, statement: str) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, statement)
    assert changes(a) == []


def test_a_cte_of_the_same_name_is_no_stream(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "INSERT INTO SINK WITH S AS (SELECT 7 AS ID, 'x' AS V) SELECT ID, V FROM S")
    assert run(a, "SELECT * FROM SINK") == [(7, "x")]
    assert len(changes(a)) == 1


def test_a_rollback_or_a_failure_moves_nothing(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "BEGIN")
    consume(a)
    run(a, "ROLLBACK")
    assert len(changes(a)) == 1
    with pytest.raises(ProgrammingError):
        run(a, "INSERT INTO SINK SELECT V::INT, V FROM S")
    assert len(changes(a)) == 1


def test_each_stream_of_a_table_has_its_own_offset(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "CREATE STREAM S2 ON TABLE T")
    run(a, "CREATE STREAM S3 CLONE S")
    consume(a)
    assert [len(changes(a, stream)) for stream in ("S", "S2", "S3")] == [0, 0, 1]


def test_a_stream_is_consumed_into_another_database(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    schema = run(a, "SELECT CURRENT_SCHEMA()")[0][0]
    run(a, "CREATE OR REPLACE DATABASE ELSEWHERE")
    run(a, f"CREATE TABLE ELSEWHERE.PUBLIC.SINK AS SELECT ID FROM STREAMING.{schema}.T LIMIT 0")
    run(a, f"INSERT INTO ELSEWHERE.PUBLIC.SINK SELECT ID FROM STREAMING.{schema}.S")
    assert changes(a, f"STREAMING.{schema}.S") == []


# Transactions


def test_a_transaction_sees_the_stream_as_it_was_when_it_began(a: Connection, b: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(b, "BEGIN")
    run(a, "INSERT INTO T VALUES (4, 'four')")
    assert [row[0] for row in changes(b)] == [3]
    run(b, "INSERT INTO T VALUES (5, 'five')")
    assert [row[0] for row in changes(b)] == [3]
    consume(b)
    assert [row[0] for row in changes(b)] == [3]
    run(b, "COMMIT")
    assert [row[0] for row in changes(b)] == [4, 5]


def test_uncommitted_changes_are_in_no_stream(a: Connection, b: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "BEGIN")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "UPDATE T SET V = 'x' WHERE ID = 1")
    assert changes(b) == []
    assert not has_data(b)
    run(a, "COMMIT")
    assert len(changes(b)) == 3


def test_two_statements_of_a_transaction_get_the_same_changes(a: Connection) -> None:
    run(a, "CREATE TABLE OTHER (ID INT)")
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "BEGIN")
    consume(a)
    run(a, "INSERT INTO OTHER SELECT ID FROM S")
    run(a, "COMMIT")
    assert run(a, "SELECT ID FROM SINK UNION ALL SELECT ID FROM OTHER") == [(3,), (3,)]


def test_of_two_that_consume_at_once_the_second_waits_and_gets_the_rest(a: Connection, b: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "BEGIN")
    consume(a)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(run, b, "INSERT INTO SINK SELECT ID, V FROM S")
        while not any(row[3] == "WAITING" for row in run(a, "SHOW LOCKS")):
            assert not second.done()
        run(a, "COMMIT")
        assert second.result(10) == [(0,)]
    assert run(a, "SELECT * FROM SINK") == [(3, "three")]


def test_who_has_read_a_stream_may_not_consume_what_another_has_consumed_since(a: Connection, b: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(b, "BEGIN")
    assert len(changes(b)) == 1
    consume(a)
    with pytest.raises(ProgrammingError) as error:
        consume(b)
    assert error.value.errno == 625
    run(b, "ROLLBACK")
    assert run(a, "SELECT COUNT(*) FROM SINK") == [(1,)]


def test_a_transaction_that_inserted_before_the_first_stream_was_made(a: Connection, b: Connection) -> None:
    run(b, "BEGIN")
    run(b, "INSERT INTO T VALUES (3, 'three')")
    run(a, "CREATE STREAM S ON TABLE T")
    run(b, "COMMIT")
    assert changes(a) == [(3, "three", "INSERT", False)]


def test_select_then_insert_loses_what_comes_between_unless_it_is_one_transaction(a: Connection, b: Connection) -> None:
    """The usual loop: fetch the changes, publish them, then advance the stream by an INSERT that inserts nothing."""
    run(a, "CREATE STREAM S ON TABLE T")
    advance = "INSERT INTO SINK SELECT ID, V FROM S WHERE 1 = 0"
    published: list[int] = []

    def loop_once(between: Callable[[], object]) -> None:
        published.extend(row[0] for row in run(a, "SELECT ID FROM S"))
        between()
        run(a, advance)

    run(b, "INSERT INTO T VALUES (3, 'three')")
    loop_once(lambda: run(b, "INSERT INTO T VALUES (4, 'lost')"))
    loop_once(lambda: None)
    assert published == [3]

    run(b, "INSERT INTO T VALUES (5, 'five')")
    for between in (lambda: run(b, "INSERT INTO T VALUES (6, 'kept')"), lambda: None):
        run(a, "BEGIN")
        loop_once(between)
        run(a, "COMMIT")
    assert published == [3, 5, 6]


# Views


def test_a_stream_on_a_view_returns_changes_of_what_the_view_shows(a: Connection) -> None:
    run(a, "CREATE VIEW BIG AS SELECT ID, UPPER(V) AS V FROM T WHERE ID >= 2")
    run(a, "CREATE STREAM S ON VIEW BIG")
    run(a, "UPDATE T SET V = 'Two' WHERE ID = 2")  # the view shows no difference
    run(a, "UPDATE T SET ID = 5 WHERE ID = 1")  # comes in
    run(a, "INSERT INTO T VALUES (0, 'zero'), (7, 'seven')")
    assert changes(a) == [(5, "ONE", "INSERT", False), (7, "SEVEN", "INSERT", False)]
    run(a, "DELETE FROM T WHERE ID = 2")
    assert (2, "TWO", "DELETE", False) in changes(a)
    assert shown(a)["source_type"] == "View"
    consume(a)
    assert changes(a) == []


def test_a_stream_on_a_view_that_joins(a: Connection) -> None:
    run(a, "CREATE TABLE N (ID INT, NAME VARCHAR)")
    run(a, "INSERT INTO N VALUES (1, 'a'), (3, 'c')")
    run(a, "CREATE VIEW J AS WITH X AS (SELECT * FROM T) SELECT X.ID, V || NAME AS V FROM X JOIN N ON X.ID = N.ID")
    run(a, "CREATE STREAM S ON VIEW J")
    assert changes(a) == []
    run(a, "INSERT INTO N VALUES (2, 'b')")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    run(a, "UPDATE N SET NAME = 'A' WHERE ID = 1")
    assert changes(a) == [
        (1, "onea", "DELETE", True),
        (1, "oneA", "INSERT", True),
        (2, "twob", "INSERT", False),
        (3, "threec", "INSERT", False),
    ]
    assert sorted(name.rpartition(".")[2] for name in shown(a)["base_tables"].split(", ")) == ["N", "T"]


def test_a_stream_on_a_view_that_unites(a: Connection) -> None:
    run(a, "CREATE VIEW U AS SELECT ID, V FROM T UNION ALL SELECT ID + 100, V FROM T WHERE ID = 1")
    run(a, "CREATE STREAM S ON VIEW U")
    run(a, "DELETE FROM T WHERE ID = 1")
    assert changes(a) == [(1, "one", "DELETE", False), (101, "one", "DELETE", False)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT V, COUNT(*) AS ID FROM T GROUP BY V",
        "SELECT DISTINCT ID, V FROM T",
        "SELECT ID, V FROM T LIMIT 1",
        "SELECT T.ID, T.V FROM T LEFT JOIN SINK ON T.ID = SINK.ID",
        "SELECT ID, V FROM T WHERE ID IN (SELECT ID FROM SINK)",
        "SELECT ID, V FROM T UNION SELECT ID, V FROM T",
        "SELECT ID, V FROM T QUALIFY ROW_NUMBER() OVER (PARTITION BY V ORDER BY ID) = 1",
    ],
)
def test_what_no_stream_may_be_on(a: Connection, query: str) -> None:
    run(a, f"CREATE VIEW W AS {query}")
    with pytest.raises(ProgrammingError, match="Change tracking is not supported on views with"):
        run(a, "CREATE STREAM S ON VIEW W")


# Objects


def test_show_and_describe(a: Connection, clock: FastClock) -> None:
    run(a, "CREATE STREAM S ON TABLE T COMMENT = 'for Kafka'")
    found = shown(a)
    schema = found["schema_name"]
    assert found["table_name"] == found["base_tables"] == f"STREAMING.{schema}.T"
    expected = {
        "name": "S", "database_name": "STREAMING", "owner": "ACCOUNTADMIN", "comment": "for Kafka",
        "source_type": "Table", "type": "DELTA", "stale": "false", "mode": "DEFAULT", "invalid_reason": "N/A",
        "owner_role_type": "ROLE",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["stale_after"].timestamp() == clock.now + 14 * DAY
    assert run(a, "DESC STREAM S") == [tuple(found.values())]
    run(a, "ALTER STREAM S SET COMMENT = 'other'")
    assert shown(a)["comment"] == "other"
    assert [row[1] for row in run(a, "SHOW TERSE STREAMS IN ACCOUNT STARTS WITH 'S' LIMIT 1")] == ["S"]
    assert run(a, "SHOW TABLES LIKE 'T'")[0][12] == "ON"


def test_create_and_drop(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    assert "already exists" in run(a, "CREATE STREAM IF NOT EXISTS S ON TABLE T")[0][0]
    assert len(changes(a)) == 1
    with pytest.raises(ProgrammingError, match="already exists"):
        run(a, "CREATE STREAM S ON TABLE T")
    with pytest.raises(ProgrammingError, match="already exists"):
        run(a, "CREATE STREAM SINK ON TABLE T")
    run(a, "CREATE OR REPLACE STREAM S ON TABLE T")
    assert changes(a) == []
    run(a, "DROP STREAM S")
    run(a, "DROP STREAM IF EXISTS S")
    for statement in ("DROP STREAM S", "SELECT * FROM S", "DESC STREAM S", "CREATE STREAM S ON TABLE NOPE"):
        with pytest.raises(ProgrammingError, match="does not exist or not authorized"):
            run(a, statement)


def test_insert_only_streams_are_for_other_tables(a: Connection) -> None:
    with pytest.raises(ProgrammingError, match="external tables"):
        run(a, "CREATE STREAM S ON TABLE T INSERT_ONLY = TRUE")


def test_at_a_time_or_where_another_stream_stands(a: Connection, clock: FastClock) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    clock.advance(60)
    run(a, "INSERT INTO T VALUES (3, 'three')")
    clock.advance(60)
    run(a, "INSERT INTO T VALUES (4, 'four')")
    run(a, "CREATE STREAM S2 ON TABLE T AT (STREAM => 'S')")
    run(a, "CREATE STREAM S3 ON TABLE T AT (OFFSET => -30)")
    run(a, "CREATE STREAM S4 ON TABLE T BEFORE (OFFSET => -60) SHOW_INITIAL_ROWS = TRUE")
    assert [len(changes(a, stream)) for stream in ("S", "S2", "S3")] == [2, 2, 1]
    assert [row[0] for row in changes(a, "S4")] == [1, 2]
    with pytest.raises(ProgrammingError, match="Time travel data is not available"):
        run(a, "CREATE STREAM S5 ON TABLE T AT (OFFSET => -3600)")


def test_the_changes_clause(a: Connection, clock: FastClock) -> None:
    with pytest.raises(ProgrammingError, match="Change tracking is not enabled"):
        run(a, "SELECT * FROM T CHANGES (INFORMATION => DEFAULT) AT (OFFSET => 0)")
    run(a, "ALTER TABLE T SET CHANGE_TRACKING = TRUE")
    clock.advance(60)
    run(a, "UPDATE T SET V = 'x' WHERE ID = 1")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    found = run(
        a, "SELECT ID, METADATA$ACTION FROM T CHANGES (INFORMATION => DEFAULT) AT (OFFSET => -30) ORDER BY 1, 2"
    )
    assert found == [(1, "DELETE"), (1, "INSERT"), (3, "INSERT")]
    assert run(a, "SELECT ID FROM T CHANGES (INFORMATION => APPEND_ONLY) AT (OFFSET => -30)") == [(3,)]


def test_columns_that_come_go_and_change_names(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "UPDATE T SET V = 'ONE' WHERE ID = 1")
    ids = dict(run(a, "SELECT METADATA$ACTION, METADATA$ROW_ID FROM S"))
    run(a, "ALTER TABLE T ADD COLUMN N INT DEFAULT 5")
    run(a, "ALTER TABLE T RENAME COLUMN V TO W")
    run(a, "ALTER TABLE T ALTER COLUMN ID DROP NOT NULL")
    assert run(a, "SELECT ID, W, N FROM S ORDER BY W") == [(1, "ONE", 5), (1, "one", 5)]
    run(a, "UPDATE T SET N = 6 WHERE ID = 1")
    assert run(a, "SELECT ID, W, N FROM S ORDER BY W") == [(1, "ONE", 6), (1, "one", 5)]
    assert dict(run(a, "SELECT METADATA$ACTION, METADATA$ROW_ID FROM S")) == ids
    run(a, "ALTER TABLE T DROP COLUMN W")
    assert run(a, "SELECT * EXCLUDE (METADATA$ROW_ID) FROM S WHERE N = 6") == [(1, 6, "INSERT", True)]


def test_a_renamed_table_keeps_its_stream_and_a_new_one_of_its_name_does_not(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "ALTER TABLE T RENAME TO T2")
    run(a, "INSERT INTO T2 VALUES (3, 'three')")
    assert len(changes(a)) == 1
    assert shown(a)["table_name"].endswith(".T2")
    run(a, "CREATE OR REPLACE TABLE T2 (ID INT, V VARCHAR)")
    with pytest.raises(ProgrammingError, match="cannot read from stream"):
        changes(a)
    assert shown(a)["stale"] == "true"
    assert "dropped" in shown(a)["invalid_reason"]


def test_without_change_tracking_a_stream_cannot_be_read(a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "ALTER TABLE T SET CHANGE_TRACKING = FALSE")
    run(a, "INSERT INTO T VALUES (3, 'three')")
    with pytest.raises(ProgrammingError, match="cannot read from stream"):
        changes(a)


def test_a_stream_that_nobody_reads_becomes_stale(a: Connection, clock: FastClock) -> None:
    run(a, "ALTER TABLE T SET DATA_RETENTION_TIME_IN_DAYS = 1, MAX_DATA_EXTENSION_TIME_IN_DAYS = 3")
    run(a, "CREATE STREAM S ON TABLE T")
    clock.advance(2 * DAY)
    assert not has_data(a)  # which makes its time begin again
    clock.advance(2 * DAY)
    run(a, "INSERT INTO T VALUES (3, 'three')")
    assert has_data(a)
    assert shown(a)["stale"] == "false"
    clock.advance(1.1 * DAY)
    assert shown(a)["stale"] == "true"
    with pytest.raises(ProgrammingError, match="has become stale"):
        changes(a)
    run(a, "CREATE OR REPLACE STREAM S ON TABLE T")
    assert changes(a) == []


def test_changes_are_kept_until_every_stream_has_them_and_their_retention_is_over(
    server: InProcess, a: Connection, clock: FastClock
) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "CREATE STREAM LATE ON TABLE T")
    run(a, "UPDATE T SET V = 'x'")
    schema = run(a, "SELECT CURRENT_SCHEMA()")[0][0]
    table = server.snowflake.account.tracked.named(f"STREAMING.{schema}.T")
    assert table is not None

    def kept() -> int:
        return int(server.snowflake.account.store.query(f"SELECT count(*) FROM {table.log}")[0][0])

    consume(a)
    clock.advance(2 * DAY)
    consume(a)
    assert kept() == 4  # for LATE
    consume(a, "LATE")
    clock.advance(2 * DAY)
    consume(a)
    assert kept() == 0
    run(a, "UPDATE T SET V = 'y'")
    assert len(changes(a)) == 4


def test_everything_outlives_a_restart(server: InProcess, a: Connection) -> None:
    schema = run(a, "SELECT CURRENT_SCHEMA()")[0][0]
    run(a, "CREATE STREAM S ON TABLE T")
    run(a, "CREATE STREAM S2 ON TABLE T SHOW_INITIAL_ROWS = TRUE")
    run(a, "UPDATE T SET V = 'ONE' WHERE ID = 1")
    consume(a)
    run(a, "UPDATE T SET V = '1' WHERE ID = 1")
    before = [run(a, f"SELECT * FROM {stream} ORDER BY 1, 3") for stream in ("S", "S2")]
    server.restart()
    with server.connect(schema=schema) as again:
        assert [run(again, f"SELECT * FROM {stream} ORDER BY 1, 3") for stream in ("S", "S2")] == before
        run(again, "UPDATE T SET V = 'last' WHERE ID = 1")
        assert run(again, "SELECT V FROM S ORDER BY METADATA$ACTION") == [("ONE",), ("last",)]


def test_a_dropped_schema_takes_its_streams_along(server: InProcess, a: Connection) -> None:
    run(a, "CREATE STREAM S ON TABLE T")
    schema = run(a, "SELECT CURRENT_SCHEMA()")[0][0]
    run(a, f"DROP SCHEMA {schema}")
    assert schema not in {row[3] for row in run(a, "SHOW STREAMS IN ACCOUNT")}
    kept = "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE '_firn_log_%' AND database_name = 'STREAMING'"
    tables = server.snowflake.account.store.query(kept)[0][0]
    assert tables == len([t for t in server.snowflake.account.tracked.all() if t.place[0] == "STREAMING"])
