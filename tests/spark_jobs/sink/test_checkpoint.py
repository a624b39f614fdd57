"""A new epoch's checkpoint: what is older goes, what is newer stays, and a place that fails may pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from firn.errors import TransientError
from spark_jobs.sink.checkpoint import new_checkpoint, planned_ends
from spark_jobs.sink.ledger import TopicPartition

pytestmark = pytest.mark.stack


def test_a_slow_run_leaves_the_checkpoint_of_a_newer_one_alone(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("1", "9", "10", "11", "notes"):
        (tmp_path / name / "offsets").mkdir(parents=True)
    assert new_checkpoint(spark, str(tmp_path), 10) == f"{tmp_path}/10"
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["11", "notes"]


def test_the_first_checkpoint_needs_no_folder(spark: SparkSession, tmp_path: Path) -> None:
    assert new_checkpoint(spark, str(tmp_path / "new"), 1) == f"{tmp_path}/new/1"


def test_a_place_that_fails_is_named_with_what_java_says(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="UnsupportedFileSystemException") as raised:
        new_checkpoint(spark, "nowhere://host/checkpoints", 1)
    assert raised.value.where == "nowhere://host/checkpoints"
    with pytest.raises(TransientError, match="FileNotFoundException") as raised:
        planned_ends(spark, str(tmp_path), 7)
    assert raised.value.where == f"{tmp_path}/offsets/7"


def test_a_plan_is_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"t":{"0":5,"1":7}}')
    assert planned_ends(spark, str(tmp_path), 0) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
