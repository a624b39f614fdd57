"""How an export under test comes to know its step, from outside: product code has no hooks for tests.

A step is told by what leaves the process: the statements of a move and of a settle, and the calls of the Kafka
producer. Not for what a fault is (`faults`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from confluent_kafka import Producer
from snowflake.connector.cursor import SnowflakeCursorBase

from firn.exports.ledger import ExportLedger
from firn.kafka import transactional_producer
from spark_jobs.export import epoch, publishing, task
from tests.support.faults import CrashError, ExportStep, Fault, Interruption

_Steps = dict[str, tuple[ExportStep | None, ExportStep | None]]
# By what a statement begins with, or by the SET of an UPDATE.
_MOVE: _Steps = {
    "BEGIN": (None, ExportStep.MOVE_BEGUN),
    "SET LAST_BATCH = LAST_BATCH + 1": (None, ExportStep.NUMBERED),
    "INSERT": (None, ExportStep.MOVED),
    "SET LAST_BATCH = ?": (None, ExportStep.ADVANCED),
    "COMMIT": (ExportStep.BEFORE_MOVE_COMMIT, ExportStep.MOVE_COMMITTED),
}
_SETTLE: _Steps = {
    "BEGIN": (None, ExportStep.SETTLE_BEGUN),
    "UPDATE": (None, ExportStep.HELD),
    "INSERT": (None, ExportStep.HISTORY),
    "DELETE": (None, ExportStep.DELETED),
    "COMMIT": (ExportStep.BEFORE_SETTLE_COMMIT, ExportStep.SETTLED),
}


@contextmanager
def armed_export(*faults: Fault | Interruption) -> Iterator[None]:
    """This process, as the driver, and the Python workers of its tasks. Interruptions are of this process alone."""
    hooks = _Hooks(faults)
    for_workers = tuple(fault for fault in faults if isinstance(fault, Fault))
    here = () if len(for_workers) == len(faults) else tuple(faults)
    run_task = partial(in_worker, publishing.run_task, here or for_workers)
    with ExitStack() as patches:
        for patched in (
            patch.object(SnowflakeCursorBase, "execute", hooks.statement(SnowflakeCursorBase.execute)),
            patch.object(ExportLedger, "claim", hooks.around(ExportLedger.claim, after=ExportStep.CLAIMED)),
            patch.object(epoch, "first_markers", hooks.around(epoch.first_markers, after=ExportStep.FIRST_MARKERS)),
            patch.object(epoch, "move", hooks.doing(_MOVE, epoch.move)),
            patch.object(publishing, "run_task", run_task),
        ):
            patches.enter_context(patched)
        yield


def in_worker(
    run_task: Callable[[Any, Iterator[Any]], Iterator[str]],
    faults: tuple[Fault | Interruption, ...],
    plan: task.PublishPlan,
    groups: Iterator[Any],
) -> Iterator[str]:
    """A task of an armed driver. A worker outlives its task, so the patches end with it."""
    hooks = _Hooks(faults)
    producer = hooks.producer(plan.context.config.marker_topic)
    with (
        patch.object(SnowflakeCursorBase, "execute", hooks.statement(SnowflakeCursorBase.execute)),
        patch.object(transactional_producer, "Producer", producer),
        patch.object(task, "read_markers", hooks.around(task.read_markers, after=ExportStep.MARKER_READ)),
        patch.object(task, "settle", hooks.doing(_SETTLE, task.settle)),
    ):
        yield from run_task(plan, groups)


class _Hooks:
    """Functions of the product and its clients with the steps around them. What has crashed says nothing more."""

    def __init__(self, faults: Sequence[Fault | Interruption]) -> None:
        self._faults = faults
        self._thread = threading.local()  # `steps`: those of what this thread does
        self._crashed: set[int] = set()

    def at(self, step: ExportStep | None) -> None:
        """This process is at a step."""
        if step is not None:
            for fault in self._faults:
                fault.passing(step)

    def statement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def execute(cursor: Any, command: str, *args: Any, **kwargs: Any) -> Any:
            before, after = self._around(command)
            with self.speaking(cursor.connection):
                self.at(before)
                answer = original(cursor, command, *args, **kwargs)
                self.at(after)
            return answer

        return execute

    def _around(self, command: str) -> tuple[ExportStep | None, ExportStep | None]:
        steps: _Steps = getattr(self._thread, "steps", {})
        statement = command.lstrip()
        found = (each for mark, each in steps.items() if statement.startswith(mark) or f" {mark}" in statement)
        return next(found, (None, None))

    @contextmanager
    def speaking(self, client: object) -> Iterator[None]:
        """A client that says something; it is silent for good once it crashed in it."""
        if id(client) in self._crashed:
            raise CrashError("this client is dead")
        try:
            yield
        except CrashError:
            self._crashed.add(id(client))
            raise

    def doing(self, steps: _Steps, original: Callable[..., Any]) -> Callable[..., Any]:
        """A function with one transaction: its statements are steps."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._thread.steps = steps
            try:
                return original(*args, **kwargs)
            finally:
                self._thread.steps = {}

        return call

    def around(self, original: Callable[..., Any], *, after: ExportStep) -> Callable[..., Any]:
        """A function with a step after it."""

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            self.at(after)
            return answer

        return call

    def producer(self, marker_topic: str) -> type[Producer]:
        """A Kafka producer whose calls are steps."""
        hooks = self

        class Hooked(Producer):
            def init_transactions(self, *args: Any) -> None:
                hooks.call(self, super().init_transactions, *args, after=ExportStep.OPENED)

            def begin_transaction(self) -> None:
                hooks.call(self, super().begin_transaction, after=ExportStep.BEGUN)

            def produce(self, topic: str, *args: Any, **kwargs: Any) -> None:
                after = ExportStep.MARKED if topic == marker_topic else ExportStep.PRODUCED
                hooks.call(self, partial(super().produce, topic, *args, **kwargs), after=after)

            def commit_transaction(self, *args: Any) -> None:
                before, after = ExportStep.BEFORE_COMMIT, ExportStep.COMMITTED
                hooks.call(self, super().commit_transaction, *args, before=before, after=after)

            def abort_transaction(self, *args: Any) -> None:
                hooks.call(self, super().abort_transaction, *args)

        return Hooked

    def call(
        self,
        client: object,
        function: Callable[..., None],
        *args: Any,
        before: ExportStep | None = None,
        after: ExportStep | None = None,
    ) -> None:
        """A call of a client with the steps around it."""
        with self.speaking(client):
            self.at(before)
            function(*args)
            self.at(after)
