"""What a run of an export adds up."""

from __future__ import annotations

from firn.exports.published import PublishedBatch
from firn.operations.exports.run_report import ExportReport, SourceProgress


def test_batches_count_for_the_run_and_for_their_source() -> None:
    report = ExportReport("orders")
    report.add("a", "topic-a", PublishedBatch(4, 0, rows=10, letters=1, tombstones=2, bytes=100))
    report.add("b", "topic-b", PublishedBatch(2, 0, rows=1, bytes=7))
    report.add("a", "topic-a", PublishedBatch(5, 0, rows=3, bytes=30))
    assert (report.batches, report.rows, report.letters, report.tombstones, report.bytes) == (3, 14, 1, 2, 137)
    assert report.sources == [SourceProgress("a", "topic-a", 2, 13, 1, 5), SourceProgress("b", "topic-b", 1, 1, 0, 2)]
    assert report.as_dict()["sources"][0]["last_batch"] == 5
