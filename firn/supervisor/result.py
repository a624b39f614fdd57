"""How a driver's end is read, and how a supervisor's run ended. Exit codes: docs/commands.md, `firn.errors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from firn.errors import BadRecordError, FencedError, FirnError, TerminalError, TransientError

_ERRORS: dict[int, type[FirnError]] = {
    error.exit_code: error for error in (TerminalError, TransientError, FencedError, BadRecordError)
}
_USAGE = 2


@dataclass(frozen=True)
class Outcome:
    """How supervision ended.

    ended: the driver was done or was asked to end; stopped: FIRN_SINKS wants it so; skipped: nothing was started;
    cancelled: somebody cancelled the run that supervised; failed: `error` says why. report: the last driver's
    `RunReport` as plain values, empty where none made one.
    """

    kind: Literal["ended", "stopped", "skipped", "cancelled", "failed"]
    sentence: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    error: FirnError | None = None


@dataclass(frozen=True)
class End:
    """One driver's end: its exit code (negative: the signal that killed it), its report, or why it failed."""

    code: int
    report: Mapping[str, Any] = field(default_factory=dict)
    error: FirnError | None = None

    @property
    def final(self) -> bool:
        """Whether starting it again would change nothing: a person has to act, or another run owns the sink."""
        return isinstance(self.error, TerminalError) or self.code == _USAGE

    @property
    def fenced(self) -> bool:
        """Whether a newer run, or a reset, took the sink away."""
        return isinstance(self.error, FencedError)


def end_of(code: int, answer: Sequence[str], *, config: str, logs: str) -> End:
    """What a driver's exit code and the lines of its standard output say.

    config: how its commands name the connector file; logs: where a person reads on.
    """
    said = _last_json(answer)
    if code == 0 and "report" in said:
        return End(code, report=said["report"])
    error = said.get("error")
    if error:
        # The job's messages do not know the file's name; with it their commands can be pasted.
        next_step = error["next"].replace("<config>", config)
        return End(code, error=_ERRORS.get(code, FirnError)(error["what"], where=error["where"], next_step=next_step))
    ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return End(
        code,
        error=TransientError(
            f"The Spark job {ended}.",
            where="spark_jobs.sink.job",
            next_step=f"Its log and Spark's own are in {logs}. The next start goes on from the ledger.",
        ),
    )


def _last_json(lines: Sequence[str]) -> dict[str, Any]:
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                answer = orjson.loads(line)
            except ValueError:
                continue
            return answer if isinstance(answer, dict) else {}
    return {}
