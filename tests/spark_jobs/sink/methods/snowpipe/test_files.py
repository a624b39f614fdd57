"""Receipt files: never above the records and bytes that the configuration names, nothing lost, nothing out of order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.config import BufferConfig
from firn.kafka.partitions import TopicPartition
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.base import PartitionRange
from spark_jobs.sink.methods.snowpipe.files import PartitionFiles
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import ColumnsLoader, TableLoader, VariantLoader


@dataclass
class Uploads:
    """Takes the place of the stage: what is in each file at the moment of its upload."""

    tables: list[pa.Table] = field(default_factory=list)

    def __call__(self, file: Path, _folder: str) -> None:
        self.tables.append(pq.read_table(file))


@pytest.fixture
def uploaded() -> Uploads:
    return Uploads()


def writer_for(
    uploaded: Uploads,
    folder: Path,
    buffer: BufferConfig,
    loader: TableLoader = VariantLoader(),  # noqa: B008 - a value
) -> PartitionFiles:
    nothing: Any = None
    target = PartitionRange(TopicPartition("t", 0), "T", loader, folder, nothing)
    return PartitionFiles(Stage(Namespace("D", "S"), "s", 1), buffer, target, uploaded)


def written(
    uploaded: Uploads, folder: Path, buffer: BufferConfig, batches: list[list[str]], first: int = 0
) -> list[Receipt]:
    writer = writer_for(uploaded, folder, buffer)
    for contents in batches:
        offsets = np.arange(first, first + len(contents), dtype=np.int64)
        metadata = pa.array([f'{{"offset":{offset}}}' for offset in offsets], pa.string())
        writer.write(offsets, (metadata, pa.array(contents, pa.string())))
        first += len(contents)
    return writer.flush()


def rows_of(tables: list[pa.Table]) -> list[list[tuple[str, str]]]:
    return [list(zip(*(column.to_pylist() for column in table.columns), strict=True)) for table in tables]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.text(max_size=40), max_size=12), max_size=5),
    records=st.integers(1, 8),
    size=st.integers(1, 200),
)
def test_files_keep_both_limits_and_every_row(
    uploaded: Uploads, tmp_path: Path, batches: list[list[str]], records: int, size: int
) -> None:
    uploaded.tables.clear()
    staged = written(uploaded, tmp_path, BufferConfig(records=records, bytes=size), batches, first=5)
    found = rows_of(uploaded.tables)
    contents = [text for batch in batches for text in batch]
    assert [row[1] for rows in found for row in rows] == contents
    for report, rows in zip(staged, found, strict=True):
        texts = sum(len(text.encode()) for row in rows for text in row)
        assert (report.rows, report.text_bytes) == (len(rows), texts)
        assert len(rows) <= records
        assert texts <= size or len(rows) == 1
        assert (report.first, report.last) == tuple(int(rows[at][0][10:-1]) for at in (0, -1))


def test_a_file_is_as_full_as_the_limit_allows(uploaded: Uploads, tmp_path: Path) -> None:
    staged = written(uploaded, tmp_path, BufferConfig(records=100, bytes=66), [["x" * 10] * 4, ["x" * 10] * 5])
    assert [report.rows for report in staged] == [3, 3, 3]
    assert {report.text_bytes for report in staged} == {66}


def test_a_batch_that_leaves_no_row_makes_no_file_also_where_no_column_is_known_yet(
    uploaded: Uploads, tmp_path: Path
) -> None:
    writer = writer_for(uploaded, tmp_path, BufferConfig(), ColumnsLoader((), exists=False, grow=True))
    writer.write(np.arange(0), ())
    assert (writer.flush(), uploaded.tables) == ([], [])


def test_null_metadata_takes_no_bytes(uploaded: Uploads, tmp_path: Path) -> None:
    writer = writer_for(uploaded, tmp_path, BufferConfig(records=9, bytes=4))
    writer.write(np.arange(4), (pa.nulls(4, pa.string()), pa.array(["{}"] * 4)))
    assert [receipt.rows for receipt in writer.flush()] == [2, 2]
