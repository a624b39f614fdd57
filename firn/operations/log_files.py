"""The logs of a job's driver as a person reads them: the newest lines, what comes next, JSON as plain text.

Not for writing them (`firn.supervisor.launcher`, Spark's log4j2.properties). Both kinds rotate.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from firn.settings import Settings

_LEVELS = {"warning": "WARNING ", "error": "ERROR ", "critical": "ERROR ", "debug": "debug "}
_SAID = {"event", "level", "timestamp", "firn_event", "firn_data", "exception", "sink", "logger"}


def driver_log(settings: Settings, name: str, kind: str = "sink") -> Path:
    """The log of a job's drivers; rotated files have a number behind the name. kind: `sink` or `export`."""
    return settings.home / "logs" / f"{kind}-{name}.log"


class LogReader:
    """Reads one log: its newest lines, then what is written from there on, also when it rotates meanwhile."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._opened: TextIO | None = None

    def newest(self, lines: int) -> list[str]:
        """So many of the newest lines, also those of the file before where this one is short; none without a file."""
        newest = list(deque(self.more(), maxlen=lines))
        older = self._file.with_name(f"{self._file.name}.1")
        if len(newest) == lines or not older.is_file():
            return newest
        with older.open(encoding="utf-8", errors="replace") as opened:
            before = deque((line.rstrip("\n") for line in opened), maxlen=lines - len(newest))
        return [*before, *newest]

    def more(self) -> Iterator[str]:
        """The whole lines that were written since the last call."""
        yield from self._lines()
        if self._rotated():
            self._open()
            yield from self._lines()

    def close(self) -> None:
        """Close the file."""
        opened, self._opened = self._opened, None
        if opened:
            opened.close()

    def _open(self) -> None:
        self.close()
        with suppress(FileNotFoundError):  # in the middle of a rotation
            self._opened = self._file.open(encoding="utf-8", errors="replace")

    def _lines(self) -> Iterator[str]:
        while self._opened:
            begin = self._opened.tell()
            line = self._opened.readline()
            if not line.endswith("\n"):  # half of a line: later
                self._opened.seek(begin)
                return
            yield line.rstrip("\n")

    def _rotated(self) -> bool:
        """Whether another file has the name now, or this one was emptied; also before the first one is open."""
        try:
            now = self._file.stat()
        except FileNotFoundError:
            return False
        if self._opened is None:
            return True
        return os.fstat(self._opened.fileno()).st_ino != now.st_ino or now.st_size < self._opened.tell()


def readable(line: str) -> str:
    """A line of the driver's log as a person reads it: time, level where it is not plain, sentence, what belongs to it.

    A line that is not JSON (of the JVM's start, of a crash) stays as it is.
    """
    try:
        entry = json.loads(line)
        time, event = str(entry["timestamp"])[:19].replace("T", " "), str(entry["event"])
    except (ValueError, KeyError, TypeError):
        return line
    more = " ".join(f"{name}={value}" for name, value in entry.items() if name not in _SAID)
    text = f"{time} {_LEVELS.get(str(entry.get('level')), '')}{event}{f' ({more})' if more else ''}"
    return f"{text}\n{entry['exception']}" if entry.get("exception") else text
