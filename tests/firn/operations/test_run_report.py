"""What a run says when it ends."""

from __future__ import annotations

from firn.ledger.owner import Totals
from firn.operations.run_report import RunReport
from flows.cli.sink.run import summary, totals


def test_a_run_sums_up_what_it_left_out_and_why() -> None:
    report = RunReport("s", epoch=4, seconds=2.04)
    report.add(Totals(0, 5, 1, 4, 3), {"truncated": 2, "wrong_magic": 2}, staged_bytes=4, files=0)
    report.add(Totals(1, 5, 0, 2, 1), {"wrong_magic": 2}, staged_bytes=6, files=1)
    left = "6 left out (truncated 2, wrong_magic 4), 4 of them dead letters"
    assert summary(report) == f"s: 1 record committed, {left}; 1 batch and 1 file in 2.0 s (epoch 4)"
    assert totals(report)["reasons"] == {"truncated": 2, "wrong_magic": 4}
    assert summary(RunReport("s")) == "s: 0 records committed; 0 batches in 0.0 s (epoch 0)"
