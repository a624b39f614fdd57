"""Faults of the sink's own processes: killed, frozen, displaced, asked to stop."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from snowflake.connector import errors as driver

from firn.errors import FencedError
from tests.soak.keeper import Driver
from tests.soak.processes import alive, send
from tests.soak.schedule import Planned
from tests.soak.world import SETTLE_SECONDS, Fired, World
from tests.support.sinks import wait_until


def kill_driver(world: World, planned: Planned) -> Fired:
    """SIGKILL: the Python driver alone, whose JVM has to notice, or everything of it at once."""
    victim = world.keeper.driver
    family = victim.family
    at = time.time()
    for member in family if planned.whole else family[:1]:
        send(member, signal.SIGKILL)
    seen = victim.ended(-signal.SIGKILL, SETTLE_SECONDS)
    wait_until(lambda: not any(map(alive, family)), seconds=SETTLE_SECONDS, what="nothing of the driver lives on")
    return Fired(at, f"{seen}, {len(family)} processes are gone")


def kill_worker(world: World, planned: Planned) -> Fired:
    """SIGKILL one of Spark's Python workers."""
    wait_until(world.keeper.driver.workers, seconds=SETTLE_SECONDS, what="the driver has Python workers")
    workers = world.keeper.driver.workers()
    assert workers, "the workers went away by themselves"
    victim = workers[planned.pick % len(workers)]
    at = time.time()
    send(victim, signal.SIGKILL)
    wait_until(lambda: not alive(victim), what="the worker is gone")
    return Fired(at, f"worker {victim.pid}, one of {len(workers)}, is gone")


def stop_driver(world: World, planned: Planned) -> Fired:
    """SIGTERM: the batch that runs ends, and the exit code is 0."""
    victim = world.keeper.driver
    victim.may_end.add(0)
    send(psutil.Process(victim.process.pid), signal.SIGTERM)
    seen = victim.ended(0, SETTLE_SECONDS)
    return Fired(time.time(), seen)  # until then it may commit: that is no outage


def second_driver(world: World, planned: Planned) -> Fired:
    """Another driver of the same sink while one runs: the older one stops itself, for good."""
    epoch = world.watch.epoch
    old, new = world.keeper.displace()
    wait_until(lambda: world.watch.epoch > epoch, seconds=SETTLE_SECONDS, what="the second driver claims")
    at = time.time()  # until then the older one may commit
    seen = old.ended(FencedError.exit_code, SETTLE_SECONDS)
    return Fired(at, f"driver {new.number} claimed epoch {world.watch.epoch}, {seen}")


def zombie_driver(world: World, planned: Planned) -> Fired:
    """A driver is frozen, another takes over and commits, the first one wakes up: it must not write again."""
    victim, epoch = world.keeper.driver, world.watch.epoch
    with _frozen_without_lock(world, victim, whole=planned.whole) as at:
        old, new = world.keeper.displace()
        wait_until(lambda: world.watch.epoch > epoch, seconds=SETTLE_SECONDS, what="the second driver claims")
        claimed = world.watch.epoch
        world.watch.await_commit(time.time(), seconds=SETTLE_SECONDS, what="the second driver commits")
    seen = old.ended(FencedError.exit_code, SETTLE_SECONDS)
    return Fired(at, f"driver {new.number} claimed epoch {claimed} and committed; woken, {seen}")


@contextmanager
def _frozen_without_lock(world: World, victim: Driver, *, whole: bool) -> Iterator[float]:
    """The driver is stopped for the block, at a moment when it holds no lock on the ledger; when that was.

    Snowflake would keep the lock of a frozen session for hours, and every other driver waiting: an outage, no zombie.
    """
    frozen: list[psutil.Process] = []
    at = 0.0

    def freeze() -> bool:
        nonlocal frozen, at
        frozen, at = victim.family if whole else victim.family[:1], time.time()
        for member in frozen:
            send(member, signal.SIGSTOP)
        if _ledger_is_free(world):
            return True
        thaw()
        return False

    def thaw() -> None:
        for member in frozen:
            send(member, signal.SIGCONT)

    try:
        wait_until(freeze, seconds=SETTLE_SECONDS, what="the driver is frozen outside a commit")
        assert frozen[0].status() == psutil.STATUS_STOPPED, "the driver is not frozen"
        yield at
    finally:
        thaw()


def _ledger_is_free(world: World) -> bool:
    with world.connection() as connection, connection.cursor() as cursor:
        try:
            cursor.execute("BEGIN TRANSACTION")
            cursor.execute("UPDATE FIRN_OFFSETS SET UPDATED_AT = UPDATED_AT WHERE SINK = ?", (world.sink,))
        except driver.Error:
            return False
        else:
            return True
        finally:
            cursor.execute("ROLLBACK")
