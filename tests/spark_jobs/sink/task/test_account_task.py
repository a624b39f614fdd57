"""Which rows of a range Snowflake refused: found by comparison with the table, and counted whoever published them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from firn.connector.config import ErrorsConfig, SinkConfig
from firn.dead_letters.published import PartitionLetters
from firn.errors import TerminalError
from firn.kafka.partitions import OffsetRange, TopicPartition
from spark_jobs.sink.dead_letters import tolerance as tolerances
from spark_jobs.sink.dead_letters.writer import Published
from spark_jobs.sink.decode.base.contract import Decoded, OutputTooLargeError
from spark_jobs.sink.decode.primitive.values import StringDecoder
from spark_jobs.sink.task import account_task
from spark_jobs.sink.task.account_task import AccountPlan, AccountWork
from spark_jobs.sink.values.reports import Accounted, Report, Tolerated
from spark_jobs.sink.values.table_loaders import VariantLoader
from tests.spark_jobs.sink.task.test_convert import batch


class Letters:
    """A dead-letter writer whose transaction holds `most` letters."""

    most = 100

    def __init__(self, _queue: object, _where: TopicPartition, _id: str, before: PartitionLetters, _: Path) -> None:
        self._before, self.size = before, 0
        self._offsets: list[int] = []

    def room(self, offsets: Sequence[int]) -> int:
        return min(len(offsets), self.most - len(self._offsets))

    def add(self, records: pa.RecordBatch, bad: Sequence[Any]) -> None:
        self._offsets += [records.column("offset")[each.row].as_py() for each in bad]

    def publish(self, end: int, _confirm: object) -> Published:
        return Published(len(self._offsets), end, self._offsets)


TIME = 1_760_000_000_123
"""Of all records."""


def rows(*offsets: int, time: int | None = TIME) -> list[dict[str, int | None]]:
    """Rows of a table."""
    return [{"AT": at, "TIME": time} for at in offsets]


def accounts(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    told: int,
    there: list[dict[str, int | None]],
    published: set[int] = set(),  # noqa: B006 - never changed
    each: int = 1,
) -> list[Report]:
    """Of ten records that become `each` rows; the table has the rows `there`, and Snowflake refused `told`."""
    config = SinkConfig("s", errors=ErrorsConfig("all", dead_letter_topic="dlq"))
    namespace = SimpleNamespace(qualified=lambda table: table)
    context: Any = SimpleNamespace(config=config, kafka=None, value_registry=None, namespace=namespace)
    found = batch(10, first=0).set_column(4, "value", pa.array([b"x"] * 10, pa.binary()))
    monkeypatch.setattr(tolerances, "DeadLetterWriter", Letters)
    monkeypatch.setattr(account_task, "session_of", lambda _context: lambda work: work(None))
    monkeypatch.setattr(account_task, "confirm_topics", lambda *_: None)
    monkeypatch.setattr(account_task.cluster, "admin_client", lambda _kafka: None)
    monkeypatch.setattr(account_task, "decoders_of", lambda _context: (Several(each), StringDecoder()))
    monkeypatch.setattr(account_task, "reader_for", lambda *_: SimpleNamespace(read=lambda _range: [found]))
    monkeypatch.setattr(account_task, "query", lambda *_: there)
    letters = PartitionLetters(5, frozenset(published))
    work = AccountWork(OffsetRange("t", 0, 0, 10), "id", letters, told, "too long")
    plan = AccountPlan(context, 1, "x", VariantLoader(), 1.0, {})
    return account_task._account(plan, work, tmp_path)


class Several:
    """A decoder that makes several rows of each record, of two records at a time at most."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def decode(self, values: pa.BinaryArray) -> Decoded:
        if len(values) > 2:
            raise OutputTooLargeError
        of = np.repeat(np.arange(len(values)), self._rows)
        return Decoded(pa.array(["{}"] * len(of)), pa.nulls(len(of), pa.int32()), (), of)


def without(*refused: int) -> list[dict[str, int | None]]:
    """Rows of all ten records but these."""
    return rows(*(at for at in range(10) if at not in refused))


def test_missing_rows_become_letters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tolerated, accounted = accounts(monkeypatch, tmp_path, told=2, there=without(2, 7))
    assert isinstance(tolerated, Tolerated)
    assert tolerated.published == [2, 7]
    assert accounted == Accounted("t", 0, 0, 10, 8, 2)


def test_letters_of_a_try_that_was_killed_count_where_one_transaction_does_not_hold_the_rest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Letters, "most", 1)
    tolerated, accounted = accounts(monkeypatch, tmp_path, told=4, there=without(2, 4, 7, 8), published={2, 4})
    assert isinstance(tolerated, Tolerated)
    assert tolerated.published == [7]
    assert accounted == Accounted("t", 0, 0, 8, 5, 3), "one is left, whoever published the others"


def test_more_missing_rows_than_were_refused_are_no_letters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match=r"refused 1 row of .*, and 2 are not in the table"):
        accounts(monkeypatch, tmp_path, told=1, there=without(2, 7))


def test_refused_rows_that_the_table_has_from_before_are_accounted_for_and_no_letters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After a reset to 0, say: all ten records are there once, eight of them a second time now."""
    (accounted,) = accounts(monkeypatch, tmp_path, told=2, there=[*rows(*range(10)), *without(2, 7)])
    assert accounted == Accounted("t", 0, 0, 10, 8, 0)
    tolerated, accounted = accounts(monkeypatch, tmp_path, told=3, there=[*rows(*range(5)), *without(2, 7, 8)])
    assert isinstance(tolerated, Tolerated)
    assert tolerated.published == [7, 8], "of record 2 there is a row, of 7 and 8 there is none"
    assert accounted == Accounted("t", 0, 0, 10, 7, 2)


def test_rows_of_an_older_topic_with_the_same_offsets_are_other_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    older = rows(*range(10), time=TIME - 1)
    tolerated, accounted = accounts(monkeypatch, tmp_path, told=2, there=[*older, *without(2, 7)])
    assert isinstance(tolerated, Tolerated)
    assert tolerated.published == [2, 7]
    assert accounted == Accounted("t", 0, 0, 10, 8, 2)


def test_rows_without_a_time_count_until_they_would_hide_a_refused_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    untimed = rows(*(at for at in range(10) if at != 2), time=None)
    tolerated, _ = accounts(monkeypatch, tmp_path, told=1, there=untimed)
    assert isinstance(tolerated, Tolerated)
    assert tolerated.published == [2]
    with pytest.raises(TerminalError, match="do not say when") as raised:
        accounts(monkeypatch, tmp_path, told=2, there=untimed)
    assert "--reset 10 --topic t --partition 0" in raised.value.next_step


def test_a_record_of_several_rows_is_one_letter_as_soon_as_one_of_them_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    three = [*rows(*range(10)), *without(4), *without(2, 4)]
    tolerated, accounted = accounts(monkeypatch, tmp_path, told=3, there=three, each=3)
    assert isinstance(tolerated, Tolerated)
    assert tolerated.published == [2, 4]
    assert accounted == Accounted("t", 0, 0, 10, 27, 3)
