"""Which rows of a range Snowflake refused: found by comparison with the table, and counted whoever published them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from firn.connector.config import ErrorsConfig, SinkConfig
from firn.dead_letters.published import PartitionLetters
from firn.errors import TerminalError, TransientError
from firn.kafka.partitions import OffsetRange, TopicPartition
from spark_jobs.sink.dead_letters import tolerance as tolerances
from spark_jobs.sink.dead_letters.writer import Published
from spark_jobs.sink.decode.primitive.values import StringDecoder
from spark_jobs.sink.task import account_task
from spark_jobs.sink.task.account_task import AccountPlan, AccountWork
from spark_jobs.sink.values.reports import Accounted, Report, Tolerated
from spark_jobs.sink.values.table_loaders import VariantLoader
from tests.spark_jobs.sink.task.test_convert import batch
from tests.spark_jobs.sink.task.test_partition_task import Narrow


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


def accounts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, refused: set[int], told: int, published: set[int]
) -> list[Report]:
    """Of ten records, whose table lacks `refused`; Snowflake told of so many."""
    config = SinkConfig("s", errors=ErrorsConfig("all", dead_letter_topic="dlq"))
    namespace = SimpleNamespace(qualified=lambda table: table)
    context: Any = SimpleNamespace(config=config, kafka=None, value_registry=None, namespace=namespace)
    found = batch(10, first=0).set_column(4, "value", pa.array([b"x"] * 10, pa.binary()))
    monkeypatch.setattr(tolerances, "DeadLetterWriter", Letters)
    monkeypatch.setattr(account_task, "session_of", lambda _context: lambda work: work(None))
    monkeypatch.setattr(account_task, "confirm_topics", lambda *_: None)
    monkeypatch.setattr(account_task.cluster, "admin_client", lambda _kafka: None)
    monkeypatch.setattr(account_task, "decoders_of", lambda _context: (Narrow(), StringDecoder()))
    monkeypatch.setattr(account_task, "reader_for", lambda *_: SimpleNamespace(read=lambda _range: [found]))
    present = [{"AT": at} for at in range(10) if at not in refused]
    monkeypatch.setattr(account_task, "query", lambda *_: present)
    letters = PartitionLetters(5, frozenset(published))
    work = AccountWork(OffsetRange("t", 0, 0, 10), "id", letters, told, "too long")
    plan = AccountPlan(context, 1, "x", VariantLoader(), 1.0, {})
    return account_task._account(plan, work, tmp_path)


def test_missing_rows_become_letters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tolerated, accounted = accounts(monkeypatch, tmp_path, refused={2, 7}, told=2, published=set())
    assert isinstance(tolerated, Tolerated)
    assert tolerated.published == [2, 7]
    assert accounted == Accounted("t", 0, 0, 10, 8, 2)


def test_letters_of_a_try_that_was_killed_count_where_one_transaction_does_not_hold_the_rest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Letters, "most", 1)
    tolerated, accounted = accounts(monkeypatch, tmp_path, refused={2, 4, 7, 8}, told=4, published={2, 4})
    assert isinstance(tolerated, Tolerated)
    assert tolerated.published == [7]
    assert accounted == Accounted("t", 0, 0, 8, 5, 3), "one is left, whoever published the others"


def test_more_or_fewer_missing_rows_than_were_refused_are_no_letters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(TerminalError, match=r"refused 1 row of .*, and 2 are not in the table"):
        accounts(monkeypatch, tmp_path, refused={2, 7}, told=1, published=set())
    with pytest.raises(TransientError, match="only 2 are missing"):
        accounts(monkeypatch, tmp_path, refused={2, 7}, told=3, published=set())
