"""What ends an epoch that runs, and what does not; and what its claim says."""

from __future__ import annotations

import time
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from firn.kafka.partitions import TopicPartition
from firn.retry import Deadline
from spark_jobs.sink import epoch
from spark_jobs.sink.batch import PlanAgainError
from spark_jobs.sink.spark.engine import EngineFailedError, EngineLostError, translated


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
