"""The faults of a soak by kind, each with its proof that it fired. Not for when they come (`schedule`).

A fault takes the world as it is, does its harm, and returns when the harm was done (Unix seconds) and what was seen of
it. An assertion that fails means that it did not fire: the soak is then no proof of anything, and fails.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
from snowflake.connector import errors as driver

from firn.errors import FencedError
from tests.soak.keeper import Driver, Keeper
from tests.soak.schedule import Planned
from tests.soak.stack import SoakStack
from tests.soak.traffic import Traffic
from tests.soak.watch import Watch, brief_connection
from tests.support.sinks import wait_until

SETTLE_SECONDS = 120
"""How long a new driver may take to its first commit, and an old one to its end, on a busy machine."""


@dataclass(frozen=True)
class World:
    """What faults are done to."""

    stack: SoakStack
    keeper: Keeper
    traffic: Traffic
    watch: Watch
    sink: str


@dataclass(frozen=True)
class Fired:
    """When a fault struck (Unix seconds) and how we know."""

    at: float
    evidence: str


def kill_driver(world: World, planned: Planned) -> Fired:
    """SIGKILL: the Python driver alone, whose JVM has to notice, or everything of it at once."""
    victim = world.keeper.driver
    family = victim.family
    at = time.time()
    for member in family if planned.whole else family[:1]:
        _signal(member, signal.SIGKILL)
    seen = victim.ended(-signal.SIGKILL, SETTLE_SECONDS)
    wait_until(lambda: not any(map(_runs, family)), seconds=SETTLE_SECONDS, what="nothing of the driver lives on")
    return Fired(at, f"{seen}, {len(family)} processes are gone")


def kill_worker(world: World, planned: Planned) -> Fired:
    """SIGKILL one of Spark's Python workers."""
    wait_until(world.keeper.driver.workers, seconds=SETTLE_SECONDS, what="the driver has Python workers")
    workers = world.keeper.driver.workers()
    assert workers, "the workers went away by themselves"
    victim = workers[planned.pick % len(workers)]
    at = time.time()
    _signal(victim, signal.SIGKILL)
    wait_until(lambda: not _runs(victim), what="the worker is gone")
    return Fired(at, f"worker {victim.pid}, one of {len(workers)}, is gone")


def stop_driver(world: World, planned: Planned) -> Fired:
    """SIGTERM: the batch that runs ends, and the exit code is 0."""
    victim = world.keeper.driver
    victim.may_end.add(0)
    at = time.time()
    _signal(psutil.Process(victim.process.pid), signal.SIGTERM)
    return Fired(at, victim.ended(0, SETTLE_SECONDS))


def second_driver(world: World, planned: Planned) -> Fired:
    """Another driver of the same sink while one runs: the older one stops itself, for good."""
    epoch, at = world.watch.epoch, time.time()
    old, new = world.keeper.displace()
    wait_until(lambda: world.watch.epoch > epoch, seconds=SETTLE_SECONDS, what="the second driver claims")
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


def kill_kafka(world: World, planned: Planned) -> Fired:
    """The broker is killed and comes back."""
    return _outage(world, "kafka", planned)


def kill_snowflake(world: World, planned: Planned) -> Fired:
    """Snowflake is killed and comes back: open transactions are gone, what was committed is there."""
    return _outage(world, "snowflake", planned)


def kill_registry(world: World, planned: Planned) -> Fired:
    """The registry is killed just when records of a schema that nobody has looked up yet arrive, and comes back."""
    schema, schema_id = world.traffic.register_version()
    at = time.time()
    seen = world.stack.kill("schema-registry")
    world.traffic.use(schema, schema_id)
    time.sleep(planned.outage)
    world.stack.start_again("schema-registry")
    return Fired(at, f"{seen}; schema id {schema_id} was new meanwhile")


def drop_staged_files(world: World, planned: Planned) -> Fired:
    """Every file of the sink in the stage is removed by somebody else, between PUT and COPY."""
    removed: list[str] = []
    with _connection(world) as connection, connection.cursor() as cursor:

        def remove() -> bool:
            removed.extend(str(row[0]) for row in cursor.execute(f"REMOVE @FIRN_STAGE/{world.sink}/").fetchall())
            return bool(removed)

        wait_until(remove, seconds=SETTLE_SECONDS, what="files are in the stage")
    return Fired(time.time(), f"{len(removed)} staged files were removed")


def delete_checkpoint(world: World, planned: Planned) -> Fired:
    """The folder with Spark's plans is deleted while the query runs."""
    folders = sorted((world.stack.root / "checkpoints" / "firn").glob(f"*/{world.sink}"))
    assert folders, "there is no checkpoint"
    at = time.time()
    shutil.rmtree(folders[0])
    return Fired(at, f"{folders[0].relative_to(world.stack.root)} was deleted")


def add_partition(world: World, planned: Planned) -> Fired:
    """The topic gets a partition that records flow into at once."""
    at = time.time()
    number = world.traffic.add_partition()
    topic = world.traffic.busy.topic.name
    with _connection(world) as connection, connection.cursor() as cursor:
        statement = "SELECT NEXT_OFFSET FROM FIRN_OFFSETS WHERE SINK = ? AND TOPIC = ? AND PARTITION = ?"

        def moved() -> bool:
            row = cursor.execute(statement, (world.sink, topic, number)).fetchone()
            return bool(row and row[0] > 0)

        wait_until(moved, seconds=SETTLE_SECONDS, what=f"partition {number} is committed")
    return Fired(at, f"partition {number} of {topic} is there and in the ledger")


FAULTS: dict[str, Callable[[World, Planned], Fired]] = {
    "kill-driver": kill_driver,
    "kill-worker": kill_worker,
    "zombie-driver": zombie_driver,
    "stop-driver": stop_driver,
    "second-driver": second_driver,
    "kill-kafka": kill_kafka,
    "kill-registry": kill_registry,
    "kill-snowflake": kill_snowflake,
    "drop-staged-files": drop_staged_files,
    "delete-checkpoint": delete_checkpoint,
    "add-partition": add_partition,
}


def _outage(world: World, server: str, planned: Planned) -> Fired:
    at = time.time()
    seen = world.stack.kill(server)
    time.sleep(planned.outage)
    if planned.whole:
        kill_driver(world, planned)
        seen += "; the driver was killed meanwhile"
    world.stack.start_again(server)
    return Fired(at, seen)


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
            _signal(member, signal.SIGSTOP)
        if _ledger_is_free(world):
            return True
        thaw()
        return False

    def thaw() -> None:
        for member in frozen:
            _signal(member, signal.SIGCONT)

    try:
        wait_until(freeze, seconds=SETTLE_SECONDS, what="the driver is frozen outside a commit")
        assert frozen[0].status() == psutil.STATUS_STOPPED, "the driver is not frozen"
        yield at
    finally:
        thaw()


def _ledger_is_free(world: World) -> bool:
    with _connection(world) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("BEGIN TRANSACTION")
            cursor.execute("UPDATE FIRN_OFFSETS SET UPDATED_AT = UPDATED_AT WHERE SINK = ?", (world.sink,))
        except driver.Error:
            return False
        else:
            return True
        finally:
            cursor.execute("ROLLBACK")


@contextmanager
def _connection(world: World) -> Iterator[Any]:
    connection = brief_connection(world.stack.settings)
    try:
        yield connection
    finally:
        connection.close()


def _signal(member: psutil.Process, number: signal.Signals) -> None:
    try:
        member.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _runs(member: psutil.Process) -> bool:
    try:
        return member.is_running() and member.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
