"""What others do to the stage and the table: a schema of its own, because nobody else's sink may notice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from firn.errors import TerminalError
from firn.settings import Settings
from firn.snowflake.connection import connect, execute
from tests.support.faults import Interruption, Step
from tests.support.faults_checks import NewRun, exactly_once, going_on, own_schema, staged, until_records
from tests.support.faults_hooks import armed
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, landed, login_of, sql

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def schema(settings: Settings) -> Settings:
    return own_schema(settings)


@pytest.fixture
def parameters(schema: Settings) -> dict[str, str]:
    """Of a sink of JSON in that schema."""
    return JSON | {"snowflake__schema__name": schema.snowflake_schema}


def drop_stage(schema: Settings) -> None:
    with connect(login_of(schema)) as connection:
        execute(connection, "DROP STAGE FIRN_STAGE")


def local_files(schema: Settings, topic: Topic) -> list[Path]:
    """Where the local Snowflake keeps the files of a topic's sink."""
    return sorted((schema.home / "data" / "snowflake").rglob(f"s_{topic.table}/**/*.parquet"))


@pytest.mark.parametrize(
    "step", [pytest.param(Step.PLANNED, marks=pytest.mark.full), Step.BEGUN], ids=["before-put", "before-copy"]
)
def test_a_stage_that_is_dropped_is_made_again(
    schema: Settings, new_run: NewRun, parameters: dict[str, str], step: Step
) -> None:
    topic = Topic(schema, "nostage")
    topic.send([b"1"] * 10)
    dropped = Interruption(step, lambda: drop_stage(schema))
    with armed(dropped):
        new_run(topic, **parameters).run()
    assert dropped.fired
    exactly_once(schema, topic, {0: 10})


def test_files_of_others_in_the_stage_are_neither_loaded_nor_touched(
    schema: Settings, new_run: NewRun, parameters: dict[str, str], tmp_path: Path
) -> None:
    topic = Topic(schema, "foreign")
    topic.send([b"1"] * 10)

    def intrude() -> None:
        """A foreign name, and a copy of one of ours under another name, in the very folder that is loaded."""
        ours = local_files(schema, topic)[0]
        for name in ("notes.txt", ours.name.replace("0-9-", "0-9-copy-"), "part-0.parquet"):
            shutil.copy(ours, tmp_path / name)
            put = f"PUT 'file://{tmp_path / name}' '@FIRN_STAGE/s_{topic.table}/{topic.table}/{topic.name}/0/'"
            sql(schema, f"{put} AUTO_COMPRESS = FALSE")

    with armed(Interruption(Step.DISPATCHED, intrude)):
        new_run(topic, **parameters).run()
    new_run(topic, **parameters).run()
    assert landed(schema, topic) == [(0, n) for n in range(10)]
    left = [name.rsplit("/", 1)[-1] for name in staged(schema, topic)]
    assert {"notes.txt", "part-0.parquet"} <= set(left)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def lose_a_row(file: Path) -> None:
    """A readable file with fewer rows than were staged."""
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)


@pytest.mark.parametrize("damage", [truncate, pytest.param(lose_a_row, marks=pytest.mark.full)])
def test_a_damaged_file_is_staged_anew_and_the_damaged_one_kept_and_named(
    schema: Settings,
    new_run: NewRun,
    parameters: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
) -> None:
    topic = Topic(schema, "damaged")
    topic.send([b"1"] * 10)
    names: list[str] = []

    def harm() -> None:
        file = local_files(schema, topic)[0]
        names.append(file.name)
        damage(file)

    with armed(Interruption(Step.DISPATCHED, harm)):
        new_run(topic, **parameters).run()
    assert landed(schema, topic) == [(0, n) for n in range(10)]
    assert [name.rsplit("/", 1)[-1] for name in staged(schema, topic)] == names
    assert any(names[0] in record.getMessage() for record in caplog.records)
    topic.send([b"2"] * 5)
    new_run(topic, **parameters).run()
    assert landed(schema, topic) == [(0, n) for n in range(15)]
    assert [name.rsplit("/", 1)[-1] for name in staged(schema, topic)] == names


@pytest.mark.both_methods
def test_a_table_that_loses_a_column_stops_the_sink_with_its_name(
    schema: Settings, new_run: NewRun, parameters: dict[str, str]
) -> None:
    topic = Topic(schema, "altered")
    topic.send([b"1"] * 5)
    with going_on(new_run, topic, **parameters) as (run, done):
        until_records(run, done, 5)
        sql(schema, f"ALTER TABLE {topic.table} DROP COLUMN RECORD_CONTENT")
        topic.send([b"2"] * 5)
        with pytest.raises(TerminalError, match="RECORD_CONTENT") as raised:
            done.result(60)
    assert topic.table in str(raised.value)
    assert committed(schema, topic)[0] == 5


@pytest.mark.both_methods
def test_a_table_that_gets_a_column_or_is_dropped_does_not_stop_the_sink(
    schema: Settings, new_run: NewRun, parameters: dict[str, str]
) -> None:
    topic = Topic(schema, "dropped")
    topic.send([b"1"] * 5)
    with going_on(new_run, topic, **parameters) as (run, done):
        until_records(run, done, 5)
        sql(schema, f"ALTER TABLE {topic.table} ADD COLUMN NOTE VARCHAR")
        topic.send([b"2"] * 5)
        until_records(run, done, 10)
        assert landed(schema, topic) == [(0, n) for n in range(10)]
        sql(schema, f"DROP TABLE {topic.table}")
        topic.send([b"3"] * 5)
        until_records(run, done, 15)
    assert landed(schema, topic) == [(0, n) for n in range(10, 15)]
