"""One epoch's stream of batches: while one commits, the next is read and staged. Commits stay in order.

A fault of a batch is held until the one before has ended. When one fails, what was staged behind it is dropped, and the
epoch ends: a task that was given up may still publish dead letters, which the next claim finds out.
Not for what a batch does (`batch`), nor for why an epoch ends (`watch`, `run`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from firn.errors import FirnError, TerminalError, unexpected
from firn.ledger.positions import Ledger, Move
from firn.logs import log_context
from spark_jobs.sink.batch import BatchRunner, Committed, StagedBatch, StopRequestedError
from spark_jobs.sink.dispatch import LettersOut, letters_above
from spark_jobs.sink.planner import Planner
from spark_jobs.sink.spark.engine import Engine

STOP_SECONDS = 40.0
"""How long what is under way may take to its end once a stop was asked for."""
CANCEL_SECONDS = 10.0
"""How long tasks that are given up may take to end; the epoch that follows fences them."""
LEAST_WAIT = 0.1
"""Seconds between two looks at Kafka where nothing is there, at least."""
_TICK_SECONDS = 1.0
log = logging.getLogger(__name__)


class DroppedError(FirnError):
    """The batch before this one failed: what was staged behind it is dropped. Who waits for it raises that fault."""


@dataclass(frozen=True)
class _Commit:
    """A commit under way."""

    batch: StagedBatch
    moves: tuple[Move, ...]
    done: Future[Committed]


class Stream:
    """The batches of one epoch. `run` is for the driver's main thread; stages and commits have a thread each."""

    def __init__(
        self,
        planner: Planner,
        runner: BatchRunner,
        ledger: Ledger,
        engine: Engine,
        letters: LettersOut,
        stop: threading.Event,
        *,
        seconds: float,
        on_commit: Callable[[Committed], None],
    ) -> None:
        self._planner, self._runner, self._ledger, self._engine = planner, runner, ledger, engine
        self._letters, self._stop, self._on_commit = letters, stop, on_commit
        self._seconds = max(seconds, LEAST_WAIT)
        self._next_look = 0.0
        self._number = 0
        self._staging: Future[StagedBatch | None] | None = None
        self._commit: _Commit | None = None
        self._last = False
        self._stagers = ThreadPoolExecutor(1, "firn-stage")
        self._committers = ThreadPoolExecutor(1, "firn-commit")
        self.looked = False

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._staging is None and self._commit is None

    def run(self, reason_to_end: Callable[[], FirnError | None]) -> None:
        """Run until all that was available is committed, for a run that ends then; raises what ends it otherwise.

        reason_to_end is asked every second: what it gives is raised once what is under way has ended. So is a stop that
        was asked for, as StopRequestedError.
        """
        why: FirnError | None = None
        deadline: float | None = None
        try:
            while not (self._last and self.idle):
                self._step()
                why = why or (_asked_to_stop() if self._stop.is_set() else reason_to_end())
                self._last = self._last or why is not None
                if self._stop.is_set():
                    deadline = deadline or time.monotonic() + STOP_SECONDS
                    if time.monotonic() > deadline:
                        break
        except FirnError as error:
            if not self._stop.is_set() or isinstance(error, TerminalError):
                raise
            raise _asked_to_stop() from error
        except Exception as error:
            if self._stop.is_set():
                log.debug("a batch failed while the sink was stopping", exc_info=True)
                raise _asked_to_stop() from error
            log.exception("a batch of the sink failed")
            raise unexpected(error) from error
        finally:
            self._drop()
        if why is not None:
            raise _asked_to_stop() if self._stop.is_set() else why

    def _step(self) -> None:
        """Take over what has ended, begin what can begin, and wait for something to end."""
        if self._commit is not None and self._commit.done.done():
            self._committed(self._commit)
        if self._staging is not None and self._staging.done() and self._commit is None:
            self._staged(self._staging)
        now = time.monotonic()
        if self._staging is None and not self._last and now >= self._next_look:
            self._next_look = now + self._seconds
            self._stage()
        under_way: list[Future[Any] | None] = [self._staging, self._commit.done if self._commit else None]
        running = [each for each in under_way if each and not each.done()]
        until_look = max(0.0, self._next_look - time.monotonic())
        pause = _TICK_SECONDS if self._staging or self._last else min(_TICK_SECONDS, until_look)
        if running:
            wait(running, pause, return_when="FIRST_COMPLETED")
        elif not self._last and not (self._staging and self._staging.done()):
            self._stop.wait(pause)

    def _stage(self) -> None:
        """Plan and stage the next batch in its thread, behind the one that commits."""
        number, positions, letters, before = self._number, self._ledger.positions(), self._letters, self._commit

        def settled() -> None:
            if before is not None:
                with suppress(BaseException):
                    before.done.result()
                    return
                raise DroppedError("The batch before failed.")

        def stage() -> StagedBatch | None:
            ranges = self._planner.next(positions)
            return self._runner.stage(number, ranges, letters, settled) if ranges else None

        self._staging = self._stagers.submit(stage)

    def _staged(self, staging: Future[StagedBatch | None]) -> None:
        """The next batch is staged, and the one before has ended: commit."""
        self._staging, batch = None, staging.result()
        self.looked = True
        if batch is None:
            self._last = self._last or self._planner.done(self._ledger.positions())
            return
        self._number += 1
        moves = self._ledger.stage(batch.ranges, {each.where: each.offset for each in batch.ends})
        self._letters = batch.shipped.letters
        self._commit = _Commit(batch, moves, self._committers.submit(self._runner.commit, batch, moves))
        # Behind a record that stops the sink, or a cut, nothing is planned: positions are not where the ranges ended.
        self._last = self._last or bool(batch.ends) or self._planner.done(self._ledger.positions())

    def _committed(self, commit: _Commit) -> None:
        self._commit, committed = None, commit.done.result()
        self._ledger.advance(commit.moves)
        self._letters = letters_above(self._letters, self._ledger.committed)
        with log_context(batch=committed.batch):
            self._on_commit(committed)
            self._runner.after(commit.batch, commit.moves)

    def _drop(self) -> None:
        """Give up what is under way: a commit is left to its end, tasks are cancelled, nothing new begins."""
        if self._commit is not None:
            with suppress(BaseException):
                self._commit.done.result(CANCEL_SECONDS)
        if self._staging is not None and not self._staging.cancel() and not self._staging.done():
            with suppress(FirnError):
                self._engine.cancel()
            wait([self._staging], CANCEL_SECONDS)
        self._stagers.shutdown(wait=False, cancel_futures=True)
        self._committers.shutdown(wait=False, cancel_futures=True)


def _asked_to_stop() -> StopRequestedError:
    return StopRequestedError("The sink was asked to stop.")
