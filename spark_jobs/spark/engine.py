"""Runs the tasks of a batch: one Spark job, a task for each group of work; and what Spark's errors mean.

Not for what a task does (`task.partition_task`).

RDDs and no DataFrames: a job of each kind would start Python workers of its own, and there are no columns in Spark to
plan with: tasks read Kafka themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from firn.errors import TransientError

T = TypeVar("T")
_LONGEST = 500


class EngineLostError(TransientError):
    """Spark's JVM is gone, and with it all that this process can do. Exit code 4: another process may go on."""


class EngineFailedError(TransientError):
    """Spark failed in a way that nobody foresaw. It may pass; where it comes again at the same offsets it does not."""


class Engine(Protocol):
    """Where tasks run."""

    @property
    def slots(self) -> int:
        """How many tasks can run at a time."""
        ...

    def run(self, task: Callable[[Iterator[T]], Iterator[str]], groups: Sequence[T]) -> list[str]:
        """What a task for each of `groups` yields. Raises TransientError; EngineLostError where nothing can run."""
        ...

    def cancel(self) -> None:
        """Give up the tasks that run. A Python task may go on for seconds, and publish what it has."""
        ...


class SparkEngine:
    """An engine on a Spark context. Safe for several threads, each of which has its own job."""

    def __init__(self, context: SparkContext, name: str) -> None:
        self._context, self._group = context, f"firn-{name}"

    @property
    def slots(self) -> int:
        """Cores of all executors, as far as they have registered."""
        with translated("Spark context"):
            return int(self._context.defaultParallelism)

    def run(self, task: Callable[[Iterator[T]], Iterator[str]], groups: Sequence[T]) -> list[str]:
        """As `Engine.run`. The task and what it holds travel in memory; `groups` are written to a local file by Spark,
        so no credential may be among them."""
        with translated(f"job of {len(groups)} tasks"):
            self._context.setJobGroup(self._group, f"sink batch of {len(groups)} tasks", interruptOnCancel=False)
            return list(self._context.parallelize(groups, len(groups)).mapPartitions(task).collect())  # type: ignore[arg-type]

    def cancel(self) -> None:
        """As `Engine.cancel`."""
        with translated("Spark context"):
            self._context.cancelJobGroup(self._group)


class EpochEngine:
    """An engine for one epoch: once it is cancelled it begins nothing more, whoever was just about to."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._over = engine, threading.Event()

    @property
    def slots(self) -> int:
        """As the engine's."""
        return self._engine.slots

    def run(self, task: Callable[[Iterator[T]], Iterator[str]], groups: Sequence[T]) -> list[str]:
        """As `Engine.run`."""
        if self._over.is_set():
            raise EngineFailedError("The epoch of this job is over.")
        return self._engine.run(task, groups)

    def cancel(self) -> None:
        """As `Engine.cancel`, for good."""
        self._over.set()
        self._engine.cancel()


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn what PySpark and its JVM raise into EngineFailedError; EngineLostError where the JVM does not answer."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise EngineLostError(
            "Spark's JVM has ended, or was killed.",
            where=where,
            next_step="Run the sink again: it continues from the ledger. If memory ran out, Spark's log in "
            "FIRN_HOME/logs says so: raise FIRN_SPARK_DRIVER_MEMORY.",
        ) from error
    except (PySparkException, Py4JError, OSError, UnboundLocalError) as error:
        # OSError: a file or socket of PySpark's own. UnboundLocalError: what it raises where the JVM is gone just then.
        raise EngineFailedError(
            f"Spark failed: {cause(error)}", where=where, next_step="See Spark's log in FIRN_HOME/logs."
        ) from error


def cause(error: Exception) -> str:
    """The line of the message that says what happened: the last "Caused by", or else Java's own, or else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    # Py4J names in its first line only which call of ours failed, and puts Java's text behind a colon.
    thrown = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter([*causes[-1:], *thrown, *lines]), type(error).__name__)[:_LONGEST]
