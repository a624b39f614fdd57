"""What survives a restart, and what streaming and SQL do to the same tables at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.firn_local.snowflake.streaming.streaming_server import Streaming


@pytest.fixture
def streaming(tmp_path: Path) -> Iterator[Streaming]:
    server = Streaming(tmp_path / "data")
    server.sql("CREATE TABLE T (A NUMBER)")
    yield server
    server.close()


def rows(streaming: Streaming) -> list[int]:
    return [int(a) for (a,) in streaming.sql("SELECT A FROM T ORDER BY A")]


def test_tokens_and_counters_survive_a_restart_and_writers_must_reopen(streaming: Streaming) -> None:
    channel = streaming.client().pipe().channel("c")
    before = channel.commit({"a": 1}, {"a": "x"})
    streaming.restart()
    pipe = streaming.client().pipe()
    after = pipe.status("c")
    kept = ("last_committed_offset_token", "created_on_ms", "rows_inserted", "rows_error_count", "last_error_message")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    refused = pipe.append("c", channel.continuation, [{"a": 2}], "z")
    assert (refused.status, refused["code"]) == (400, "ERR_CHANNEL_MUST_BE_REOPENED")
    assert pipe.channel("c").commit({"a": 2})["rows_inserted"] == 2
    assert rows(streaming) == [1, 2]


def test_a_scoped_token_survives_a_restart(streaming: Streaming) -> None:
    client = streaming.client()
    scoped = client.text("POST", "/oauth/token")
    streaming.restart()
    again = streaming.client()
    again.scoped = scoped
    assert again.pipe().open("c").status == 200


def test_what_waits_is_committed_by_a_clean_stop_and_lost_with_a_paused_one(streaming: Streaming) -> None:
    streaming.endpoint.administration.set(commit_delay=60)
    streaming.client().pipe().channel("c").append({"a": 1}, end="1")
    streaming.restart()
    assert (rows(streaming), streaming.client().pipe().status("c")["last_committed_offset_token"]) == ([1], "1")
    streaming.endpoint.administration.set(commit_paused=True)
    streaming.client().pipe().channel("c").append({"a": 2}, end="2")
    streaming.restart()
    assert (rows(streaming), streaming.client().pipe().status("c")["last_committed_offset_token"]) == ([1], "1")


def test_show_channels_lists_them_by_place_and_pattern(streaming: Streaming) -> None:
    streaming.sql("CREATE TABLE U (A NUMBER)", "CREATE SCHEMA S", "CREATE TABLE S.T (A NUMBER)", "USE SCHEMA D.PUBLIC")
    client = streaming.client()
    client.pipe().channel("one").commit({"a": 1})
    client.pipe("U-STREAMING").open("two")
    client.pipe("T-STREAMING", schema="S").open("three")

    def names(sql: str) -> list[str]:
        return [str(row[1]) for row in streaming.sql(sql)]

    assert names("SHOW CHANNELS") == names("SHOW CHANNELS IN DATABASE D") == ["one", "two", "three"]
    assert names("SHOW CHANNELS IN SCHEMA S") == names("SHOW CHANNELS LIKE 'TH%' IN ACCOUNT") == ["three"]
    assert names("SHOW CHANNELS IN TABLE U") == names('SHOW CHANNELS IN PIPE "U-STREAMING"') == ["two"]
    (row,) = streaming.sql("SHOW CHANNELS IN TABLE T")
    assert row[1:6] == ("one", "D", "PUBLIC", "T", "T-STREAMING")
    assert str(row[8]).startswith("end")
    streaming.sql("DROP SCHEMA S")
    assert names("SHOW CHANNELS") == ["one", "two"]


def test_changes_of_the_table_and_streamed_rows_do_not_harm_each_other(streaming: Streaming) -> None:
    """While rows stream: columns are added, rows updated inside transactions, rows inserted, the table read."""
    channel = streaming.client().pipe().channel("c")
    done = threading.Event()
    seen: list[int] = []

    def change() -> None:
        session = streaming.snowflake.session("OTHER", "ACCOUNTADMIN")
        session.use("D", "PUBLIC")
        at = 0
        while not done.is_set():
            at += 1
            for sql in (
                f"ALTER TABLE T ADD COLUMN C{at} NUMBER", "BEGIN", "UPDATE T SET A = A WHERE A < 50",
                f"INSERT INTO T (A) VALUES ({-at})", "COMMIT", f"ALTER TABLE T DROP COLUMN C{at}",
            ):  # fmt: skip
                streaming.snowflake.run(session, sql)
        session.close()
        seen.append(at)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for at in range(0, 500, 10):
            assert channel.append(*({"a": a} for a in range(at, at + 10)), end=str(at)).status == 200
        streaming.settle()
    finally:
        done.set()
        changing.join()
    assert [a for a in rows(streaming) if a >= 0] == list(range(500))
    assert channel.status()["rows_inserted"] == 500
    assert len([a for a in rows(streaming) if a < 0]) == seen[0]


def test_an_open_transaction_sees_what_was_streamed_meanwhile(streaming: Streaming) -> None:
    """READ COMMITTED: each statement sees what is committed before it."""
    channel = streaming.client().pipe().channel("c")
    streaming.sql("BEGIN", "INSERT INTO T VALUES (100)")
    channel.commit({"a": 1})
    assert rows(streaming) == [1, 100]
    streaming.sql("ROLLBACK")
    assert rows(streaming) == [1]


def test_a_stream_on_the_table_shows_what_was_streamed(streaming: Streaming) -> None:
    streaming.sql("CREATE STREAM CHANGED ON TABLE T")
    streaming.client().pipe().channel("c").commit({"a": 1}, {"a": "x"})
    assert [row[:2] for row in streaming.sql("SELECT * FROM CHANGED")] == [(1, "INSERT")]


def test_many_channels_are_committed_together(streaming: Streaming) -> None:
    pipe = streaming.client().pipe()
    channels = [pipe.channel(f"c{at}") for at in range(60)]
    streaming.endpoint.administration.set(commit_delay=0.2)
    for at, channel in enumerate(channels):
        channel.append({"a": at}, {"a": "x"} if at % 10 == 0 else {"a": at}, end=f"{at}")
    streaming.settle()
    statuses = pipe.statuses(*(f"c{at}" for at in range(60)))
    assert {name: s["last_committed_offset_token"] for name, s in statuses.items()} == {
        f"c{at}": f"{at}" for at in range(60)
    }
    assert [s["rows_error_count"] for s in statuses.values()] == [int(at % 10 == 0) for at in range(60)]
    assert len(rows(streaming)) == 114
