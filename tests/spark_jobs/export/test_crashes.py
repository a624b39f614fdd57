"""A run that ends anywhere loses nothing and doubles nothing: the next one continues from ledger, outbox and marker."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from firn.connector.export.config import BatchConfig
from firn.errors import FencedError, TerminalError
from firn.exports.ledger import ExportLedger
from firn.exports.markers import MarkerKey, remove_markers
from firn.kafka.transactional_producer import TransactionSession
from spark_jobs.export import epoch, task
from spark_jobs.export.task import Publisher
from tests.spark_jobs.export.conftest import World

pytestmark = pytest.mark.stack
ORDERS = 25
_BATCHES = {"batch": BatchConfig(rows=10)}


class KilledError(BaseException):
    """A process that ends here."""


def killing(target: Any, name: str, *, after: bool, nth: int = 1) -> Callable[..., Any]:
    """`target.name`, which ends the process at its nth call: before it does anything, or once it has."""
    whole, calls = getattr(target, name), Counter[str]()

    def call(*args: Any, **kwargs: Any) -> Any:
        calls["n"] += 1
        if calls["n"] != nth:
            return whole(*args, **kwargs)
        if after:
            whole(*args, **kwargs)
        raise KilledError

    return call


POINTS = {
    "before the move": (epoch, "move", False, 1),
    "after the move": (epoch, "move", True, 1),
    "in the Kafka transaction": (TransactionSession, "flush", True, 3),
    "before the commit": (TransactionSession, "_commit", False, 3),
    "between commit and settle": (TransactionSession, "_commit", True, 3),
    "before the settle": (task, "settle", False, 1),
    "after the settle": (task, "settle", True, 1),
}


_QUICK = ("between commit and settle",)


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=[] if point in _QUICK else pytest.mark.full) for point in POINTS]
)
def test_a_run_that_ends_anywhere_is_continued_exactly(
    world: World, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.more = _BATCHES
    world.run()  # first markers, topics
    world.sql(f"INSERT INTO ORDERS SELECT SEQ4(), 'new', 1 FROM TABLE(GENERATOR(ROWCOUNT => {ORDERS}))")
    target, name, after, nth = POINTS[point]
    with monkeypatch.context() as patched:
        patched.setattr(target, name, killing(target, name, after=after, nth=nth))
        with pytest.raises(KilledError):
            world.run()
    world.sql("UPDATE ORDERS SET STATUS = 'paid' WHERE ID < 5")
    world.run()
    world.run()
    found = Counter((message.key(), json.loads(message.value() or b"")["STATUS"]) for message in world.messages())
    assert set(found.values()) == {1}
    assert len({key for key, _ in found}) == ORDERS
    assert sum(status == "paid" for _, status in found) == 5
    assert world.waiting() == 0
    assert sum(row["ROW_COUNT"] for row in world.history()) == len(world.messages())


@pytest.mark.full
def test_an_answer_to_commit_that_is_lost_publishes_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.more = _BATCHES
    world.run()
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1), (2, 'new', 2)")
    whole, lost = TransactionSession._commit, list[int]()

    def commit(session: TransactionSession) -> None:
        whole(session)
        if not lost:
            lost.append(1)
            raise session._explained(KafkaException(KafkaError(KafkaError._TIMED_OUT)), "commit a transaction")

    monkeypatch.setattr(TransactionSession, "_commit", commit)
    world.run()
    assert lost
    assert len(world.messages()) == 2
    assert world.waiting() == 0


def test_of_two_exporters_the_newer_one_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.more = _BATCHES
    world.run()
    world.sql(f"INSERT INTO ORDERS SELECT SEQ4(), 'new', 1 FROM TABLE(GENERATOR(ROWCOUNT => {ORDERS}))")
    whole, runs = Publisher._publish, list[int]()

    def publish(publisher: Publisher, *args: Any) -> None:
        whole(publisher, *args)
        if not runs:
            runs.append(1)
            runs.append(world.run().rows)

    monkeypatch.setattr(Publisher, "_publish", publish)
    with pytest.raises(FencedError, match="belongs to a newer run"):
        world.run()
    assert runs[1] == ORDERS - 10, "the newer run publishes what the older one has not"
    assert len(world.messages()) == ORDERS
    assert world.waiting() == 0


def test_a_marker_that_is_gone_stops_the_export(world: World) -> None:
    world.run()
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1)")
    world.run()
    standing = ExportLedger(world.schema, world.name).standing(world.connection)
    assert standing is not None
    remove_markers(world.context.kafka, world.config.marker_topic, [MarkerKey(standing.id, "orders", 0)])
    world.sql("INSERT INTO ORDERS VALUES (2, 'new', 1)")
    with pytest.raises(TerminalError, match="The marker of source orders is gone"):
        world.run()


@pytest.mark.full
def test_a_run_that_is_asked_to_stop_ends_and_says_so(world: World) -> None:
    stop = threading.Event()
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1)")
    thread = threading.Timer(6, stop.set)
    thread.start()
    report = world.run(once=False, stop=stop)
    thread.join()
    assert report.epoch == 1
