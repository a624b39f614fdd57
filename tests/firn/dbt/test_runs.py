"""What a run asks of dbt, and what it makes of the answers: retries, freshness, what is new. dbt is replaced."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from firn.dbt import transform
from firn.dbt.process import DbtProcess, NodeEvent
from firn.dbt.results import TransformError, TransformInterruptedError
from firn.dbt.transform import Build, run_dbt
from firn.errors import ConfigError
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin

LOGIN = SnowflakeLogin("a", "u", "r", "w", "DB", "S", "127.0.0.1", 1, "http", SecretStr("k"))
LOST = "Database Error\n  250003 (n/a): Failed to execute request"
Nodes = dict[str, tuple[str, str]]
"""Status and message of models."""


@dataclass
class FakeDbt:
    """Answers one run after another; keeps what was asked for."""

    home: Path
    answers: list[Nodes | str]
    sources: list[dict[str, Any]] = field(default_factory=list)
    asked: list[list[list[str]]] = field(default_factory=list)

    def run(self, commands: Sequence[Sequence[str]], on_node: Callable[[NodeEvent], None]) -> tuple[int, str]:
        self.asked.append([list(command) for command in commands])
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return 2, answer
        target = self.home / "target"
        target.mkdir(parents=True, exist_ok=True)
        nodes = {name: {"name": name, "resource_type": "model"} for name in answer}
        (target / "manifest.json").write_text(json.dumps({"nodes": nodes}))
        results = [
            {"unique_id": name, "status": status, "message": message, "execution_time": 1.0, "adapter_response": {}}
            for name, (status, message) in answer.items()
        ]
        file = target / "run_results.json"
        file.unlink(missing_ok=True)
        file.write_text(json.dumps({"results": results}))
        if ["source", "freshness"] in [command[:2] for command in self.asked[-1]]:
            (target / "sources.json").write_text(json.dumps({"results": self.sources}))
        return int(any(status == "error" for status, _ in answer.values())), ""


@pytest.fixture
def dbt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeDbt]:
    def make(*answers: Nodes | str, sources: Sequence[dict[str, Any]] = ()) -> FakeDbt:
        fake = FakeDbt(tmp_path, list(answers), list(sources))
        process = DbtProcess(Path("project"), tmp_path, LOGIN, ("DB", "S"))
        monkeypatch.setattr(DbtProcess, "run", lambda _self, commands, on_node: fake.run(commands, on_node))
        monkeypatch.setattr(transform, "dbt_process", lambda *_: process)
        monkeypatch.setattr(transform, "_check_login", lambda _: None)
        return fake

    return make


def run(tmp_path: Path, **build: Any) -> Any:
    return run_dbt(Settings(home=tmp_path, retry_deadline_seconds=5), LOGIN, Build(**build))


def source(status: str, newest: str, seconds: float) -> dict[str, Any]:
    return {
        "unique_id": "source.firn.streaming.order_events",
        "status": status,
        "max_loaded_at": newest,
        "max_loaded_at_time_ago_in_s": seconds,
        "execution_time": 0.25,
    }


def test_a_run_parses_once_asks_how_fresh_the_sources_are_and_builds(dbt: Any, tmp_path: Path) -> None:
    fake = dbt({"m": ("success", "")}, sources=[source("pass", "2026-03-01T10:00:00Z", 60)])
    result = run(tmp_path, select="m+", full_refresh=True, variables={"a": 1})
    assert [command[:2] for command in fake.asked[0]] == [
        ["parse", "--vars"],
        ["source", "freshness"],
        ["build", "--select"],
    ]
    assert fake.asked[0][2] == [
        *("build", "--select", "m+", "--indirect-selection=buildable", "--full-refresh", "--vars", '{"a": 1}'),
    ]
    assert [(node.kind, node.name, node.status) for node in result.nodes] == [
        ("source", "streaming.order_events", "pass"),
        ("model", "m", "success"),
    ]


def test_a_stale_source_fails_the_run_and_the_models_are_built(dbt: Any, tmp_path: Path) -> None:
    dbt({"m": ("success", "")}, sources=[source("error", "2026-03-01T10:00:00Z", 93_600)])
    with pytest.raises(
        TransformError, match=r"source streaming.order_events: newest row 2026-03-01T10:00:00 UTC, 26 h"
    ) as r:
        run(tmp_path)
    assert r.value.result
    assert r.value.result.counts == {"error": 1, "success": 1}
    assert "sink" in r.value.next_step


def test_a_source_without_rows_is_a_warning(dbt: Any, tmp_path: Path) -> None:
    dbt({"m": ("success", "")}, sources=[source("error", "0001-01-01T00:00:00Z", 6e10)])
    assert run(tmp_path).counts == {"warn": 1, "success": 1}


def test_a_broken_connection_is_tried_again_for_what_was_left_undone(dbt: Any, tmp_path: Path) -> None:
    fake = dbt(
        {"a": ("success", ""), "b": ("error", LOST), "c": ("skipped", "")},
        {"b": ("success", ""), "c": ("success", "")},
    )
    result = run(tmp_path, freshness=False)
    assert fake.asked[1] == [["retry"]]
    assert {node.name: node.status for node in result.nodes} == dict.fromkeys("abc", "success")


def test_a_connection_that_breaks_before_the_first_model_starts_again(dbt: Any, tmp_path: Path) -> None:
    fake = dbt(LOST, {"a": ("success", "")})
    run(tmp_path, freshness=False)
    assert fake.asked[0] == fake.asked[1]


def test_a_model_that_is_wrong_is_not_tried_again(dbt: Any, tmp_path: Path) -> None:
    fake = dbt({"a": ("error", LOST), "b": ("error", "Division by zero")})
    with pytest.raises(TransformError):
        run(tmp_path, freshness=False)
    assert len(fake.asked) == 1


def test_a_connection_that_stays_broken_is_transient(dbt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dbt(*[{"a": ("error", LOST)}] * 2)
    with pytest.raises(TransformInterruptedError) as raised:
        run_dbt(Settings(home=tmp_path, retry_deadline_seconds=0.01), LOGIN, Build(freshness=False))
    assert raised.value.result


def test_only_what_is_new_since_the_last_good_run_is_built(dbt: Any, tmp_path: Path) -> None:
    fresh = [source("pass", "2026-03-01T10:00:00Z", 60)]
    fake = dbt({"m": ("success", "")}, {"m": ("error", "wrong")}, {}, sources=fresh)
    run(tmp_path, only_new=True)  # nothing to compare with: everything
    assert fake.asked[0][2] == ["build"]
    kept = tmp_path / "state/sources.json"
    kept_at = kept.stat().st_mtime_ns
    with pytest.raises(TransformError):
        run(tmp_path, only_new=True)
    assert fake.asked[1][2][:3] == ["build", "--select", "source_status:fresher+"]
    assert len(run(tmp_path, only_new=True, select="m").nodes) == 1  # nothing new: the source alone, no error
    assert fake.asked[2][2][2] == "source_status:fresher+,m"
    # Neither a run that failed nor one of some models is a state to compare with.
    assert kept.stat().st_mtime_ns == kept_at


def test_a_selection_of_nothing_is_an_error(dbt: Any, tmp_path: Path) -> None:
    dbt({})
    with pytest.raises(ConfigError, match="No model or test matches the selection 'x'"):
        run(tmp_path, select="x", freshness=False)
