"""Spark's checkpoints of a sink, where a process without Spark can see them: in a folder of this machine.

A location is Hadoop's: `s3a://...` and the like are known to Spark alone, and a plain path is of whatever file system
the cluster has as its default (fs.defaultFS), which without a cluster is this machine's.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from firn.errors import ConfigError, TerminalError
from spark_jobs.sink.leftovers.finding import Finding, ranges

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FILE = re.compile(r"(?i:file):(?://(?=/))?(/(?!/).*)")


@dataclass(frozen=True)
class Checkpoints:
    """A sink's folder: a folder inside it for each epoch, and what else lies there."""

    folder: Path
    epochs: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    size: int = 0

    def findings(self) -> list[Finding]:
        """All epochs as one, and each thing that Spark did not write."""
        found = []
        if self.epochs:
            detail = f"epochs {ranges(list(self.epochs))}"
            found.append(Finding("checkpoints", str(self.folder), len(self.epochs), self.size, detail))
        return found + [
            Finding("other file", str(self.folder / name), 1, None, "not written by a sink", by_hand)
            for name in self.others
            if (by_hand := f"rm -r '{self.folder / name}'")
        ]

    def remove(self, epoch: int) -> None:
        """Remove the checkpoints up to this epoch, and the folder if nothing is left in it. Raises TerminalError."""
        try:
            for each in self.epochs:
                if each <= epoch and (self.folder / str(each)).exists():
                    shutil.rmtree(self.folder / str(each))
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()
        except OSError as error:
            raise TerminalError(
                f"A checkpoint cannot be removed: {error.strerror}.",
                where=str(error.filename or self.folder),
                next_step="Give this user the right to, then clean again.",
            ) from error


def look_at_checkpoints(location: str, master: str) -> Checkpoints:
    """Look into a sink's folder of checkpoints. master: Spark's. Raises ConfigError where only Spark can."""
    folder = _local(location)
    if folder is None or (not folder.is_dir() and not master.startswith("local") and not _SCHEME.match(location)):
        raise ConfigError(
            "Checkpoints there can be seen by Spark alone.",
            where=location,
            next_step=f"Nothing reads them once the sink is gone. Remove them with `hadoop fs -rm -r '{location}'` or "
            "the tools of that storage, and give --skip-checkpoints.",
        )
    return _look(folder) if folder.is_dir() else Checkpoints(folder)


def _look(folder: Path) -> Checkpoints:
    try:
        names = sorted(each.name for each in folder.iterdir())
        epochs = sorted(int(name) for name in names if name.isdecimal())
        size = sum(_size(file) for epoch in epochs for file in (folder / str(epoch)).rglob("*"))
    except OSError as error:
        raise ConfigError(
            f"The checkpoints cannot be looked at: {error.strerror}.",
            where=str(error.filename or folder),
            next_step="Give this user the right to read the folder, or give --skip-checkpoints.",
        ) from error
    return Checkpoints(folder, tuple(epochs), tuple(name for name in names if not name.isdecimal()), size)


def _local(location: str) -> Path | None:
    """The folder that a location means on this machine; None where it is another file system's."""
    if not _SCHEME.match(location):
        return Path(location)
    found = _FILE.fullmatch(location)
    return Path(found[1]) if found else None


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except FileNotFoundError:  # of a sink that runs
        return 0
