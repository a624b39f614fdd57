"""Rows that are streamed into a table are changes of it: whoever consumes them gets each once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.firn_local.snowflake.streaming.streaming_server import Streaming


@pytest.fixture
def streaming(tmp_path: Path) -> Iterator[Streaming]:
    server = Streaming(tmp_path / "data")
    server.sql(
        "CREATE TABLE T (A NUMBER)", "CREATE TABLE SINK (A NUMBER, ACTION VARCHAR)", "CREATE STREAM S ON TABLE T"
    )
    yield server
    server.close()


def test_streamed_rows_are_inserts(streaming: Streaming) -> None:
    streaming.client().pipe().channel("c").commit({"a": 1}, {"a": "bad"}, {"a": 2})
    assert streaming.sql("SELECT A, METADATA$ACTION FROM S ORDER BY A") == [(1, "INSERT"), (2, "INSERT")]


def test_each_row_is_consumed_once_while_rows_stream_and_others_change(streaming: Streaming) -> None:
    channel = streaming.client().pipe().channel("c")
    done = threading.Event()

    def repeat(*statements: str) -> None:
        with streaming.snowflake.session("OTHER", "ACCOUNTADMIN") as session:
            session.use("D", "PUBLIC")
            while not done.is_set():
                for sql in statements:
                    streaming.snowflake.run(session, sql)

    workers = [
        threading.Thread(target=repeat, args=("INSERT INTO SINK SELECT A, METADATA$ACTION FROM S",)),
        threading.Thread(
            target=repeat, args=("UPDATE T SET A = A + 1000 WHERE A < 500", "DELETE FROM T WHERE A > 1400")
        ),
    ]
    for worker in workers:
        worker.start()
    try:
        for at in range(0, 1000, 10):
            assert channel.append(*({"a": a} for a in range(at, at + 10)), end=str(at)).status == 200
        streaming.settle()
    finally:
        done.set()
        for worker in workers:
            worker.join()
    streaming.sql("INSERT INTO SINK SELECT A, METADATA$ACTION FROM S")
    net = (
        "SELECT A, SUM(CASE ACTION WHEN 'INSERT' THEN 1 ELSE -1 END) AS N FROM SINK GROUP BY A HAVING N <> 0 ORDER BY A"
    )
    assert streaming.sql(net) == streaming.sql("SELECT A, COUNT(*) FROM T GROUP BY A ORDER BY A")
