"""A batch whose tables change on the way: what counts of what was dispatched before, and who may change them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from firn.connector.config import SinkConfig
from firn.dead_letters.published import PartitionLetters
from firn.errors import ClaimAgainError, FencedError
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.ledger.positions import Ledger
from firn.retry import Deadline
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink import dispatch
from spark_jobs.sink.dispatch import Dispatcher
from spark_jobs.sink.methods.base import Claim, EpochSession
from spark_jobs.sink.planner import BatchLimit
from spark_jobs.sink.values.reports import (
    Receipt,
    Report,
    Reports,
    SchemaChangeRequest,
    SuspectedStaleSchema,
    Tolerated,
)

REQUEST = SchemaChangeRequest("t", 1, "T", None, {"NEW": "FLOAT"})
OUT = PartitionLetters(7, frozenset({3}))


def tolerated(partition: int, letters: int, group_offset: int) -> Tolerated:
    return Tolerated("t", partition, letters, letters, group_offset, {"unfitting_value": letters}, [])


def receipt(partition: int) -> Receipt:
    return Receipt("t", partition, "T", 0, 4, 5, 1, 1)


class Table:
    """A ledger that says whose the sink is."""

    def __init__(self, *, fenced: bool) -> None:
        self._fenced = fenced

    def check_epoch(self, _connection: object, epoch: int) -> None:
        assert epoch == 4
        if self._fenced:
            raise FencedError("it is another run's")


def dispatch_and_evolve(
    monkeypatch: pytest.MonkeyPatch,
    *answers: list[Report],
    evolved: list[SchemaChangeRequest],
    looked: list[str] | None = None,
    fenced: bool = False,
    waited: list[int] | None = None,
) -> tuple[Reports, list[Mapping[TopicPartition, PartitionLetters]]]:
    """Dispatch, with these reports of the tasks; what comes of it, and the published letters known each time.

    evolved: gets what tables were changed for; looked: which ones were described again; waited: behind how many
    dispatches the batch before was waited for.
    """
    looked = [] if looked is None else looked
    where, config = TopicPartition("t", 0), SinkConfig("s")
    context: Any = SimpleNamespace(config=config, namespace=Namespace("D", "S"))
    table: Any = Table(fenced=fenced)
    claim = Claim(Ledger("s", 4, {where: 0}), None, {"t": "id"})
    method: Any = SimpleNamespace(task_side=None, prepare_table=None)
    session: Any = EpochSession(context, None, table, 4)  # type: ignore[arg-type]
    limit, no_engine = BatchLimit(config, waits=False), None
    dispatcher: Any = Dispatcher(session, claim, method, Deadline(1.0), no_engine, limit, lambda _: None, {})  # type: ignore[arg-type]
    known: list[Mapping[TopicPartition, PartitionLetters]] = []
    reports = iter(answers)

    def dispatch_once(_ranges: object, letters: Mapping[TopicPartition, PartitionLetters]) -> Reports:
        known.append(dict(letters))
        return Reports(next(reports))

    def evolve(wanted: list[SchemaChangeRequest]) -> tuple[()]:
        evolved.extend(wanted)
        return ()

    monkeypatch.setattr(dispatcher, "_dispatch_once", dispatch_once)
    monkeypatch.setattr(dispatcher.loaders, "evolve", evolve)
    monkeypatch.setattr(dispatcher.loaders, "refresh", lambda tables: looked.extend(tables))
    monkeypatch.setattr(dispatch, "uncommitted_letters", lambda *_: {where: OUT})
    waited = waited if waited is not None else []
    return dispatcher.dispatch([OffsetRange("t", 0, 0, 5)], {}, lambda: waited.append(len(known))).reports, known


def test_letters_that_are_published_before_a_table_changes_are_reported_with_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, last = tolerated(0, 2, 7), tolerated(1, 1, 9)
    evolved: list[SchemaChangeRequest] = []
    answers: list[list[Report]] = [[receipt(0), first, REQUEST], [receipt(0), REQUEST], [receipt(0), receipt(1), last]]
    waited: list[int] = []
    reports, known = dispatch_and_evolve(monkeypatch, *answers, evolved=evolved, waited=waited)
    assert waited == [0, 1, 2]  # before tables are looked at, and before each change: the session is free then
    assert evolved == [REQUEST, REQUEST]
    assert [each.partition for each in reports.of(Receipt)] == [0, 1]
    assert reports.of(Tolerated) == [first, last]
    assert known == [{}, *[{TopicPartition("t", 0): OUT}] * 2]


def test_bad_records_without_a_letter_are_met_again(monkeypatch: pytest.MonkeyPatch) -> None:
    again = tolerated(0, 2, -1)
    reports, known = dispatch_and_evolve(monkeypatch, [again, REQUEST], [again], evolved=[])
    assert reports.of(Tolerated) == [again]
    assert known == [{}, {}]


def test_a_run_that_lost_the_sink_changes_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    evolved: list[SchemaChangeRequest] = []
    with pytest.raises(FencedError):
        dispatch_and_evolve(monkeypatch, [REQUEST], [receipt(0)], fenced=True, evolved=evolved)
    assert evolved == []


def test_a_suspected_stale_table_is_described_before_its_records_are_dispatched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evolved: list[SchemaChangeRequest] = []
    looked: list[str] = []
    answers: list[list[Report]] = [[receipt(0), SuspectedStaleSchema("t", 1, "T")], [receipt(0), receipt(1)]]
    reports, _ = dispatch_and_evolve(monkeypatch, *answers, evolved=evolved, looked=looked)
    assert (looked, evolved) == (["T"], [])
    assert [each.partition for each in reports.of(Receipt)] == [0, 1]


def test_a_table_that_is_dropped_while_it_is_changed_is_claimed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropped(list[SchemaChangeRequest]):
        def extend(self, _: object) -> None:
            raise MissingObjectError("Table not found: D.S.T.")

    with pytest.raises(ClaimAgainError, match=r"D\.S\.T"):
        dispatch_and_evolve(monkeypatch, [REQUEST], evolved=Dropped())
