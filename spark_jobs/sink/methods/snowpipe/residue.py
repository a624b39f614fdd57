"""Files of a sink that lie in the stage: on their way to a table once, refused by COPY, or of somebody else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from snowflake.connector import SnowflakeConnection

from firn.operations.residue.finding import Finding, ranges
from spark_jobs.sink.methods.snowpipe.stage import Stage, StagedFile, stage_exists


@dataclass(frozen=True)
class Staged:
    """What lies under a sink's name in the stage. kept: paths that COPY refused and that the sink spares."""

    stage: Stage
    files: tuple[StagedFile, ...]
    kept: frozenset[str]

    @cached_property
    def epochs(self) -> list[int]:
        """The epochs that files are of, in order."""
        return sorted({file.epoch for file in self.files if file.epoch is not None})

    def findings(self) -> list[Finding]:
        """Ordinary files, refused ones, and those that no sink wrote."""
        place = f"@{self.stage.name}/{self.stage.sink}/"
        own = [file for file in self.files if file.epoch is not None]
        ordinary = [file for file in own if file.path not in self.kept]
        refused = [file for file in own if file.path in self.kept]
        found = []
        if ordinary:
            epochs = ranges(sorted({file.epoch for file in ordinary if file.epoch is not None}))
            found.append(Finding("staged files", place, len(ordinary), _size(ordinary), f"epochs {epochs}"))
        if refused:
            found.append(
                Finding("kept files", place, len(refused), _size(refused), f"refused by COPY: {_names(refused)}")
            )
        return found + [
            Finding("other file", f"@{self.stage.name}/{file.path}", 1, file.size, "not written by a sink", remove)
            for file in self.files
            if file.epoch is None and (remove := f"REMOVE '@{self.stage.name}/{file.path}';")
        ]


def look_at_stage(connection: SnowflakeConnection, stage: Stage, kept: Collection[str]) -> Staged:
    """List the sink's folder; nothing is there where there is no stage, or the role may do nothing with it."""
    files = stage.files(connection) if stage_exists(connection, stage.namespace) else []
    return Staged(stage, tuple(files), frozenset(kept))


def _size(files: Sequence[StagedFile]) -> int:
    return sum(file.size for file in files)


def _names(files: Sequence[StagedFile]) -> str:
    shown = ", ".join(file.path for file in files[:3])
    return shown + (f" and {len(files) - 3} more" if len(files) > 3 else "")
