"""What earlier epochs left in the stage is removed, with few statements, and what is kept stays."""

from __future__ import annotations

import re
from typing import Any

import pytest

from firn.settings import Settings
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.snowpipe import stage as stages
from spark_jobs.sink.methods.snowpipe.files import ParquetFile
from spark_jobs.sink.methods.snowpipe.stage import Stage
from tests.support.faults_checks import own_schema
from tests.support.sinks import login_of, sql

EPOCH = 9


def path(partition: int, epoch: int, number: int = 0) -> str:
    return f"s/T/t/{partition}/0-9-{epoch}-0-{number:016x}.parquet"


class FakeStage:
    """Files by their paths; takes LIST and REMOVE, and counts what it is asked."""

    def __init__(self, *paths: str) -> None:
        self.paths, self.removals = set(paths), 0

    def query(self, _connection: object, statement: str) -> list[dict[str, Any]]:
        match = re.fullmatch(
            r"(LIST|REMOVE) '@(?:\"?\w+\"?\.){2}\"?FIRN_STAGE\"?/([^']*)'(?: PATTERN = '(.*)')?", statement
        )
        assert match, statement
        found = {p for p in self.paths if p.startswith(match[2]) and (not match[3] or re.fullmatch(match[3], p))}
        if match[1] == "REMOVE":
            self.paths -= found
            self.removals += 1
        return [{"name": f"firn_stage/{p}", "size": 0} for p in sorted(found)]


def clean(monkeypatch: pytest.MonkeyPatch, fake: FakeStage, *kept: str) -> frozenset[str]:
    monkeypatch.setattr(stages, "query", fake.query)
    return Stage(Namespace("D", "S"), "s", EPOCH).remove_older(None, kept)  # type: ignore[arg-type]


def test_what_is_not_there_need_not_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    here, gone = path(1, 3), path(1, 3, 7)
    fake = FakeStage(here)
    assert clean(monkeypatch, fake, here, gone) == {here}
    assert fake.paths == {here}


def test_only_older_epochs_of_the_sink_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {path(0, EPOCH), path(0, EPOCH + 1), "s/T/t/0/notes.txt", path(0, 3).replace("s/", "s2/", 1)}
    fake = FakeStage(path(0, 3), path(10, 8), *others)
    assert clean(monkeypatch, fake) == frozenset()
    assert fake.paths == others


def test_only_the_folder_of_a_kept_file_is_emptied_file_by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = path(1, 3)
    beside = [path(1, 3, number) for number in range(1, 4)]
    elsewhere = [path(partition, 3, number) for partition in (0, 2, 10) for number in range(50)]
    other_epochs = [path(partition, epoch) for partition in (1, 2) for epoch in (4, 5)]
    fake = FakeStage(kept, *beside, *elsewhere, *other_epochs)
    assert clean(monkeypatch, fake, kept) == {kept}
    assert fake.paths == {kept}
    assert fake.removals == len(beside) + len((0, 2, 10)) + len((4, 5))


@pytest.mark.stack
def test_a_real_stage_keeps_what_is_kept(stack: Any, tmp_path: Any) -> None:
    settings: Settings = own_schema(stack.settings)
    namespace = Namespace(settings.snowflake_database, settings.snowflake_schema)
    older, newer = Stage(namespace, "s", 3), Stage(namespace, "s", 4)
    with connect(login_of(settings)) as connection:
        older.ensure(connection)
        paths = []
        for folder in ("s/T/t/1/", "s/T/t/1/", "s/T/t/10/"):
            file = ParquetFile(tmp_path / older.file_name(0, 0), ("RECORD",))
            file.close()
            older.put(connection, file.path, folder)
            paths.append(folder + file.path.name)
        assert newer.remove_older(connection, [paths[0], "s/T/t/1/gone.parquet"]) == {paths[0]}
    listed = sql(settings, "LIST @FIRN_STAGE")
    assert [str(row["name"]).partition("/")[2] for row in listed] == paths[:1]
