"""The durable tables of tasks and of their runs. Not for the statements about them, and not for running them."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from firn_local.snowflake.store.duckdb_store import Store

_TASKS = "_fs_global._firn.tasks"
RUNS = "_fs_global._firn.task_runs"
STARTED, SUSPENDED = "started", "suspended"
SCHEDULED, EXECUTING, SUCCEEDED, FAILED, SKIPPED = "SCHEDULED", "EXECUTING", "SUCCEEDED", "FAILED", "SKIPPED"
_RUN_COLUMNS = (
    "query_id VARCHAR, name VARCHAR, database_name VARCHAR, schema_name VARCHAR, query_text VARCHAR, "
    "condition_text VARCHAR, state VARCHAR, error_code VARCHAR, error_message VARCHAR, scheduled_time TIMESTAMPTZ, "
    "query_start_time TIMESTAMPTZ, next_scheduled_time TIMESTAMPTZ, completed_time TIMESTAMPTZ, "
    "root_task_id VARCHAR, graph_version BIGINT, run_id BIGINT, return_value VARCHAR, scheduled_from VARCHAR, "
    "attempt_number BIGINT, config VARCHAR"
)
RUN_COLUMNS = [column.split()[0] for column in _RUN_COLUMNS.split(", ")]
"""The columns of TASK_HISTORY, in order."""


@dataclass(frozen=True)
class Task:
    """What CREATE TASK says; names are full, times ISO texts. `warehouse` is None for a serverless task."""

    id: str
    name: str
    definition: str
    created_at: str
    warehouse: str | None = None
    size: str | None = None
    schedule: str | None = None
    after: list[str] = field(default_factory=list)
    condition: str | None = None
    config: str | None = None
    comment: str = ""
    overlaps: bool = False
    timeout_ms: int = 3_600_000
    suspend_after_failures: int = 10
    retries: int = 0
    min_interval_seconds: int = 30
    parameters: dict[str, Any] = field(default_factory=dict)
    state: str = SUSPENDED
    version: int = 1
    failures: int = 0
    resumed_at: str | None = None
    suspended_at: str | None = None
    suspended_for: str | None = None

    @property
    def is_triggered(self) -> bool:
        """Whether changes in a stream start it, rather than a schedule or other tasks."""
        return self.schedule is None and not self.after and "SYSTEM$STREAM_HAS_DATA" in (self.condition or "").upper()


class TaskTable:
    """Every task of the account, and the runs of all. `changed` is set after each change, for who waits for work."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.changed = threading.Event()
        self._lock = threading.Lock()
        store.query(f"CREATE TABLE IF NOT EXISTS {_TASKS} (name VARCHAR PRIMARY KEY, definition VARCHAR)")
        store.query(f"CREATE TABLE IF NOT EXISTS {RUNS} ({_RUN_COLUMNS})")
        rows = store.query(f"SELECT definition FROM {_TASKS}")  # noqa: S608  (our own name)
        self._tasks = {task.name: task for task in (Task(**json.loads(row[0])) for row in rows)}
        # What a server ran as it died has failed.
        store.query(
            f"UPDATE {RUNS} SET state = '{FAILED}', error_message = 'The server ended.' WHERE state = '{EXECUTING}'"  # noqa: S608
        )

    def named(self, name: str) -> Task | None:
        """The task of this full name, or None."""
        return self._tasks.get(name)

    def all(self) -> list[Task]:
        """Every task, by name."""
        return [self._tasks[name] for name in sorted(self._tasks)]

    def children(self, name: str) -> list[Task]:
        """The tasks that run after another one."""
        return [task for task in self.all() if name in task.after]

    def keep(self, task: Task) -> None:
        """Keep a task; one of its name is replaced."""
        with self._lock:
            sql = f"INSERT OR REPLACE INTO {_TASKS} VALUES (?, ?)"  # noqa: S608
            self._store.query(sql, [task.name, json.dumps(asdict(task))])
            self._tasks = {**self._tasks, task.name: task}
        self.changed.set()

    def change(self, name: str, **changes: Any) -> None:
        """Change a task, if it exists still."""
        if (task := self.named(name)) is not None:
            self.keep(replace(task, **changes))

    def remove(self, name: str) -> None:
        """Forget a task; its runs stay."""
        with self._lock:
            self._store.query(f"DELETE FROM {_TASKS} WHERE name = ?", [name])  # noqa: S608
            self._tasks = {known: task for known, task in self._tasks.items() if known != name}

    def forget_inside(self, inside: str) -> None:
        """Forget the tasks of a dropped database or schema."""
        for task in self.all():
            if task.name.startswith(f"{inside}."):
                self.remove(task.name)

    def add_run(self, run: dict[str, Any]) -> None:
        """Write a run down, by the columns of RUN_COLUMNS."""
        names = [name for name in RUN_COLUMNS if name in run]
        marks = ", ".join("?" * len(names))
        sql = f"INSERT INTO {RUNS} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
        self._store.query(sql, [run[name] for name in names])
        if run["state"] == SCHEDULED:
            self.changed.set()

    def end_run(self, run_id: int, name: str, changes: dict[str, Any]) -> None:
        """What became of a run of a task (its short name)."""
        set_ = ", ".join(f"{column} = ?" for column in changes)
        sql = f"UPDATE {RUNS} SET {set_} WHERE run_id = ? AND name = ?"  # noqa: S608
        self._store.query(sql, [*changes.values(), run_id, name])

    def requested(self) -> list[tuple[int, str, datetime]]:
        """(run id, full name of the task, time) of the runs that EXECUTE TASK asked for; each is given once."""
        with self._lock:
            names = "database_name || '.' || schema_name || '.' || name"
            where = f"WHERE state = '{SCHEDULED}' ORDER BY scheduled_time"
            found = self._store.query(f"SELECT run_id, {names}, scheduled_time FROM {RUNS} {where}")  # noqa: S608
            if found:
                self._store.query(f"UPDATE {RUNS} SET state = '{EXECUTING}' WHERE state = '{SCHEDULED}'")  # noqa: S608
            return [(run_id, name, at) for run_id, name, at in found]
