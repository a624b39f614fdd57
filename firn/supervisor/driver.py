"""The driver of a job: its handle (started, heard, asked to end, ended at a deadline), its events, and its result.

Not for when and why (`supervisor`). Exit codes: docs/commands.md, `firn.errors`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from firn.errors import BadRecordError, FencedError, FirnError, TerminalError, TransientError
from firn.supervisor.ports import Driver, Launcher

ASK_SECONDS = 90.0
"""How long a driver may take to bring its batch to an end; its own limit is a little less."""
TERM_SECONDS = 10.0
_KEPT = 1000
_ERRORS: dict[int, type[FirnError]] = {
    error.exit_code: error for error in (TerminalError, TransientError, FencedError, BadRecordError)
}
_USAGE = 2


class DriverEvent(NamedTuple):
    """An event in a driver's log: its name, its sentence, its data."""

    event: str
    sentence: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class DriverResult:
    """One driver's end: its exit code (negative: the signal that killed it), its report, or why it failed."""

    code: int
    report: Mapping[str, Any] = field(default_factory=dict)
    error: FirnError | None = None

    @property
    def final(self) -> bool:
        """Whether a restart would change nothing: a person has to act, or another run owns the job."""
        return isinstance(self.error, TerminalError) or self.code == _USAGE

    @property
    def fenced(self) -> bool:
        """Whether a newer run, or a reset, took the job away."""
        return isinstance(self.error, FencedError)


def read_result(code: int, answer: Sequence[str], *, module: str, config: str, logs: str) -> DriverResult:
    """What a driver's exit code and the lines of its standard output say.

    module: the driver's; config: how commands name its connector file; logs: where a person reads on.
    """
    said = _last_json(answer)
    if code == 0 and "report" in said:
        return DriverResult(code, report=said["report"])
    error = said.get("error")
    if error:
        # The driver's messages do not know the file's name; with it their commands can be pasted.
        next_step = error["next"].replace("<config>", config)
        kind = _ERRORS.get(code, FirnError)
        return DriverResult(code, error=kind(error["what"], where=error["where"], next_step=next_step))
    ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return DriverResult(
        code,
        error=TransientError(
            f"The Spark job {ended}.",
            where=module,
            next_step=f"Its log and Spark's own are in {logs}. The next start goes on from the ledger.",
        ),
    )


class DriverHandle:
    """The driver of one job, at most one at a time.

    claimed: whether it has said that it holds the job. launched, heard: when it was started, and last wrote a line.
    """

    def __init__(self, launch: Launcher, read: Callable[[int, Sequence[str]], DriverResult]) -> None:
        self._launch, self._read = launch, read
        self._driver: Driver | None = None
        self._events: deque[DriverEvent] = deque(maxlen=_KEPT)
        self._deadline: float | None = None
        self._lines, self._counted = 0, 0
        self.launched = self.heard = 0.0
        self.starts = 0
        self.claimed = False

    def start(self, now: float) -> None:
        """Start a driver. Raises what the launcher raises."""
        self.claimed = False
        self._driver = self._launch(self._listen)
        self.launched = self.heard = now
        self.starts += 1

    def ask(self, now: float) -> None:
        """Ask it to end in order; after ASK_SECONDS `poll` does not ask any more."""
        if self._driver is not None and self._deadline is None:
            self._deadline = now + ASK_SECONDS
            self._driver.ask()

    def poll(self, now: float) -> DriverResult | None:
        """Its result, once."""
        if self._driver is None:
            return None
        if self._deadline is not None and now >= self._deadline:
            return self.stop(TERM_SECONDS)
        code = self._driver.poll()
        return None if code is None else self._ended(code)

    def stop(self, seconds: float) -> DriverResult | None:
        """TERM, after `seconds` KILL; None where nothing ran. Waits for it."""
        return None if self._driver is None else self._ended(self._driver.stop(seconds))

    def listen(self, now: float) -> None:
        """Notice whether it has written any line since the last call."""
        if self._lines != self._counted:
            self._counted, self.heard = self._lines, now

    def events(self) -> Iterator[DriverEvent]:
        """Its events since the last call; of a flood the newest."""
        while self._events:
            yield self._events.popleft()

    def _ended(self, code: int) -> DriverResult:
        result = self._read(code, self._driver.answer if self._driver else ())
        self._driver = self._deadline = None
        return result

    def _listen(self, line: str) -> None:
        self._lines += 1
        if event := _event_in(line):
            self._events.append(event)


def _event_in(line: str) -> DriverEvent | None:
    """The event in a line of a driver's log, if it is one."""
    if '"firn_event"' not in line:
        return None
    try:
        entry = orjson.loads(line)
        return DriverEvent(entry["firn_event"], entry["event"], entry["firn_data"])
    except (ValueError, KeyError, TypeError):
        return None


def _last_json(lines: Sequence[str]) -> dict[str, Any]:
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                answer = orjson.loads(line)
            except ValueError:
                continue
            return answer if isinstance(answer, dict) else {}
    return {}
