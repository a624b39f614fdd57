"""Runs dbt over the tables of the sinks, and gives the result of each model and test. Knows no model by name.

A run asks first how fresh the sources are, then builds; dbt itself runs in a process of its own (`process`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from firn.dbt.freshness import SOURCES, read_freshness
from firn.dbt.process import DbtProcess, OnNode, dbt_process, only_run
from firn.dbt.results import (
    NodeResult,
    TransformInterruptedError,
    TransformResult,
    connection_lost,
    failure,
    read_result,
)
from firn.errors import ConfigError, FirnError
from firn.retry import Deadline, with_retries
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, connect


@dataclass(frozen=True)
class Build:
    """What a run of dbt is asked for.

    select: dbt's node selection; full_refresh: incremental models from nothing; variables: dbt's vars. only_new: what
    is below sources that have newer rows than at the last run that went well. freshness: stale sources are failures.
    project: Firn's own by default.
    """

    select: str | None = None
    full_refresh: bool = False
    only_new: bool = False
    freshness: bool = True
    variables: Mapping[str, object] = field(default_factory=dict)
    project: Path | None = None


def run_dbt(
    settings: Settings,
    login: SnowflakeLogin,
    build: Build | None = None,
    *,
    source: tuple[str, str] | None = None,
    on_node: OnNode = lambda _event: None,
) -> TransformResult:
    """Run `dbt source freshness` and `dbt build` with this login, and wait for their end.

    source: database and schema of the sinks' tables; the login's by default. on_node: called in another thread when a
    node starts and ends. A connection that breaks is tried again until the settings' deadline (`dbt retry`: what is
    done is not done twice).

    Raises TransformError naming each failed node, ConfigError when the selection names nothing, the project does not
    compile or dbt is not installed, the login's own errors (see `firn.snowflake.connection`), TransformInterruptedError
    when the connection stays broken, or TransientError while another run holds the project's home.
    """
    build = build or Build()
    dbt = dbt_process(settings, login, source or (login.database, login.schema), build.project)
    with only_run(dbt.home):
        with_retries(settings.retry_deadline_seconds, _check_login, login)
        result = _Run(dbt, build, on_node).result(Deadline(settings.retry_deadline_seconds))
    if not build.only_new and all(node.kind == "source" for node in result.nodes):
        raise ConfigError(
            f"No model or test matches the selection {build.select!r}.",
            where=str(dbt.project),
            next_step="Name a model of docs/dbt.md; dbt's syntax: https://docs.getdbt.com/reference/node-selection/syntax",
        )
    if result.failed:
        raise failure(result, f"{login.database}.{login.schema}, Snowflake at {login.host}:{login.port}")
    return result


def _check_login(login: SnowflakeLogin) -> None:
    """Fail here with an error a person can act on; dbt would retry an unreachable host for minutes."""
    with connect(login, query_tag="firn-dbt"):
        pass


class _Run:
    """One run: the first attempt, and `dbt retry` for what a broken connection left undone."""

    def __init__(self, dbt: DbtProcess, build: Build, on_node: OnNode) -> None:
        self._dbt, self._build, self._on_node = dbt, build, on_node
        self._state = dbt.home / "state"
        self._done: dict[tuple[str, str], NodeResult] = {}
        self._sources: tuple[NodeResult, ...] = ()

    def result(self, deadline: Deadline) -> TransformResult:
        """What all attempts did. The last one's error where the connection stays broken."""
        try:
            with_retries(deadline, self._attempt)
        except TransformInterruptedError:
            if not self._done:
                raise
        result = TransformResult((*self._sources, *self._done.values()))
        whole = self._build.freshness and not self._build.select
        if whole and not any(node.failed for node in self._done.values()):
            # What the next run compares with: all models have the rows that the sources had.
            self._state.mkdir(exist_ok=True)
            shutil.copy(self._dbt.target / SOURCES, self._state / SOURCES)
        return result

    def _attempt(self) -> None:
        again = bool(self._done)
        results = self._dbt.target / "run_results.json"
        if not again:
            results.unlink(missing_ok=True)
            (self._dbt.target / SOURCES).unlink(missing_ok=True)
        before = results.stat().st_mtime_ns if again else 0
        code, said = self._dbt.run(self._again() if again else self._first(), self._on_node)
        if code not in (0, 1) or not results.exists() or results.stat().st_mtime_ns == before:
            raise _unfinished(said, self._dbt)
        if not again and self._build.freshness:
            self._sources = read_freshness(self._dbt.target)
        found = read_result(self._dbt.target)
        self._done |= {(node.kind, node.name): node for node in found.nodes}
        if found.failed and all(connection_lost(node.message) for node in found.failed):
            raise failure(found, str(self._dbt.project))

    def _first(self) -> list[list[str]]:
        build = self._build
        variables = ["--vars", json.dumps(dict(build.variables))] if build.variables else []
        chosen = ["--select", build.select, "--indirect-selection=buildable"] if build.select else []
        if build.only_new and (self._state / SOURCES).exists():
            # "buildable": with a selection, leave out tests that also read models outside it and its ancestors.
            newer = "source_status:fresher+"
            within = f"{newer},{build.select}" if build.select else newer
            chosen = ["--select", within, "--indirect-selection=buildable", f"--state={self._state}"]
        commands = [["parse", *variables]]
        if build.freshness:
            commands.append(["source", "freshness", *variables])
        fresh = ["--full-refresh"] if build.full_refresh else []
        return [*commands, ["build", *chosen, *fresh, *variables]]

    def _again(self) -> list[list[str]]:
        return [["retry"]]


def _unfinished(said: str, dbt: DbtProcess) -> FirnError:
    kind = TransformInterruptedError if connection_lost(said) else ConfigError
    return kind(
        f"dbt ended before it ran a model:\n{said[-3000:]}",
        where=str(dbt.project),
        next_step=f"Correct what dbt names and run again; dbt's own log is {dbt.home / 'logs' / 'dbt.log'}.",
    )
