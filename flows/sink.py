"""The sink flow: runs the Spark job of one sink as a child process and returns its report."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import orjson
from prefect import flow, get_run_logger
from prefect.context import FlowRunContext
from pydantic import TypeAdapter

from firn.child import run_child
from firn.errors import BadRecordError, FencedError, FirnError, TerminalError, TransientError
from firn.settings import load_settings
from flows.events import emit_sink_event
from spark_jobs.sink.progress import RunReport

DEFAULT_CONFIG = Path("connectors/order-events.json")
_ERRORS: dict[int, type[FirnError]] = {
    error.exit_code: error for error in (TerminalError, TransientError, FencedError, BadRecordError)
}


@flow(name="sink", description="Kafka topics into Snowflake tables, exactly once, by one Spark job.")
def sink(config: Path = DEFAULT_CONFIG, once: bool = True) -> RunReport:
    """Run a sink: all that is available (`once`), or until it is cancelled. Raises the job's own error."""
    logger = get_run_logger()
    command = [sys.executable, "-m", "spark_jobs.sink.job", str(config), "--supervised", *(["--once"] if once else [])]
    finish = not once and not _deployed()
    code, lines = run_child(command, os.environ, lambda line: _pass_on(logger, line), finish=finish)
    answer = _answer(lines)
    if code == 0 and "report" in answer:
        return TypeAdapter(RunReport).validate_python(answer["report"])
    raise _error(code, answer, config)


def _deployed() -> bool:
    """Whether a Prefect worker runs this: SIGTERM is then how it cancels the flow, which must end as cancelled."""
    context = FlowRunContext.get()
    return bool(context and context.flow_run and context.flow_run.deployment_id)


def _pass_on(logger: Any, line: str) -> None:
    """Pass a line of the job's log on; its own JSON carries level and event, and what the UI is to be told."""
    try:
        entry = orjson.loads(line)
        logger.log({"warning": 30, "error": 40}.get(entry.get("level"), 20), entry["event"])
    except (ValueError, KeyError, AttributeError):
        logger.debug(line)
        return
    if "firn_event" in entry:
        emit_sink_event(entry["firn_event"], entry["firn_data"])


def _answer(lines: list[str]) -> dict[str, Any]:
    for line in reversed(lines):
        if line.startswith("{"):
            answer: dict[str, Any] = orjson.loads(line)
            return answer
    return {}


def _error(code: int, answer: dict[str, Any], config: Path) -> FirnError:
    error = answer.get("error")
    if error:
        # The job's messages do not know the file's name; with it their commands can be pasted.
        next_step = error["next"].replace("<config>", shlex.quote(str(config)))
        return _ERRORS.get(code, FirnError)(error["what"], where=error["where"], next_step=next_step)
    logs = load_settings().home / "logs"
    ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return TransientError(
        f"The Spark job {ended}.",
        where="spark_jobs.sink.job",
        next_step=f"Run the sink again: it goes on from the ledger. Spark's own log is in {logs}.",
    )
