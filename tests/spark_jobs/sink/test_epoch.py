"""What ends an epoch that runs, and what does not; and what its claim says."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from firn.connector.config import SinkConfig
from firn.errors import ClaimAgainError
from firn.kafka.partitions import TopicPartition
from firn.retry import Deadline
from spark_jobs.sink import epoch
from spark_jobs.sink.batch import PlanAgainError
from spark_jobs.spark.engine import EngineFailedError, EngineLostError, translated


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(time, "monotonic", moved)
    return moved


class Lives:
    """Signs of life that find nothing wrong."""

    def alive(self, *, idle: bool) -> None:
        self.idle = idle


@pytest.mark.parametrize(("well", "left"), [(True, 60.0), (False, 29.0)])
def test_patience_begins_anew_only_once_an_epoch_is_well(clock: Clock, *, well: bool, left: float) -> None:
    deadline = Deadline(60, clock)
    deadline.failed()
    lives: Any = Lives()
    watch = epoch.EpochWatch(lives, deadline, changed=lambda: False, refresh_seconds=30, healthy=lambda: well)
    clock.now += 31
    assert watch() is None
    assert lives.idle is well
    assert deadline.left() == left


def test_new_partitions_end_an_epoch(clock: Clock) -> None:
    lives: Any = Lives()
    watch = epoch.EpochWatch(lives, Deadline(60), changed=lambda: True, refresh_seconds=10, healthy=lambda: True)
    assert watch() is None
    clock.now += 11
    assert isinstance(watch(), PlanAgainError)


def test_a_run_gives_signs_while_its_claim_opens_channels_and_none_once_the_epoch_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where, happened = TopicPartition("t", 0), list[object]()

    class Table:
        def ledger_id(self, _connection: object) -> str:
            return "id"

        def ensure(self, _connection: object) -> None: ...

        def claim(self, _connection: object, observe: Callable[[], object], *_: object, **__: object) -> None:
            happened.append("epoch raised")
            observe()
            happened.append("channels opened")
            raise ClaimAgainError("their rows are on their way")

    life = SimpleNamespace(begin=lambda *of: happened.append(of), close=lambda: happened.append("no more signs"))
    parts: Any = SimpleNamespace(table=Table(), life=life, admin=None, report=SimpleNamespace(epoch=1))
    context: Any = SimpleNamespace(config=SinkConfig("s"), login=None, namespace=None)
    monkeypatch.setattr(epoch, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(epoch, "topics_of", lambda *_: {})
    monkeypatch.setattr(epoch, "partitions_in", lambda *_: {where: None})
    with pytest.raises(ClaimAgainError):
        epoch.Epoch(context, parts).run()
    assert happened == ["epoch raised", ("id", where), "channels opened", "no more signs"]


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ConnectionRefusedError(), EngineLostError),
        (Py4JNetworkError("gone"), EngineLostError),
        (Py4JError("x"), EngineFailedError),
    ],
)
def test_a_jvm_that_is_gone_is_told_from_one_that_complains(raised: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind) as told, translated("query of sink s"):
        raise raised
    assert type(told.value) is kind


def test_a_run_says_from_where_it_reads() -> None:
    committed = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 5}
    waiting = dict(zip(committed, (0, 10), strict=True))
    first = "t-1 from 5 (10 waiting), t-0 from 5 (0 waiting)"
    assert epoch._describe_start(committed, waiting) == f"2 partitions, 10 records waiting: {first}"


def test_of_many_partitions_a_run_names_the_longest_backlogs() -> None:
    most = epoch.PARTITIONS_IN_LINE
    waiting = {TopicPartition("t", p): p for p in range(most + 2)}
    line = epoch._describe_start(dict.fromkeys(waiting, 0), waiting)
    assert f"t-{most + 1} from 0 ({most + 1} waiting), " in line
    assert line.endswith(", 2 more")
    assert "t-1 " not in line
