"""What happens to Spark's checkpoint happens to a plan: the ledger is the truth, while a run goes on and afterwards."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from firn.settings import Settings
from spark_jobs.sink.run import SinkRun
from tests.support.faults_checks import NewRun, exactly_once, going_on, until_records
from tests.support.kafka import Topic
from tests.support.sinks import JSON, sql, wait_until

pytestmark = pytest.mark.stack


def checkpoint(run: SinkRun, epoch: int) -> Path:
    return Path(run._context.checkpoints) / str(epoch)


def planned(run: SinkRun) -> Path:
    """The checkpoint of a run that goes on, once Spark knows of a batch's end."""
    folder = checkpoint(run, run.report.epoch)
    wait_until(lambda: (folder / "commits").is_dir() and logs(folder, "commits"), what="a batch in the commit log")
    return folder


def logs(folder: Path, kind: str) -> list[Path]:
    """The entries of a log of Spark's, oldest first."""
    return sorted((file for file in (folder / kind).iterdir() if file.name.isdigit()), key=lambda file: int(file.name))


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def truncate(folder: Path) -> None:
    for kind in ("offsets", "commits"):
        for file in logs(folder, kind):
            os.truncate(file, 3)


def forget_last_commit(folder: Path) -> None:
    last = logs(folder, "commits")[-1]
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def test_a_checkpoint_that_is_harmed_costs_nothing(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "plan")
    harms = (forget_last_commit, truncate, delete)
    with going_on(new_run, topic, **JSON) as (run, done):
        for number, harm in enumerate(harms, start=1):
            topic.send([b"1"] * 5)
            until_records(run, done, 5 * number)
            harm(planned(run))
    exactly_once(settings, topic, {0: 15})
    topic.send([b"2"] * 5)
    new_run(topic, **JSON).run()
    exactly_once(settings, topic, {0: 20})


def test_a_checkpoint_restored_from_yesterday_is_never_resumed(
    settings: Settings, new_run: NewRun, tmp_path: Path
) -> None:
    """Behind the ledger it would only cost time. Ahead of it, it would lose what lies between."""
    topic = Topic(settings, "restored")
    topic.send([b"1"] * 10)
    first = new_run(topic, **JSON)
    first.run()
    shutil.copytree(checkpoint(first, 1), tmp_path / "yesterday")
    sql(settings, f"TRUNCATE TABLE {topic.table}")
    sql(settings, f"UPDATE FIRN_OFFSETS SET NEXT_OFFSET = 0 WHERE TOPIC = '{topic.name}'")
    for epoch in (1, 2):  # also as the one that comes next
        shutil.copytree(tmp_path / "yesterday", checkpoint(first, epoch), dirs_exist_ok=True)
    topic.send([b"2"] * 5)
    assert new_run(topic, **JSON).run().records == 15
    exactly_once(settings, topic, {0: 15})
