"""What a run says when it begins and when it ends."""

from __future__ import annotations

from types import SimpleNamespace

from firn.kafka.partitions import KafkaPartition, TopicPartition
from flows.cli.sink.run import summary, totals
from spark_jobs.sink.telemetry.progress import TOLD, RunReport, spoken_start
from spark_jobs.sink.values.reports import Tolerated


def test_a_run_sums_up_what_it_left_out_and_why() -> None:
    report = RunReport("s", epoch=4, seconds=2.04)
    tolerated = [Tolerated("t", p, 3, 2, -1, {"truncated": 1, "wrong_magic": 2}, []) for p in (0, 1)]
    report.add(SimpleNamespace(rows=1, size=10, files=1, tolerated=tolerated, bad_records=6, dead_letters=4))
    left = "6 left out (truncated 2, wrong_magic 4), 4 of them dead letters"
    assert summary(report) == f"s: 1 record committed, {left}; 1 batch and 1 file in 2.0 s (epoch 4)"
    assert totals(report)["reasons"] == {"truncated": 2, "wrong_magic": 4}
    assert summary(RunReport("s")) == "s: 0 records committed; 0 batches and 0 files in 0.0 s (epoch 0)"


def test_a_run_says_from_where_it_reads() -> None:
    committed = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 5}
    kafka = {where: KafkaPartition("id", 0, latest) for where, latest in zip(committed, (5, 15), strict=True)}
    told = "t-1 from 5 (10 waiting), t-0 from 5 (0 waiting)"
    assert spoken_start(committed, kafka) == f"2 partitions, 10 records waiting: {told}"


def test_of_many_partitions_a_run_names_the_longest_backlogs() -> None:
    kafka = {TopicPartition("t", p): KafkaPartition("id", 0, p) for p in range(TOLD + 2)}
    told = spoken_start(dict.fromkeys(kafka, 0), kafka)
    assert f"t-{TOLD + 1} from 0 ({TOLD + 1} waiting), " in told
    assert told.endswith(", 2 more")
    assert "t-1 " not in told
