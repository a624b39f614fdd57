"""TASK objects: CREATE, ALTER, EXECUTE, DROP, SHOW and DESCRIBE. When and how they run is `scheduler`'s.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-task, alter-task, execute-task, drop-task, show-tasks,
and user-guide/tasks-intro (access control).
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from firn_local.snowflake.engine import named_objects
from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, ownership, principal_table
from firn_local.snowflake.privileges.requirements import Need, on_account
from firn_local.snowflake.sql import parsing
from firn_local.snowflake.sql.full_names import around, own_name
from firn_local.snowflake.sql.result_set import TEXT, TIME, ResultSet
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error, duplicate, sql_error, unsupported
from firn_local.snowflake.sql.tokenizer import Tokenizer, statements_of_block
from firn_local.snowflake.tasks import schedules, task_table
from firn_local.snowflake.tasks.task_table import Task

BAD_VALUE = (1008, "22023")
CANNOT_RESUME = (91089, "23001")
_numbers = itertools.count(time.time_ns() // 1_000_000)
_WORDS = ("AS", "AFTER", "WHEN")
_COLUMNS = [
    ("created_on", TIME), ("name", TEXT), ("id", TEXT), ("database_name", TEXT), ("schema_name", TEXT),
    ("owner", TEXT), ("comment", TEXT), ("warehouse", TEXT), ("schedule", TEXT), ("predecessors", TEXT),
    ("state", TEXT), ("definition", TEXT), ("condition", TEXT), ("allow_overlapping_execution", TEXT),
    ("error_integration", TEXT), ("last_committed_on", TIME), ("last_suspended_on", TIME),
    ("owner_role_type", TEXT), ("config", TEXT), ("budget", TEXT), ("task_relations", TEXT),
    ("last_suspended_reason", TEXT),
]  # fmt: skip
_TERSE = ("created_on", "name", "kind", "database_name", "schema_name", "schedule")
_PROPERTIES = {
    "WAREHOUSE": "warehouse", "SCHEDULE": "schedule", "COMMENT": "comment", "CONFIG": "config",
    "ALLOW_OVERLAPPING_EXECUTION": "overlaps", "USER_TASK_TIMEOUT_MS": "timeout_ms",
    "SUSPEND_TASK_AFTER_NUM_FAILURES": "suspend_after_failures", "TASK_AUTO_RETRY_ATTEMPTS": "retries",
    "USER_TASK_MANAGED_INITIAL_WAREHOUSE_SIZE": "size",
    "USER_TASK_MINIMUM_TRIGGER_INTERVAL_IN_SECONDS": "min_interval_seconds",
}  # fmt: skip
_COUNTS = {"timeout_ms", "suspend_after_failures", "retries", "min_interval_seconds"}
_REFUSED = {"FINALIZE", "ERROR_INTEGRATION", "SUCCESS_INTEGRATION"}


def _create(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("CREATE")
    or_replace = tokens.skip("OR", "REPLACE")
    tokens.expect("TASK")
    if_absent = tokens.skip("IF", "NOT", "EXISTS")
    name = session.full_name(tokens.name())
    short = own_name(name)
    tasks = session.account.tasks
    enforcement.demand(session, Need(("CREATE TASK",), "SCHEMA", around(name)))
    with session.ddl():
        old = tasks.named(name)
        if old is not None:
            enforcement.refuse_unseen(session, "TASK", name)
            if if_absent:
                return ResultSet.status(f"{short} already exists, statement succeeded.")
            if not or_replace:
                raise duplicate(short)
            enforcement.demand(session, Need(("OWNERSHIP",), "TASK", name))
        made = Task(str(uuid.uuid4()), name, "", session.account.now().isoformat())
        task = _parsed(session, tokens, made)
        _check(session, task)
        tasks.keep(task)
        ownership.record_owner(session.role_grants, session.role, "TASK", name, replaced=old is not None)
    return ResultSet.status(f"Task {short} successfully created.")


def _parsed(session: Session, tokens: Tokenizer, task: Task) -> Task:
    """The task with what stands behind its name."""
    task = _with(session, task, tokens.options(*_WORDS))
    if tokens.skip("AFTER"):
        task = replace(task, after=_names(session, tokens))
        task = _with(session, task, tokens.options(*_WORDS))
    if tokens.skip("WHEN"):
        task = replace(task, condition=tokens.text_until("AS"))
    tokens.expect("AS")
    definition = tokens.rest().rstrip().rstrip(";")
    return replace(task, definition=definition)


def _names(session: Session, tokens: Tokenizer) -> list[str]:
    found = [session.full_name(tokens.name())]
    while tokens.skip(","):
        found.append(session.full_name(tokens.name()))
    return found


def _with(session: Session, task: Task, options: dict[str, Any]) -> Task:
    """The task with options; what is no property of tasks is a parameter of its sessions."""
    changes: dict[str, Any] = {}
    parameters = dict(task.parameters)
    for option, value in options.items():
        if option in _REFUSED:
            raise unsupported(f"CREATE TASK ... {option}")
        attribute = _PROPERTIES.get(option)
        if attribute is None:
            parameters[option] = value
        else:
            changes[attribute] = int(str(value)) if attribute in _COUNTS else value
    if changes.get("warehouse"):
        warehouse = principal_table.require(session.store, "WAREHOUSE", str(changes["warehouse"]).upper())
        enforcement.demand(session, Need(("USAGE",), "WAREHOUSE", warehouse))
        changes["warehouse"] = warehouse
    return replace(task, parameters=parameters, **changes)


def _check(session: Session, task: Task) -> None:
    """Refuse what could never run."""
    if task.schedule is not None:
        if task.after:
            raise compilation_error(SYNTAX, "A task that runs AFTER others has no SCHEDULE.")
        try:
            schedules.parse(task.schedule)
        except schedules.ScheduleError as error:
            raise compilation_error(BAD_VALUE, str(error)) from error
    if not task.definition:
        raise compilation_error(SYNTAX, "syntax error: a task wants AS <sql>.")
    if task.condition is not None:
        parsing.parse(f"SELECT {task.condition}")
    statements_of_block(task.definition)
    for parent in task.after:
        _require(session, parent)
        enforcement.demand(session, Need(("OPERATE",), "TASK", parent))


def _alter(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("ALTER", "TASK")
    if_exists = tokens.skip("IF", "EXISTS")
    name = session.full_name(tokens.name())
    tasks = session.account.tasks
    if if_exists and tasks.named(name) is None:
        return ResultSet.status()
    verb = tokens.peek()
    wanted = ("OPERATE",) if verb in {"RESUME", "SUSPEND"} else ("OWNERSHIP",)
    enforcement.demand(session, Need(wanted, "TASK", name))
    task = _require(session, name)
    with session.ddl():
        altered = _altered(session, tokens, task, sql)
        _check(session, altered)
        tasks.keep(replace(altered, version=task.version + 1))
    return ResultSet.status()


def _altered(session: Session, tokens: Tokenizer, task: Task, sql: str) -> Task:
    now = session.account.now().isoformat()
    if tokens.skip("RESUME"):
        _demand_execution(session, task)
        return replace(task, state=task_table.STARTED, resumed_at=now, failures=0, suspended_for=None)
    if tokens.skip("SUSPEND"):
        return replace(task, state=task_table.SUSPENDED, suspended_at=now, suspended_for="USER_SUSPENDED")
    if tokens.skip("ADD", "AFTER"):
        return replace(task, after=list(dict.fromkeys([*task.after, *_names(session, tokens)])))
    if tokens.skip("REMOVE", "AFTER"):
        gone = _names(session, tokens)
        return replace(task, after=[name for name in task.after if name not in gone])
    if tokens.skip("REMOVE", "WHEN"):
        return replace(task, condition=None)
    if tokens.skip("MODIFY", "AS"):
        return replace(task, definition=tokens.rest().rstrip().rstrip(";"))
    if tokens.skip("MODIFY", "WHEN"):
        return replace(task, condition=tokens.rest().rstrip().rstrip(";"))
    if tokens.skip("SET"):
        return _with(session, task, tokens.properties())
    if tokens.skip("UNSET"):
        return _unset(task, tokens.names())
    raise unsupported(sql)


def _unset(task: Task, options: list[str]) -> Task:
    fresh = Task(task.id, task.name, task.definition, task.created_at)
    changes = {attribute: getattr(fresh, attribute) for o in options if (attribute := _PROPERTIES.get(o)) is not None}
    parameters = {name: value for name, value in task.parameters.items() if name not in options}
    return replace(task, parameters=parameters, **changes)


def _demand_execution(session: Session, task: Task) -> None:
    """The owner must be allowed to run tasks, and to use the warehouse."""
    if not session.is_restricted:
        return
    now = session.role_grants.now()
    owner = now.owner("TASK", task.name) or session.role
    held = now.held({owner})
    wanted = "EXECUTE MANAGED TASK" if task.warehouse is None else "EXECUTE TASK"
    if not held.everything and wanted not in held.on(*on_account(wanted).place):
        raise sql_error(
            CANNOT_RESUME, f"Cannot execute task , {wanted} privilege must be granted to owner role",
        )  # fmt: skip


def _execute(session: Session, sql: str) -> ResultSet:
    # sqlglot takes what stands behind EXECUTE for one text.
    tokens = Tokenizer(sql[sql.upper().index("EXECUTE") + len("EXECUTE") :])
    tokens.expect("TASK")
    name = session.full_name(tokens.name())
    tokens.end()
    enforcement.demand(session, Need(("OPERATE",), "TASK", name))
    task = _require(session, name)
    _demand_execution(session, task)
    session.transactions.commit()
    database, schema, short = name.split(".", 2)
    session.account.tasks.add_run(
        {
            "name": short,
            "database_name": database,
            "schema_name": schema,
            "query_text": task.definition,
            "condition_text": task.condition,
            "state": task_table.SCHEDULED,
            "scheduled_time": session.account.now(),
            "root_task_id": task.id,
            "graph_version": task.version,
            "run_id": next(_numbers),
            "scheduled_from": "EXECUTE TASK",
            "attempt_number": 1,
            "config": task.config,
        }
    )
    return ResultSet.status(f"Task {short} is scheduled to run immediately.")


def _drop(session: Session, sql: str) -> ResultSet:
    return named_objects.dropped(session, sql, "TASK", _find, _remove)


def _remove(session: Session, name: str, _: Task) -> None:
    tasks = session.account.tasks
    tasks.remove(name)
    for child in tasks.children(name):
        tasks.change(child.name, after=[parent for parent in child.after if parent != name])


def _show(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("SHOW")
    terse = tokens.skip("TERSE")
    tokens.expect("TASKS")
    like = tokens.like()
    scope = session.scope(tokens)
    begins = tokens.literal() if tokens.skip("STARTS", "WITH") else ""
    only_roots = tokens.skip("ROOT", "ONLY")
    tasks = [task for task in session.account.tasks.all() if task.name.startswith(scope)]
    seen = enforcement.visible(session, "TASK", [task.name for task in tasks])
    rows = []
    for task in tasks:
        short = task.name.split(".", 2)[2]
        is_like = short.startswith(begins) and (like is None or like.fullmatch(short) is not None)
        if task.name in seen and is_like and not (only_roots and task.after):
            rows.append(_row(session, task))
    if not terse:
        return ResultSet(_COLUMNS, rows)
    return ResultSet(
        [(name, TIME if name == "created_on" else TEXT) for name in _TERSE],
        [(row[0], row[1], None, row[3], row[4], row[8]) for row in rows],
    )


def _describe(session: Session, sql: str) -> ResultSet:
    return ResultSet(_COLUMNS, [_row(session, named_objects.described(session, sql, "TASK", _find))])


def _find(session: Session, name: str) -> Task | None:
    return session.account.tasks.named(name)


def _require(session: Session, name: str) -> Task:
    return named_objects.required("TASK", name, _find(session, name))


def _row(session: Session, task: Task) -> tuple[Any, ...]:
    database, schema, name = task.name.split(".", 2)
    owner = session.role_grants.now().owner("TASK", task.name)
    return (
        datetime.fromisoformat(task.created_at), name, task.id, database, schema, owner, task.comment,
        task.warehouse, task.schedule, json.dumps(task.after), task.state, task.definition, task.condition,
        str(task.overlaps).lower(), None, _time(task.resumed_at), _time(task.suspended_at), "ROLE", task.config,
        None, json.dumps({"Predecessors": task.after}), task.suspended_for,
    )  # fmt: skip


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


FAMILY = Family(
    commands={
        ("CREATE", "TASK"): _create,
        ("CREATE", "OR", "REPLACE", "TASK"): _create,
        ("ALTER", "TASK"): _alter,
        ("EXECUTE", "TASK"): _execute,
        ("DROP", "TASK"): _drop,
        ("SHOW", "TASKS"): _show,
        ("SHOW", "TERSE", "TASKS"): _show,
        ("DESC", "TASK"): _describe,
        ("DESCRIBE", "TASK"): _describe,
    }
)
