"""One driver after another: started, heard, asked to end, ended at a deadline. Not for when and why (`supervisor`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from firn.supervisor.ports import Driver, Launching
from firn.supervisor.result import End

ASK_SECONDS = 90.0
"""How long a driver may take to bring its batch to an end; its own limit is a little less."""
TERM_SECONDS = 10.0
_HEARD = 1000


class Told(NamedTuple):
    """An event of a driver (`spark_jobs.sink.telemetry.events`): its name, its sentence, its data."""

    event: str
    sentence: str
    data: Mapping[str, Any]


def told_in(line: str) -> Told | None:
    """The event in a line of a driver's log, if it is one."""
    if '"firn_event"' not in line:
        return None
    try:
        entry = orjson.loads(line)
        return Told(entry["firn_event"], entry["event"], entry["firn_data"])
    except (ValueError, KeyError, TypeError):
        return None


class Driving:
    """The driver of one sink, at most one at a time. read_end: what an exit code and the last lines mean."""

    def __init__(self, launch: Launching, read_end: Callable[[int, Sequence[str]], End]) -> None:
        self._launch, self._read_end = launch, read_end
        self._driver: Driver | None = None
        self._heard: deque[Told] = deque(maxlen=_HEARD)
        self._deadline: float | None = None
        self.launched = 0.0
        self.starts = 0

    @property
    def running(self) -> bool:
        """Whether there is a driver whose end was not taken note of."""
        return self._driver is not None

    @property
    def ending(self) -> bool:
        """Whether it was asked to end."""
        return self._deadline is not None

    def start(self, now: float) -> None:
        """Start a driver. Raises what the launcher raises."""
        self._driver = self._launch(self._listen)
        self.launched = now
        self.starts += 1

    def ask(self, now: float) -> None:
        """Ask it to end in order; after ASK_SECONDS `poll` does not ask any more."""
        if self._driver is not None and self._deadline is None:
            self._deadline = now + ASK_SECONDS
            self._driver.ask()

    def poll(self, now: float) -> End | None:
        """Its end, once."""
        if self._driver is None:
            return None
        if self._deadline is not None and now >= self._deadline:
            return self.stop(TERM_SECONDS)
        code = self._driver.poll()
        return None if code is None else self._ended(code)

    def stop(self, seconds: float) -> End | None:
        """TERM, after `seconds` KILL; None where nothing ran. Waits for it."""
        return None if self._driver is None else self._ended(self._driver.stop(seconds))

    def heard(self) -> Iterator[Told]:
        """What it told since the last time; of a flood the newest."""
        while self._heard:
            yield self._heard.popleft()

    def _ended(self, code: int) -> End:
        end = self._read_end(code, self._driver.answer if self._driver else ())
        self._driver = self._deadline = None
        return end

    def _listen(self, line: str) -> None:
        if told := told_in(line):
            self._heard.append(told)
