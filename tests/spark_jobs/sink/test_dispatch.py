"""A batch whose tables change on the way: what counts of what was shipped before, and who may change them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from firn.connector.config import SinkConfig
from firn.dead_letters.published import Letters
from firn.errors import ClaimAgainError, FencedError
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.ledger.positions import Ledger
from firn.retry import Deadline
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink import dispatch
from spark_jobs.sink.dispatch import Claimed, Shipping
from spark_jobs.sink.limits import BatchLimit
from spark_jobs.sink.values.reports import Report, Reports, SchemaChangeRequest, Staged, SuspectedStaleSchema, Tolerated

WANTED = SchemaChangeRequest("t", 1, "T", None, {"NEW": "FLOAT"})
OUT = Letters(7, frozenset({3}))


def tolerated(partition: int, letters: int, group_offset: int) -> Tolerated:
    return Tolerated("t", partition, letters, letters, group_offset, {"unfitting_value": letters}, [])


def staged(partition: int) -> Staged:
    return Staged("t", partition, "T", "path", 0, 4, 5, 1, 1)


class Table:
    """A ledger that says whose the sink is."""

    def __init__(self, *, fenced: bool) -> None:
        self._fenced = fenced

    def check_epoch(self, _connection: object, epoch: int) -> None:
        assert epoch == 4
        if self._fenced:
            raise FencedError("it is another run's")


def ship_and_evolve(
    monkeypatch: pytest.MonkeyPatch,
    *answers: list[Report],
    evolved: list[SchemaChangeRequest],
    looked: list[str] | None = None,
    fenced: bool = False,
    settled: list[int] | None = None,
) -> tuple[Reports, list[Mapping[TopicPartition, Letters]]]:
    """Ship, with these reports of the tasks; what comes of it, and the letters known at each ship.

    evolved: gets what tables were changed for; looked: which ones were looked at again; settled: behind how many ships
    the batch before was waited for.
    """
    looked = [] if looked is None else looked
    where, config = TopicPartition("t", 0), SinkConfig("s")
    context: Any = SimpleNamespace(config=config, namespace=Namespace("D", "S"))
    claimed, table, limit = Claimed(Ledger("s", 4, {where: 0}), {"t": "id"}, {}), Table(fenced=fenced), BatchLimit
    ships: Any = Shipping(
        context,
        None,
        claimed,
        table,
        Deadline(1.0),
        None,
        limit(config, waits=False),
        lambda _: None,  # type: ignore[arg-type]
    )
    known: list[Mapping[TopicPartition, Letters]] = []
    reports = iter(answers)

    def ship(_ranges: object, letters: Mapping[TopicPartition, Letters]) -> Reports:
        known.append(dict(letters))
        return Reports(next(reports))

    def evolve(wanted: list[SchemaChangeRequest]) -> tuple[()]:
        evolved.extend(wanted)
        return ()

    monkeypatch.setattr(ships, "_ship_once", ship)
    monkeypatch.setattr(ships.loads, "evolve", evolve)
    monkeypatch.setattr(ships.loads, "look_again", lambda tables: looked.extend(tables))
    monkeypatch.setattr(dispatch, "letters_out", lambda *_: {where: OUT})
    settled = settled if settled is not None else []
    return ships.ship([OffsetRange("t", 0, 0, 5)], {}, lambda: settled.append(len(known))).reports, known


def test_letters_that_are_out_before_a_table_changes_are_told_of_with_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, last = tolerated(0, 2, 7), tolerated(1, 1, 9)
    evolved: list[SchemaChangeRequest] = []
    answers: list[list[Report]] = [[staged(0), first, WANTED], [staged(0), WANTED], [staged(0), staged(1), last]]
    settled: list[int] = []
    shipped, known = ship_and_evolve(monkeypatch, *answers, evolved=evolved, settled=settled)
    assert settled == [0, 1, 2]  # before tables are looked at, and before each change: the session is free then
    assert evolved == [WANTED, WANTED]
    assert [each.partition for each in shipped.of(Staged)] == [0, 1]
    assert shipped.of(Tolerated) == [first, last]
    assert known == [{}, *[{TopicPartition("t", 0): OUT}] * 2]


def test_bad_records_that_no_letter_tells_of_are_met_again(monkeypatch: pytest.MonkeyPatch) -> None:
    again = tolerated(0, 2, -1)
    shipped, known = ship_and_evolve(monkeypatch, [again, WANTED], [again], evolved=[])
    assert shipped.of(Tolerated) == [again]
    assert known == [{}, {}]


def test_a_run_that_lost_the_sink_changes_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    evolved: list[SchemaChangeRequest] = []
    with pytest.raises(FencedError):
        ship_and_evolve(monkeypatch, [WANTED], [staged(0)], fenced=True, evolved=evolved)
    assert evolved == []


def test_a_table_that_records_doubt_is_looked_at_before_they_are_shipped_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evolved: list[SchemaChangeRequest] = []
    looked: list[str] = []
    answers: list[list[Report]] = [[staged(0), SuspectedStaleSchema("t", 1, "T")], [staged(0), staged(1)]]
    shipped, _ = ship_and_evolve(monkeypatch, *answers, evolved=evolved, looked=looked)
    assert (looked, evolved) == (["T"], [])
    assert [each.partition for each in shipped.of(Staged)] == [0, 1]


def test_a_table_that_is_dropped_while_it_is_changed_is_claimed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropped(list[SchemaChangeRequest]):
        def extend(self, _: object) -> None:
            raise MissingObjectError("Table not found: D.S.T.")

    with pytest.raises(ClaimAgainError, match=r"D\.S\.T"):
        ship_and_evolve(monkeypatch, [WANTED], evolved=Dropped())
