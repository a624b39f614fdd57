"""Two hours of supervision in a few seconds: what it keeps and what it says does not grow."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections import Counter

from tests.support.supervision import SILENT, World

HOURS = 2
SECONDS = HOURS * 3600


def second(world: World) -> None:
    """Ten minutes of records each second, five idle, a broker that is away for a minute, a driver that dies."""
    at = int(world.now) % 1800
    if at == 1000:
        world.fault = SILENT
    elif at == 1060:
        world.fault = None
    elif at == 1300:
        world.driver.end(-9)
    elif at == 1500:
        world.end_offset += 5  # and nobody takes them for a while
    elif at == 1600:
        world.commit(0)
    elif at < 600:
        world.commit()


def test_two_hours_leave_memory_and_what_is_told_flat() -> None:
    world = World()
    used: list[int] = []
    told: Counter[str] = Counter()

    def each_second() -> None:
        second(world)
        if world.now % 1800 == 1799:
            told.update(world.emitted())
            told["notes"] += len(world.notes)
            told["drivers"] += len(world.drivers) - 1
            # What is left is the supervisor's own.
            world.events.clear()
            world.sentences.clear()
            world.notes.clear()
            world.looks.clear()
            del world.drivers[:-1]
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])

    world.each_second = each_second
    world.script = {SECONDS: world.supervisor.ask}
    tracemalloc.start()
    try:
        assert world.run().kind == "ended"
    finally:
        tracemalloc.stop()
    rounds = SECONDS // 1800
    assert told["drivers"] == rounds
    # Every fault was told and every recovery, in each round.
    assert (told["stalled"], told["recovered"]) == (2 * rounds, 2 * rounds)
    # 10 minutes of commits, each second: two events a minute.
    assert told["committed"] <= rounds * 25
    # One note for each change of state, none for records that flow.
    assert told["notes"] <= rounds * 8
    assert world.snapshot is not None
    assert len(world.snapshot.history) <= 720
    # The history may still fill up; nothing else grows.
    assert used[-1] - used[0] < 300_000


def test_supervision_needs_neither_spark_nor_prefect() -> None:
    """So no task run and no state of Prefect's can come from it."""
    look = "import sys, firn.supervisor.supervisor; print([m for m in ('prefect', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
