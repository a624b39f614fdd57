"""One epoch's stream of batches: while one commits, the next is dispatched. Commits stay in order.

A fault of a batch is held until the one before has ended. When one fails, the batch behind it is dropped, and the
epoch ends: a cancelled task may still publish dead letters, which the next claim finds out.
Not for what a batch does (`batch`), nor for why an epoch ends (`epoch`, `run`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from firn.errors import FirnError
from firn.ledger.positions import Ledger, Move
from firn.logs import log_context
from spark_jobs.sink.batch import BatchRunner, ended_by, stop_requested
from spark_jobs.sink.dispatch import letters_above
from spark_jobs.sink.planner import Planner
from spark_jobs.sink.values.batches import CommittedBatch, DispatchedBatch, PublishedLetters
from spark_jobs.spark.engine import Engine

STOP_SECONDS = 40.0
"""How long what is under way may take to its end once a stop was asked for."""
CANCEL_SECONDS = 10.0
"""How long cancelled tasks may take to end; the epoch that follows fences them."""
MIN_POLL_SECONDS = 0.1
"""Between two polls of Kafka's offsets where nothing is there, at least."""
_TICK_SECONDS = 1.0


class DroppedError(FirnError):
    """The batch before this one failed: the batch behind it is dropped. The commit that failed raises that fault."""


@dataclass(frozen=True)
class _Commit:
    """A commit under way."""

    batch: DispatchedBatch
    moves: tuple[Move, ...]
    done: Future[CommittedBatch]


class Stream:
    """The batches of one epoch. `run` is for the driver's main thread; dispatches and commits have a thread each."""

    def __init__(
        self,
        planner: Planner,
        runner: BatchRunner,
        ledger: Ledger,
        engine: Engine,
        published: PublishedLetters,
        stop: threading.Event,
        *,
        seconds: float,
        on_commit: Callable[[CommittedBatch], None],
    ) -> None:
        self._planner, self._runner, self._ledger, self._engine = planner, runner, ledger, engine
        self._published, self._stop, self._on_commit = published, stop, on_commit
        self._seconds = max(seconds, MIN_POLL_SECONDS)
        self._next_poll = 0.0
        self._number = 0
        self._dispatching: Future[DispatchedBatch | None] | None = None
        self._commit: _Commit | None = None
        self._ending = False
        self._dispatch_pool = ThreadPoolExecutor(1, "firn-dispatch")
        self._commit_pool = ThreadPoolExecutor(1, "firn-commit")
        self.polled = False

    @property
    def healthy(self) -> bool:
        """Whether Kafka's offsets have been asked for, and nothing is under way."""
        return self.idle and self.polled

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._dispatching is None and self._commit is None

    def run(self, reason_to_end: Callable[[], FirnError | None]) -> None:
        """Run until all that was available is committed, for a run that ends then; raises what ends it otherwise.

        reason_to_end is asked every second: what it gives is raised once what is under way has ended. So is a stop that
        was asked for, as StopRequestedError.
        """
        with ended_by(self._stop, "a batch of the sink failed"):
            try:
                reason = self._run(reason_to_end)
            finally:
                self._abandon()
            if reason is not None:
                raise stop_requested() if self._stop.is_set() else reason

    def _run(self, reason_to_end: Callable[[], FirnError | None]) -> FirnError | None:
        reason: FirnError | None = None
        deadline: float | None = None
        while not (self._ending and self.idle):
            self._step()
            reason = reason or (stop_requested() if self._stop.is_set() else reason_to_end())
            self._ending = self._ending or reason is not None
            if self._stop.is_set():
                deadline = deadline or time.monotonic() + STOP_SECONDS
                if time.monotonic() > deadline:
                    break
        return reason

    def _step(self) -> None:
        """Take over what has ended, begin what can begin, and wait for something to end."""
        if self._commit is not None and self._commit.done.done():
            self._committed(self._commit)
        if self._dispatching is not None and self._dispatching.done() and self._commit is None:
            self._dispatched(self._dispatching)
        now = time.monotonic()
        if self._dispatching is None and not self._ending and now >= self._next_poll:
            self._next_poll = now + self._seconds
            self._dispatch()
        under_way: list[Future[Any] | None] = [self._dispatching, self._commit.done if self._commit else None]
        running = [each for each in under_way if each and not each.done()]
        until_poll = max(0.0, self._next_poll - time.monotonic())
        pause = _TICK_SECONDS if self._dispatching or self._ending else min(_TICK_SECONDS, until_poll)
        if running:
            wait(running, pause, return_when="FIRST_COMPLETED")
        elif not self._ending and not (self._dispatching and self._dispatching.done()):
            self._stop.wait(pause)

    def _dispatch(self) -> None:
        """Plan and dispatch the next batch in its thread, behind the one that commits."""
        number, positions, published = self._number, self._ledger.positions(), self._published
        previous = self._commit

        def wait_for_previous() -> None:
            if previous is not None:
                with suppress(BaseException):
                    previous.done.result()
                    return
                raise DroppedError("The batch before failed.")

        def dispatch() -> DispatchedBatch | None:
            ranges = self._planner.next(positions)
            return self._runner.dispatch(number, ranges, published, wait_for_previous) if ranges else None

        self._dispatching = self._dispatch_pool.submit(dispatch)

    def _dispatched(self, dispatching: Future[DispatchedBatch | None]) -> None:
        """The tasks of the next batch and the commit of the one before have ended: commit."""
        self._dispatching, batch = None, dispatching.result()
        self.polled = True
        if batch is None:
            self._ending = self._ending or self._planner.done(self._ledger.positions())
            return
        self._number += 1
        moves = self._ledger.add_in_flight(batch.ranges, {each.where: each.offset for each in batch.ends})
        self._published = batch.published
        self._commit = _Commit(batch, moves, self._commit_pool.submit(self._runner.commit, batch, moves))
        # Behind a record that stops the sink, or a cut, nothing is planned: positions are not where the ranges ended.
        self._ending = self._ending or bool(batch.ends) or self._planner.done(self._ledger.positions())

    def _committed(self, commit: _Commit) -> None:
        self._commit, committed = None, commit.done.result()
        self._ledger.advance(commit.moves)
        self._published = letters_above(self._published, self._ledger.committed)
        with log_context(batch=committed.name):
            self._on_commit(committed)
            self._runner.after(commit.batch, commit.moves)

    def _abandon(self) -> None:
        """Give up what is under way: a commit runs to its end, tasks are cancelled, nothing new begins."""
        if self._commit is not None:
            with suppress(BaseException):
                self._commit.done.result(CANCEL_SECONDS)
        if self._dispatching is not None and not self._dispatching.cancel() and not self._dispatching.done():
            with suppress(FirnError):
                self._engine.cancel()
            wait([self._dispatching], CANCEL_SECONDS)
        self._dispatch_pool.shutdown(wait=False, cancel_futures=True)
        self._commit_pool.shutdown(wait=False, cancel_futures=True)
