"""Runs the tasks of a batch: one Spark job, a task for each group of work. Not for what a task does (`ship`).

RDDs and no DataFrames: a job of each kind would start Python workers of its own, and there are no columns in Spark to
plan with: tasks read Kafka themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from pyspark import SparkContext

from spark_jobs.sink.spark.faults import EngineFailedError, translated

T = TypeVar("T")


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
