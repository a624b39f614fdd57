"""Runs tasks: those that are due by their schedule, by a stream, by EXECUTE TASK, and those behind them.

A run has a session of its own with the rights of the task's owner. A task (with those behind it) does not run twice at
once, unless it is allowed to overlap; times that pass meanwhile, or while no server runs, are left out. Source:
https://docs.snowflake.com/en/user-guide/tasks-intro and tasks-triggered.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from snowflake.connector.errors import ProgrammingError

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.privileges import principal_table
from firn_local.snowflake.privileges.role_grants import ADMIN
from firn_local.snowflake.sql.tokenizer import statements_of_block
from firn_local.snowflake.tasks import schedules, task_table
from firn_local.snowflake.tasks.task_table import Task

log = logging.getLogger("firn_local.snowflake")
LOOK_SECONDS = 1.0
USER = "SYSTEM"
_numbers = itertools.count(time.time_ns())


class Scheduler:
    """Looks for what is due each time `tick` is called; `start` calls it from a thread."""

    def __init__(self, snowflake: LocalSnowflake) -> None:
        self._snowflake, self._account = snowflake, snowflake.account
        self._tasks = self._account.tasks
        self._next: dict[str, tuple[int, datetime]] = {}
        self._triggered: dict[str, datetime] = {}
        self._lock = threading.Lock()
        self._runs: list[tuple[str, threading.Thread]] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="tasks", daemon=True)

    def start(self) -> None:
        """Look every second while there are tasks that may be due."""
        self._thread.start()

    def close(self) -> None:
        """Look no more, and wait for what runs."""
        self._closing.set()
        self._tasks.changed.set()
        self._thread.join()
        self.wait()

    def _look(self) -> None:
        while not self._closing.is_set():
            self._tasks.changed.clear()
            try:
                self.tick()
            except Exception:
                log.exception("tasks: what is due cannot be found")
            waits = any(task.state == task_table.STARTED for task in self._tasks.all())
            if not self._closing.is_set():
                self._tasks.changed.wait(LOOK_SECONDS if waits else None)

    def tick(self) -> None:
        """Start what is due now, each in a thread of its own."""
        now = self._account.now()
        for run_id, name, _ in self._tasks.requested():
            task = self._tasks.named(name)
            if task is None:
                self._tasks.end_run(run_id, name.split(".", 2)[2], _failed(now, "", "The task was dropped."))
            else:
                self._start(task, now, "EXECUTE TASK", run_id)
        for task in self._tasks.all():
            if task.state != task_table.STARTED or task.after:
                continue
            if task.schedule is not None:
                self._look_at_schedule(task, now)
            elif task.is_triggered:
                self._look_at_streams(task, now)

    def wait(self) -> None:
        """Until nothing runs any more."""
        while self._runs:
            name, thread = self._runs[0]
            thread.join()
            with self._lock:
                self._runs = [run for run in self._runs if run != (name, thread)]

    def _look_at_schedule(self, task: Task, now: datetime) -> None:
        schedule = schedules.parse(task.schedule or "")
        since = datetime.fromisoformat(task.resumed_at or task.created_at)
        version, due = self._next.get(task.id, (0, now))
        if version != task.version:
            self._next[task.id] = (task.version, schedule.after(max(since, min(now, since)), since))
            version, due = self._next[task.id]
        if due <= now:
            self._next[task.id] = (task.version, schedule.after(now, since))
            self._start(task, due, "SCHEDULE", None)

    def _look_at_streams(self, task: Task, now: datetime) -> None:
        last = self._triggered.get(task.id)
        if last is not None and now < last + timedelta(seconds=task.min_interval_seconds):
            return
        if self._is_running(task):
            return
        with self._session(task) as session:
            try:
                holds = self._holds(session, task)
            except ProgrammingError as error:
                holds = False
                log.warning("task %s: its condition fails: error %s", task.name, error.errno)
        if holds:
            self._triggered[task.id] = now
            self._start(task, now, "TRIGGER", None)

    def _is_running(self, task: Task) -> bool:
        with self._lock:
            self._runs = [(name, thread) for name, thread in self._runs if thread.is_alive()]
            return any(name == task.name for name, _ in self._runs)

    def _start(self, task: Task, due: datetime, by: str, run_id: int | None) -> None:
        if not task.overlaps and self._is_running(task):
            if run_id is not None:
                changes = {"state": task_table.SKIPPED, "completed_time": self._account.now()}
                self._tasks.end_run(run_id, task.name.split(".", 2)[2], changes)
            return
        thread = threading.Thread(target=self._run_graph, args=(task, due, by, run_id), name=f"task {task.name}")
        with self._lock:
            self._runs.append((task.name, thread))
        thread.start()

    def _run_graph(self, root: Task, due: datetime, by: str, run_id: int | None) -> None:
        """Run a task, and after it those whose predecessors have all succeeded in this run."""
        number = next(_numbers) if run_id is None else run_id
        ended = {root.name: self._run(root, root, due, by, number, is_kept=run_id is not None)}
        waiting = self._tasks.children(root.name) if ended[root.name] == task_table.SUCCEEDED else []
        while waiting:
            task = waiting.pop(0)
            if task.name in ended or task.state != task_table.STARTED:
                continue
            parents = [name for name in task.after if self._is_in_graph(name, root)]
            if all(ended.get(name) == task_table.SUCCEEDED for name in parents):
                ended[task.name] = self._run(task, root, self._account.now(), by, number, is_kept=False)
                if ended[task.name] == task_table.SUCCEEDED:
                    waiting += self._tasks.children(task.name)

    def _is_in_graph(self, name: str, root: Task) -> bool:
        """Whether a predecessor runs at all: a suspended one is left out."""
        task = self._tasks.named(name)
        return task is not None and (task.state == task_table.STARTED or task.name == root.name)

    def _run(self, task: Task, root: Task, due: datetime, by: str, number: int, *, is_kept: bool) -> str:
        """Run one task; its state afterwards. `is_kept`: its row is there already."""
        database, schema, short = task.name.split(".", 2)
        query_id = str(uuid.uuid4())
        row: dict[str, Any] = {
            "query_id": query_id, "name": short, "database_name": database, "schema_name": schema,
            "query_text": task.definition, "condition_text": task.condition, "state": task_table.EXECUTING,
            "scheduled_time": due, "query_start_time": self._account.now(), "root_task_id": root.id,
            "graph_version": root.version, "run_id": number, "scheduled_from": by, "attempt_number": 1,
            "config": root.config,
        }  # fmt: skip
        if is_kept:
            self._tasks.end_run(number, short, {"query_id": query_id, "query_start_time": row["query_start_time"]})
        else:
            self._tasks.add_run(row)
        changes: dict[str, Any] = {}
        for attempt in range(1, task.retries + 2):
            changes = self._attempt(task, query_id) | {"attempt_number": attempt}
            if changes["state"] != task_table.FAILED:
                break
        self._tasks.end_run(number, short, changes)
        self._count(task, str(changes["state"]))
        return str(changes["state"])

    def _attempt(self, task: Task, query_id: str) -> dict[str, Any]:
        """What became of it, as the columns of its run."""
        with self._session(task) as session:
            timer = threading.Timer(task.timeout_ms / 1000, session.cancel)
            timer.daemon = True
            timer.start()
            try:
                if not self._holds(session, task):
                    return {"state": task_table.SKIPPED, "query_id": None, "completed_time": self._account.now()}
                for statement in statements_of_block(task.definition):
                    with self._snowflake.statement(session) as cursor:
                        cursor.execute(statement, query_id=query_id)
            except ProgrammingError as error:
                return _failed(self._account.now(), f"{error.errno or 0:06d}", str(error.raw_msg))
            except Exception as error:
                log.exception("task %s", task.name)
                return _failed(self._account.now(), "300002", f"Processing aborted by error {type(error).__name__}.")
            finally:
                timer.cancel()
        return {"state": task_table.SUCCEEDED, "completed_time": self._account.now()}

    def _holds(self, session: Session, task: Task) -> bool:
        """Whether its condition is true; a condition needs no warehouse."""
        if task.condition is None:
            return True
        with self._snowflake.statement(session) as cursor:
            found = cursor.execute(f"SELECT {task.condition}").fetchall()
        return bool(found and found[0][0])

    def _count(self, task: Task, state: str) -> None:
        """Count failures in a row; too many suspend the task."""
        current = self._tasks.named(task.name)
        if current is None or current.id != task.id or state == task_table.SKIPPED:
            return
        if state == task_table.SUCCEEDED:
            if current.failures:
                self._tasks.keep(replace(current, failures=0))
            return
        failures = current.failures + 1
        changed = replace(current, failures=failures)
        if 0 < task.suspend_after_failures <= failures:
            now = self._account.now().isoformat()
            changed = replace(
                changed, state=task_table.SUSPENDED, suspended_at=now, suspended_for="SUSPENDED_DUE_TO_ERRORS"
            )
        self._tasks.keep(changed)

    @contextmanager
    def _session(self, task: Task) -> Iterator[Session]:
        owner = self._account.role_grants.now().owner("TASK", task.name) or ADMIN
        database, schema, _ = task.name.split(".", 2)
        with self._snowflake.session(USER, owner) as session:
            session.is_restricted = principal_table.any_user(self._account.store)
            session.is_serverless = task.warehouse is None
            session.warehouse = task.warehouse
            session.use(database, schema)
            session.set_parameters(task.parameters)
            yield session


def _failed(now: datetime, code: str, message: str) -> dict[str, Any]:
    return {
        "state": task_table.FAILED, "error_code": code, "error_message": message, "completed_time": now,
    }  # fmt: skip
