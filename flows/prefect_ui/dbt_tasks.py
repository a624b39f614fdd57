"""One Prefect task for each node that dbt runs: it starts and ends when the node does. Not for running dbt.

dbt is a process of its own (`firn.dbt.process`), and says what its nodes do; so a task here waits for its node's end.
"""

from __future__ import annotations

import contextvars
from concurrent.futures import Future
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Cancelled, Completed, Failed

from firn.dbt.process import NodeEvent

_LAST_STATES_SECONDS = 30.0
_FAILED = {"error", "fail", "runtime error", "partial success"}
_ENDED_FIRST = "interrupted"


class NodeTasks:
    """The tasks of one flow run; made in its thread. `note` may be called from another one."""

    def __init__(self) -> None:
        self._context = contextvars.copy_context()  # the flow run, for the thread that reads what dbt says
        self._ends: dict[str, Future[NodeEvent]] = {}
        self._runs: list[PrefectFuture[Any]] = []

    def note(self, event: NodeEvent) -> None:
        """A node starts, or has ended. A node that is tried again is a task again."""
        if not event.ended:
            self._start(event)
        elif event.id in self._ends:
            self._ends.pop(event.id).set_result(event)

    def close(self) -> None:
        """End the tasks of nodes that never ended, and wait until Prefect knows how each task ended."""
        for id, end in self._ends.items():
            end.set_result(NodeEvent(id, "", "", ended=True, status=_ENDED_FIRST, message="dbt ended first."))
        self._ends.clear()
        for run in self._runs:
            run.wait(_LAST_STATES_SECONDS)

    def _start(self, event: NodeEvent) -> None:
        end = self._ends[event.id] = Future()

        @task(name=f"dbt {event.kind}", task_run_name=f"{event.kind} {event.name}", cache_policy=NO_CACHE)
        def node() -> State[Any]:
            return _state(end.result())

        self._runs.append(self._context.run(node.submit))


def _state(event: NodeEvent) -> State[Any]:
    if event.status in _FAILED:
        return Failed(message=event.message or event.status)
    if event.status == _ENDED_FIRST:
        return Cancelled(message=event.message)
    names = {"warn": "Warned", "skipped": "Skipped"}
    return Completed(name=names.get(event.status, "Completed"), message=event.message or event.status)
