"""What only shows through HTTP and the real connector: values, bound parameters, uploads, and clients that vanish."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from snowflake.connector import SnowflakeConnection
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import run
from tests.firn_local.snowflake.process import DETACHED_SECONDS, Server


@pytest.fixture
def c(server: Server) -> Iterator[SnowflakeConnection]:
    with server.connect() as connection:
        yield connection


@pytest.fixture
def a(c: SnowflakeConnection) -> SnowflakeConnection:
    """A session with an empty table T and a ledger L."""
    run(c, "CREATE OR REPLACE TABLE L (SINK VARCHAR, EPOCH INT)")
    run(c, "INSERT INTO L VALUES ('', 0), ('s', 1), ('other', 1)")
    run(c, "CREATE OR REPLACE TABLE T (A INT)")
    return c


def test_values_come_back_exact(c: SnowflakeConnection) -> None:
    sql = """SELECT 9223372036854775807::NUMBER, 12345678901234567890.12::NUMBER(38,2), 0.1::FLOAT, TRUE, NULL::VARIANT,
             PARSE_JSON('{"a": [1, null]}'), PARSE_JSON('null'), 'x'::VARIANT, NULL::TIMESTAMP,
             '2026-03-05 12:30:15.123'::TIMESTAMP"""
    *values, timestamp = run(c, sql)[0]
    assert values == [
        9223372036854775807, Decimal("12345678901234567890.12"), 0.1, True, None,
        '{"a":[1,null]}', "null", '"x"', None,
    ]  # fmt: skip
    assert str(timestamp) == "2026-03-05 12:30:15.123000"


@pytest.mark.parametrize(
    ("sql", "errno", "sqlstate", "words"),
    [
        ("SELECT * FROM NOPE", 2003, "42S02", "Object 'NOPE' does not exist or not authorized"),
        ("SELEKT 1", 1003, "42000", "SELEKT"),
        ("CALL SOMETHING(1)", 2, "0A000", "CALL SOMETHING"),
    ],
)
def test_a_fault_is_a_quick_answer_and_no_server_error(
    c: SnowflakeConnection, sql: str, errno: int, sqlstate: str, words: str
) -> None:
    began = time.monotonic()
    with pytest.raises(ProgrammingError) as error:
        run(c, sql)
    assert time.monotonic() - began < 5  # the connector repeats an HTTP 500 for minutes
    assert (error.value.errno, error.value.sqlstate) == (errno, sqlstate)
    assert words.upper() in str(error.value).upper()
    assert run(c, "SELECT 1") == [(1,)]


def test_bound_parameters_and_array_inserts(server: Server) -> None:
    with server.connect(paramstyle="qmark") as c:
        run(c, "CREATE OR REPLACE TABLE B (ID INT, V VARCHAR)")
        with c.cursor() as cursor:
            cursor.executemany("INSERT INTO B VALUES (?, ?)", [(1, "a"), (2, "it's")])
            assert cursor.rowcount == 2
        assert run(c, "UPDATE B SET V = ? WHERE ID = ?", ("z", 1)) == [(1, 0)]
        assert run(c, "SELECT V FROM B WHERE ID IN (?, ?) ORDER BY ID", (1, 2)) == [("z",), ("it's",)]


def test_an_upload_that_no_put_asked_for_is_refused(server: Server) -> None:
    url = f"http://127.0.0.1:{server.port}/fs_bucket/STREAMING/PUBLIC/FIRN_STAGE/x?signature=guess"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(url, b"x", method="PUT"), timeout=10)


def test_a_statement_that_waits_is_answered_later(server: Server, a: SnowflakeConnection) -> None:
    run(a, "BEGIN")
    run(a, "UPDATE L SET EPOCH = 2 WHERE SINK = 's' AND EPOCH = 1")
    with server.connect() as b:
        waiting = ThreadPoolExecutor(1).submit(run, b, "UPDATE L SET EPOCH = 9 WHERE SINK = 's' AND EPOCH = 1")
        threading.Event().wait(1)  # longer than the server lets a request wait
        assert not waiting.done()
        run(a, "COMMIT")
        assert waiting.result(10) == [(0, 0)]


def test_closing_the_connection_rolls_back(a: SnowflakeConnection, server: Server) -> None:
    other = server.connect()
    run(other, "BEGIN")
    run(other, "UPDATE L SET EPOCH = 2")
    other.close()
    assert run(a, "UPDATE L SET EPOCH = 3 WHERE EPOCH = 2") == [(0, 0)]


HOLDER = """
import sys, snowflake.connector as sc
c = sc.connect(user="x", password="x", account="LOCAL", host="127.0.0.1", port=int(sys.argv[1]), protocol="http",
               database="STREAMING", schema="PUBLIC")
c.cursor().execute("BEGIN"); c.cursor().execute("UPDATE L SET EPOCH = 99")
print("held", flush=True); sys.stdin.read()
"""


def test_a_killed_client_does_not_hold_its_lock(server: Server, a: SnowflakeConnection) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(server.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "held"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    began = time.monotonic()
    assert run(a, "UPDATE L SET EPOCH = 3 WHERE EPOCH = 99") == [(0, 0)]
    assert time.monotonic() - began < DETACHED_SECONDS + 5


def test_a_client_that_is_silent_but_connected_keeps_its_transaction(a: SnowflakeConnection) -> None:
    run(a, "BEGIN")
    run(a, "INSERT INTO T VALUES (1)")
    threading.Event().wait(DETACHED_SECONDS * 2)  # silence is what is tested
    run(a, "COMMIT")
    assert run(a, "SELECT COUNT(*) FROM T") == [(1,)]


def test_a_request_repeated_after_a_lost_answer_runs_once(a: SnowflakeConnection, server: Server) -> None:
    url = f"http://127.0.0.1:{server.port}/queries/v1/query-request?requestId=11111111-2222-3333-4444-555555555555"
    body = json.dumps({"sqlText": "INSERT INTO T VALUES (1)"}).encode()
    headers = {"Authorization": f'Snowflake Token="{a.rest.token}"', "Content-Type": "application/json"}
    answers = []
    for _ in range(2):
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
            answers.append(json.load(answer))
    assert answers[0] == answers[1]
    assert run(a, "SELECT COUNT(*) FROM T") == [(1,)]
