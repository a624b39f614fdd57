"""The export's main program: what it takes, how it ends, and what its last line says. Spark is not started."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from firn.errors import BadRecordError, FencedError, FirnError, TransientError
from firn.exports.checks import QualityError
from firn.operations.exports.run_report import ExportReport
from spark_jobs.export import job, run
from spark_jobs.spark import engine

Run = Callable[..., tuple[int, dict[str, Any]]]
FILE = {"name": "orders-out", "config": {"snowflake.stream.name": "S", "kafka.topic": "t", "message.key.columns": "ID"}}


@pytest.fixture
def asked() -> dict[str, Any]:
    """What the run was asked for."""
    return {}


@pytest.fixture
def main(
    tmp_path: Path, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """The program with these arguments: its exit code, and its last line. ends: what the run does."""
    file, stop = tmp_path / "export.json", threading.Event()
    file.write_text(json.dumps(FILE))

    def go(*arguments: str, ends: FirnError | Exception | None = None) -> tuple[int, dict[str, Any]]:
        class FakeRun:
            def __init__(self, context: Any, _engine: Any, **options: Any) -> None:
                asked.update(options, name=context.name)

            def run(self) -> ExportReport:
                if ends is not None:
                    raise ends
                return ExportReport("orders-out", epoch=3, rows=7)

        def signals(*, supervised: bool) -> threading.Event:
            asked["supervised"] = supervised
            return stop

        monkeypatch.setattr(run, "ExportRun", FakeRun)
        monkeypatch.setattr("firn.exports.context.resolve_export", lambda config, _settings: config)
        monkeypatch.setattr(engine, "SparkEngine", Mock())
        monkeypatch.setattr(job, "start_spark", Mock())
        monkeypatch.setattr(job, "stop_spark", lambda _starting: asked.update(stopped=True))
        monkeypatch.setattr(job, "stop_on_signals", signals)
        monkeypatch.setattr(job, "configure_logging", Mock())
        code = job.main([*(arguments or (str(file),))])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    go.file = str(file)  # type: ignore[attr-defined]
    return go


def test_its_last_line_is_the_report(main: Run, asked: dict[str, Any]) -> None:
    code, last = main()
    assert (code, last["report"]["epoch"], last["report"]["rows"]) == (0, 3, 7)
    assert (asked["once"], asked["supervised"], asked["name"]) == (False, False, "orders-out")
    assert asked["stopped"], "Spark's JVM ends with the run"


def test_it_runs_once_or_under_a_supervisor_as_it_is_told(main: Run, asked: dict[str, Any]) -> None:
    main(main.file, "--once", "--supervised")  # type: ignore[attr-defined]
    assert (asked["once"], asked["supervised"]) == (True, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FencedError("A newer run."), 5),
        (BadRecordError("A bad row."), 6),
        (QualityError("A check."), 6),
        (TransientError("Kafka is away."), 4),
        (RuntimeError("a bug"), 1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_its_exit_code_and_last_line_tell_the_supervisor_why_it_ended(
    main: Run, asked: dict[str, Any], error: Exception, code: int
) -> None:
    found, last = main(ends=error)
    assert (found, last["error"]["exit_code"]) == (code, code)
    assert asked["stopped"]


def test_a_file_with_faults_ends_it_before_spark_is_started(main: Run, asked: dict[str, Any], tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({"name": "x", "config": {"kafka.topik": "t"}}))
    code, last = main(str(broken))
    assert (code, last["error"]["kind"]) == (3, "ConfigError")
    assert "kafka.topic" in last["error"]["what"] + last["error"]["next"]
    assert "stopped" not in asked


def test_arguments_that_it_does_not_know_are_refused(main: Run) -> None:
    with pytest.raises(SystemExit) as ended:
        main(main.file, "--twice")  # type: ignore[attr-defined]
    assert ended.value.code == 2
