"""The tasks of a continuous run on the driver: each a Spark job of its own in a thread of its own.

Not for which group gets a task, and when (`groups`, `run`), nor for what a task does (`task.group_task`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from firn.dead_letters.published import PartitionLetters
from firn.errors import FirnError
from firn.kafka.partitions import TopicPartition
from firn.plural import counted
from firn.retry import Deadline
from spark_jobs.sink.continuous.groups import Group
from spark_jobs.sink.dispatch import uncommitted_letters
from spark_jobs.sink.methods.base import Claim, ContinuousTaskSide, DriverSide, EpochSession
from spark_jobs.sink.task.followed_partition import PartitionWork
from spark_jobs.sink.task.group_task import GroupPlan, GroupWork, run_group
from spark_jobs.sink.values.batches import PublishedLetters
from spark_jobs.sink.values.reports import Reports, load
from spark_jobs.sink.values.table_loaders import TableLoader
from spark_jobs.spark.engine import EpochEngine

CANCEL_SECONDS = 10.0
"""How long cancelled tasks may take to end; who opens their channels next fences them."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StartedTask:
    """A task that was started: its group, how it loads its tables, and its reports as texts."""

    group: Group
    loaders: Mapping[str, TableLoader]
    texts: Future[list[str]]

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.texts.done()

    def reports(self) -> Reports:
        """What it said at its end. Raises EngineFailedError."""
        return Reports(map(load, self.texts.result()))


class GroupTasks:
    """Starts tasks and waits for them; at most `most` at a time. For the driver's main thread.

    published: dead letters that the claim found. documents: the group in Kafka that the tasks' reports go to. until:
    where a task may leave each partition; None: nowhere.
    """

    def __init__(
        self,
        session: EpochSession,
        claim: Claim,
        method: DriverSide,
        published: PublishedLetters,
        engine: EpochEngine,
        deadline: Deadline,
        *,
        documents: str,
        until: Mapping[TopicPartition, int] | None,
    ) -> None:
        self._session, self._context, self._claim = session, session.context, claim
        self._task_side, self._published = _continuous(method), published
        self._engine, self._deadline, self._documents, self._until = engine, deadline, documents, until
        self.most = min(engine.slots, self._context.config.tasks_max or len(claim.ledger.committed)) or 1
        self._pool = ThreadPoolExecutor(self.most, "firn-group")
        self._running: list[StartedTask] = []

    def __len__(self) -> int:
        """How many were started and not taken over yet."""
        return len(self._running)

    @property
    def idle(self) -> bool:
        """Whether none is under way."""
        return all(each.done for each in self._running)

    def start(self, group: Group, loaders: Mapping[str, TableLoader], letters: PublishedLetters) -> None:
        """Start a task for a group that has just begun (`Groups.started`). letters: what `letters_of` gave."""
        work = GroupWork(group.attempt, tuple(self._work(where, letters) for where in group.partitions))
        plan = GroupPlan(
            self._context,
            self._task_side,
            self._session.epoch,
            self._claim.ledger.ledger_id,
            loaders,
            max(1.0, self._deadline.left()),
            self._documents,
            self._context.config.streaming.idle_seconds,
        )
        log.info("following %s in task %d", counted(len(group.partitions), "partition"), group.attempt)
        texts = self._pool.submit(self._engine.run, partial(run_group, plan), [work])
        self._running.append(StartedTask(group, loaders, texts))

    def letters_of(self, group: Group) -> PublishedLetters:
        """The dead letters of its partitions that the ledger does not cover; a task before may have published some."""
        if group.attempt == 0 or self._claim.owner is None or not self._claim.owner.letters:
            return self._published
        committed = self._claim.ledger.committed
        return uncommitted_letters(self._context, self._claim, {where: committed[where] for where in group.partitions})

    def next_ended(self) -> StartedTask | None:
        """One that has ended, taken over by this; None where all the others run."""
        ended = next((each for each in self._running if each.done), None)
        if ended is not None:
            self._running.remove(ended)
        return ended

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait until one of them ends; where there is none, until `stop`."""
        if self._running:
            wait([each.texts for each in self._running], seconds, return_when="FIRST_COMPLETED")
        else:
            stop.wait(seconds)

    def cancel(self) -> list[Reports]:
        """Give up what runs; what those say that end in time."""
        running = [each.texts for each in self._running if not each.texts.cancel()]
        if any(not each.done() for each in running):
            with suppress(FirnError):
                self._engine.cancel()
            wait(running, CANCEL_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)
        found = []
        while (task := self.next_ended()) is not None:
            if not task.texts.cancelled() and task.texts.exception() is None:
                found.append(task.reports())
        return found

    def _work(self, where: TopicPartition, letters: PublishedLetters) -> PartitionWork:
        until = None if self._until is None else self._until[where]
        topic_id = self._claim.topic_ids[where.topic]
        return PartitionWork(where, topic_id, letters.get(where, PartitionLetters()), until)


def _continuous(method: DriverSide) -> ContinuousTaskSide:
    side = method.task_side
    if not isinstance(side, ContinuousTaskSide):
        raise FirnError(f"{type(method).__name__} is no continuous method.")
    return side
