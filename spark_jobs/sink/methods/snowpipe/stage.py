"""The internal stage: how files are named, uploaded and removed.

A file name carries everything that recovery needs: `<sink>/<table>/<topic>/<partition>/<first>-<last>-<epoch>-
<attempt>-<random>.parquet`. Statements: PUT, LIST, REMOVE, CREATE STAGE
(https://docs.snowflake.com/en/sql-reference/sql/put, .../remove, .../create-stage).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from snowflake.connector import SnowflakeConnection

from firn.errors import TransientError
from firn.snowflake.connection import execute, query
from firn.snowflake.identifiers import Namespace, quoted

STAGE = "FIRN_STAGE"

_SHOW = "SHOW STAGES LIKE '{stage}' IN SCHEMA {schema}"
_CREATE = "CREATE STAGE IF NOT EXISTS {stage} COMMENT = 'Files on their way into tables; made by Firn'"
_PUT = "PUT 'file://{local}' '@{stage}/{folder}' AUTO_COMPRESS = FALSE SOURCE_COMPRESSION = NONE OVERWRITE = FALSE"
_LIST = "LIST '@{stage}/{folder}'"
_REMOVE = "REMOVE '@{stage}/{folder}' PATTERN = '{pattern}'"
_REMOVE_ONE = "REMOVE '@{stage}/{path}'"
_NAMES_PER_REMOVE = 200
_END = re.compile(r"-([0-9a-f]{16})\.parquet$")
_EPOCH = re.compile(r"-(\d+)-\d+-[0-9a-f]{16}\.parquet$")


def stage_exists(connection: SnowflakeConnection, namespace: Namespace) -> bool:
    """Whether the stage is there and the role may do something with it."""
    schema = f"{quoted(namespace.database)}.{quoted(namespace.schema)}"
    rows = query(connection, _SHOW.format(stage=STAGE, schema=schema))
    return any(row["name"] == STAGE for row in rows)


@dataclass(frozen=True)
class StagedFile:
    """A file in the stage: its path there, its size in bytes, and its epoch; None for a file that no sink wrote."""

    path: str
    size: int
    epoch: int | None


@dataclass(frozen=True)
class Stage:
    """The stage of one schema, as used by one sink in one epoch."""

    namespace: Namespace
    sink: str
    epoch: int

    @property
    def name(self) -> str:
        """The full name, ready for a statement."""
        return self.namespace.qualified(STAGE)

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the stage unless it is there: IF NOT EXISTS alone wants the privilege to create in any case."""
        if not stage_exists(connection, self.namespace):
            execute(connection, _CREATE.format(stage=self.name))

    def folder(self, table: str, topic: str, partition: int) -> str:
        """Where the files of a partition go, with a slash at its end."""
        return f"{self.sink}/{table}/{topic}/{partition}/"

    def file_name(self, first: int, last: int) -> str:
        """A name nobody else writes: offsets inclusive, this epoch, the attempt (always the first), 64 random bits."""
        return f"{first}-{last}-{self.epoch}-0-{secrets.token_hex(8)}.parquet"

    def put(self, connection: SnowflakeConnection, file: Path, folder: str) -> None:
        """Upload one file. Raises TransientError unless Snowflake says that it was uploaded just now."""
        statement = _PUT.format(local=file.as_posix(), stage=self.name, folder=folder)
        answers = query(connection, statement)
        statuses = [str(answer.get("status")) for answer in answers]
        if statuses != ["UPLOADED"]:
            raise TransientError(
                f"PUT of {file.name} answered {', '.join(statuses) or 'nothing'} instead of UPLOADED.",
                where=f"stage @{self.name}/{folder}",
                next_step="Check the rights of the role on the stage, and its storage.",
            )

    def files(self, connection: SnowflakeConnection) -> list[StagedFile]:
        """All that lies under this sink's name, of any epoch, in order of the paths."""
        listed = query(connection, _LIST.format(stage=self.name, folder=f"{self.sink}/"))
        # LIST puts the stage's own name in front of a path.
        found = [(str(row["name"]).partition("/")[2], int(row["size"])) for row in listed]
        return [StagedFile(path, size, _epoch_of(path)) for path, size in sorted(found)]

    def remove_epoch(self, connection: SnowflakeConnection, epoch: int) -> None:
        """Remove all files of an epoch of this sink, those too that COPY refused."""
        self._remove(connection, f"{self.sink}/", epoch)

    def remove_files(self, connection: SnowflakeConnection, paths: Sequence[str]) -> None:
        """Remove these files, which a batch committed: others of this epoch may be on their way already."""
        names = sorted(_END.search(path)[1] for path in paths)  # type: ignore[index]  # `file_name` made them
        for start in range(0, len(names), _NAMES_PER_REMOVE):
            pattern = f".*-({'|'.join(names[start : start + _NAMES_PER_REMOVE])})[.]parquet"
            query(connection, _REMOVE.format(stage=self.name, folder=f"{self.sink}/", pattern=pattern))

    def remove_older(self, connection: SnowflakeConnection, kept: Collection[str]) -> frozenset[str]:
        """Remove what earlier epochs of this sink left behind, which can no longer commit; not the paths in `kept`.

        Returns those of `kept` that are in the stage: the others are not there to be kept.
        """
        files = self.files(connection)
        there = frozenset(file.path for file in files if file.path in kept)
        older = {file.path: file.epoch for file in files if file.epoch is not None and file.epoch < self.epoch}
        spared = {older[path] for path in there & older.keys()}
        for epoch in sorted({*older.values()} - spared):
            self.remove_epoch(connection, epoch)
        self._remove_beside(connection, {path: epoch for path, epoch in older.items() if epoch in spared}, there)
        return there

    def _remove_beside(self, connection: SnowflakeConnection, older: Mapping[str, int], kept: Collection[str]) -> None:
        """Remove files by their epochs, but not those `kept`: one by one only in a folder that holds one of these."""
        by_folder: dict[tuple[str, int], list[str]] = {}
        for path, epoch in sorted(older.items()):
            by_folder.setdefault((path.rpartition("/")[0] + "/", epoch), []).append(path)
        for (folder, epoch), paths in by_folder.items():
            doomed = [path for path in paths if path not in kept]
            if doomed == paths:
                self._remove(connection, folder, epoch)
                continue
            for path in doomed:
                query(connection, _REMOVE_ONE.format(stage=self.name, path=path))

    def _remove(self, connection: SnowflakeConnection, folder: str, epoch: int) -> None:
        pattern = rf".*-{epoch}-[0-9]+-[0-9a-f]+[.]parquet"
        query(connection, _REMOVE.format(stage=self.name, folder=folder, pattern=pattern))


def _epoch_of(path: str) -> int | None:
    found = _EPOCH.search(path)
    return int(found[1]) if found else None
