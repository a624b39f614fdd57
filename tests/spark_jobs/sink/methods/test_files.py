"""Staged files: never above the records and bytes that the configuration names, nothing lost, nothing out of order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.config import BufferConfig, SinkConfig
from firn.kafka.partitions import TopicPartition
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.snowpipe import files
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.values.reports import Staged


@pytest.fixture
def uploaded(monkeypatch: pytest.MonkeyPatch) -> list[pa.Table]:
    """What is in each file at the moment of its upload."""
    tables: list[pa.Table] = []
    monkeypatch.setattr(files, "upload", lambda _context, _stage, file, _folder: tables.append(pq.read_table(file)))
    return tables


def written(folder: Path, buffer: BufferConfig, batches: list[list[str]], first: int = 0) -> list[Staged]:
    context: Any = SimpleNamespace(config=SinkConfig("s", buffer=buffer))
    writer = files.PartitionFiles(
        context, Stage(Namespace("D", "S"), "s", 1), TopicPartition("t", 0), folder, ("M", "C")
    )
    for contents in batches:
        offsets = np.arange(first, first + len(contents), dtype=np.int64)
        metadata = pa.array([f'{{"offset":{offset}}}' for offset in offsets], pa.string())
        writer.write(offsets, (metadata, pa.array(contents, pa.string())))
        first += len(contents)
    writer.close()
    return writer.staged


def rows_of(tables: list[pa.Table]) -> list[list[tuple[str, str]]]:
    return [list(zip(*(column.to_pylist() for column in table.columns), strict=True)) for table in tables]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.text(max_size=40), max_size=12), max_size=5),
    records=st.integers(1, 8),
    size=st.integers(1, 200),
)
def test_files_keep_both_limits_and_every_row(
    uploaded: list[pa.Table], tmp_path: Path, batches: list[list[str]], records: int, size: int
) -> None:
    uploaded.clear()
    staged = written(tmp_path, BufferConfig(records=records, bytes=size), batches, first=5)
    found = rows_of(uploaded)
    contents = [text for batch in batches for text in batch]
    assert [row[1] for rows in found for row in rows] == contents
    for report, rows in zip(staged, found, strict=True):
        texts = sum(len(text.encode()) for row in rows for text in row)
        assert (report.rows, report.text_size) == (len(rows), texts)
        assert len(rows) <= records
        assert texts <= size or len(rows) == 1
        assert (report.first, report.last) == tuple(int(rows[at][0][10:-1]) for at in (0, -1))


def test_a_file_is_as_full_as_the_limit_allows(uploaded: list[pa.Table], tmp_path: Path) -> None:
    staged = written(tmp_path, BufferConfig(records=100, bytes=66), [["x" * 10] * 4, ["x" * 10] * 5])
    assert [report.rows for report in staged] == [3, 3, 3]
    assert {report.text_size for report in staged} == {66}


def test_a_batch_that_leaves_no_row_makes_no_file_also_where_no_column_is_known_yet(
    uploaded: list[pa.Table], tmp_path: Path
) -> None:
    context: Any = SimpleNamespace(config=SinkConfig("s"))
    writer = files.PartitionFiles(context, Stage(Namespace("D", "S"), "s", 1), TopicPartition("t", 0), tmp_path, ())
    writer.write(np.arange(0), ())
    writer.close()
    assert (writer.staged, uploaded) == ([], [])


def test_null_metadata_takes_no_bytes(uploaded: list[pa.Table], tmp_path: Path) -> None:
    context: Any = SimpleNamespace(config=SinkConfig("s", buffer=BufferConfig(records=9, bytes=4)))
    writer = files.PartitionFiles(
        context, Stage(Namespace("D", "S"), "s", 1), TopicPartition("t", 0), tmp_path, ("M", "C")
    )
    writer.write(np.arange(4), (pa.nulls(4, pa.string()), pa.array(["{}"] * 4)))
    writer.close()
    assert [report.rows for report in writer.staged] == [2, 2]
