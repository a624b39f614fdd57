"""A soak's schedule comes from its seed alone, and every kind of fault can be injected."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from firn.connector.config import Method
from firn.settings import PROJECT_ROOT
from tests.soak.faults import FAULTS
from tests.soak.schedule import KINDS, SHORT, kinds_of, schedule

LONG = 15 * 60.0


def test_the_same_seed_gives_the_same_schedule_in_another_process() -> None:
    script = "from tests.soak.schedule import schedule; print(*schedule(7, 900), sep='\\n')"
    printed = [
        subprocess.run([sys.executable, "-c", script], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert {run.stdout for run in printed} == {"".join(f"{planned}\n" for planned in schedule(7, LONG))}


def test_another_seed_gives_another_schedule() -> None:
    assert schedule(7, LONG) != schedule(8, LONG)


@pytest.mark.parametrize("method", Method)
def test_fifteen_minutes_hold_every_kind_of_the_method_and_in_rounds(method: Method) -> None:
    for seed in range(20):
        count = Counter(planned.kind for planned in schedule(seed, LONG, method=method))
        assert set(count) == set(kinds_of(method))
        assert max(count.values()) - min(count.values()) <= 1


@pytest.mark.parametrize("method", Method)
def test_two_minutes_hold_one_of_each_important_kind(method: Method) -> None:
    for seed in range(20):
        kinds = [planned.kind for planned in schedule(seed, 108.0, method=method)]
        assert sorted(kinds) == sorted(SHORT[method])
        assert set(kinds) <= set(kinds_of(method))


def test_every_kind_belongs_to_a_method() -> None:
    assert {kind for method in Method for kind in kinds_of(method)} == set(KINDS)
    assert "drop-staged-files" not in kinds_of(Method.SNOWPIPE_STREAMING)
    assert "stale-tokens" not in kinds_of(Method.SNOWPIPE)


@pytest.mark.parametrize("method", Method)
def test_faults_come_one_after_the_other_and_end_in_time(method: Method) -> None:
    for seed in range(20):
        planned = schedule(seed, LONG, method=method)
        starts = [fault.at for fault in planned]
        assert starts == sorted(starts)
        assert all(after - fault.at >= KINDS[fault.kind] for fault, after in zip(planned, starts[1:], strict=False))
        assert planned[-1].at + KINDS[planned[-1].kind] <= LONG


def test_every_kind_can_be_injected() -> None:
    assert set(FAULTS) == set(KINDS)
