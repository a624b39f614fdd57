"""Files of a retired sink that lie in the stage: left on their way to a table, refused by COPY, or of somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from snowflake.connector import SnowflakeConnection

from firn.ledger.owner import Owner
from firn.operations.residue.finding import Finding
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.snowpipe.refused_files import refused_files
from spark_jobs.sink.methods.snowpipe.stage import Stage, StagedFile, stage_exists


@dataclass(frozen=True)
class StageResidue:
    """What lies under a sink's name in the stage (a `MethodResidue`). refused: paths that COPY refused.

    exists: whether there is a stage, of which the role sees something.
    """

    stage: Stage
    exists: bool
    files: tuple[StagedFile, ...]
    refused: frozenset[str]

    @cached_property
    def newest_epoch(self) -> int:
        """The highest epoch that a file is of; 0 where there is none."""
        return max((file.epoch for file in self.files if file.epoch is not None), default=0)

    def findings(self) -> list[Finding]:
        """Ordinary files, refused ones, and those that no sink wrote."""
        place = f"@{self.stage.name}/{self.stage.sink}/"
        own = [file for file in self.files if file.epoch is not None]
        ordinary = [file for file in own if file.path not in self.refused]
        refused = [file for file in own if file.path in self.refused]
        found = []
        if ordinary:
            epochs = _ranges(sorted({file.epoch for file in ordinary if file.epoch is not None}))
            found.append(Finding("staged files", place, len(ordinary), _size(ordinary), f"epochs {epochs}"))
        if refused:
            detail = f"refused by COPY: {_names(refused)}"
            found.append(Finding("kept files", place, len(refused), _size(refused), detail))
        return found + [
            Finding("other file", f"@{self.stage.name}/{file.path}", 1, file.size, "not written by a sink", remove)
            for file in self.files
            if file.epoch is None and (remove := f"REMOVE '@{self.stage.name}/{file.path}';")
        ]

    def shared(self) -> list[Finding]:
        """The stage itself."""
        if not self.exists:
            return []
        drop = f"DROP STAGE {self.stage.name}; -- with it the files of all other sinks"
        return [Finding("stage", self.stage.name, None, None, "shared by all sinks of the schema", drop)]

    def remove(self, connection: SnowflakeConnection, epoch: int) -> None:
        """Remove the files of all epochs up to this one; a task of a dead run may have staged some since."""
        files = find_stage_residue(connection, self.stage.namespace, self.stage.sink, None).files
        for each in sorted({file.epoch for file in files if file.epoch is not None and file.epoch <= epoch}):
            self.stage.remove_epoch(connection, each)


def find_stage_residue(
    connection: SnowflakeConnection, namespace: Namespace, sink: str, owner: Owner | None
) -> StageResidue:
    """List the sink's folder; nothing is there where there is no stage, or the role may do nothing with it.

    owner: the sink's owner row, which remembers the refused files.
    """
    stage = Stage(namespace, sink, owner.epoch if owner else 0)
    exists = stage_exists(connection, namespace)
    files = stage.files(connection) if exists else []
    return StageResidue(stage, exists, tuple(files), frozenset(refused_files(owner)))


def _size(files: Sequence[StagedFile]) -> int:
    return sum(file.size for file in files)


def _names(files: Sequence[StagedFile]) -> str:
    shown = ", ".join(file.path for file in files[:3])
    return shown + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as a person writes them: 1-3, 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
