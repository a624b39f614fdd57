"""What Prometheus reads at a driver: the figures of a run, under names and labels that stay."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from firn.connector.config import BufferConfig, MetricsConfig
from firn.errors import TransientError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.positions import Ledger, Move
from firn.retry import Retries
from firn.settings import PROJECT_ROOT, Settings
from spark_jobs.sink.run import SinkRun
from spark_jobs.sink.telemetry import metrics_endpoint
from spark_jobs.sink.telemetry.metrics import MAX_PARTITIONS, METRICS, SinkMetrics
from spark_jobs.sink.telemetry.metrics_endpoint import served
from spark_jobs.sink.values.batches import CommittedBatch
from spark_jobs.sink.values.reports import Tolerated
from tests.support.kafka import Topic
from tests.support.sinks import JSON, wait_until

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NewRun = Callable[..., SinkRun]
PAGE = (PROJECT_ROOT / "docs/metrics.md").read_text()
DASHBOARD = json.loads((PROJECT_ROOT / "infra/grafana/firn-sink.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((PROJECT_ROOT / "infra/prometheus/firn-rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
Sample = tuple[str, tuple[tuple[str, str], ...]]


def parsed(text: str) -> dict[Sample, float]:
    """Every sample of a scrape by name and labels."""
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def scraped(port: int) -> dict[Sample, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return parsed(answer.read().decode())


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def of(samples: Mapping[Sample, float], name: str, **labels: object) -> float | None:
    """The value of one sample of sink s; None where there is none."""
    wanted = {"sink": "s"} | {label: str(value) for label, value in labels.items()}
    return samples.get((name, tuple(sorted(wanted.items()))))


def read(metrics: SinkMetrics) -> dict[Sample, float]:
    return parsed(generate_latest(metrics.registry).decode())


def claimed(metrics: SinkMetrics, committed: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> None:
    seen = {where: KafkaPartition("id", 0, end) for where, end in ends.items()}
    metrics.claimed(Ledger("s", 7, committed), seen)


def batch(*moves: Move, tolerated: tuple[Tolerated, ...] = (), **given: Any) -> CommittedBatch:
    figures: dict[str, Any] = {"rows": 5, "bytes": 100, "text_bytes": 900, "receipts": 2}
    times = {"dispatch_seconds": 3.0, "commit_seconds": 0.5}
    return CommittedBatch(name="7-0", moves=moves, tolerated=tolerated, **figures | times | given)


def test_before_the_first_claim_counters_are_zero_and_there_is_no_lag() -> None:
    found = read(SinkMetrics("s", retries=Retries()))
    assert of(found, "firn_sink_records_total") == 0
    assert of(found, "firn_sink_batch_seconds_count", phase="commit") == 0
    assert of(found, "firn_sink_lag_records") is None  # 0 would say that the sink is up to date


def test_lag_is_kafkas_end_against_what_is_committed() -> None:
    metrics = SinkMetrics("s", retries=Retries())
    claimed(metrics, {P0: 10, P1: 0}, {P0: 15, P1: 100})
    metrics.committed(batch(Move(P1, 0, 60)))
    found = read(metrics)
    assert of(found, "firn_sink_epoch") == 7
    assert of(found, "firn_sink_partition_lag_records", topic="t", partition=0) == 5
    assert of(found, "firn_sink_partition_committed_offset", topic="t", partition=1) == 60
    assert of(found, "firn_sink_partition_end_offset", topic="t", partition=1) == 100
    assert (of(found, "firn_sink_lag_records"), of(found, "firn_sink_max_partition_lag_records")) == (45, 40)


def test_records_wait_from_the_last_commit_on_and_only_while_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    metrics = SinkMetrics("s", BufferConfig(500, 30), retries=Retries())
    claimed(metrics, {P0: 0}, {P0: 10})
    now += 40
    assert of(read(metrics), "firn_sink_waiting_seconds") == 40
    metrics.committed(batch(Move(P0, 0, 4)))
    now += 20
    assert of(read(metrics), "firn_sink_waiting_seconds") == 20
    metrics.committed(batch(Move(P0, 4, 10)))
    assert of(read(metrics), "firn_sink_waiting_seconds") == 0
    metrics.positions.refresh(lambda _: {P0: 11})
    now += 5
    found = read(metrics)
    assert of(found, "firn_sink_waiting_seconds") == 5
    assert (of(found, "firn_sink_buffer_records"), of(found, "firn_sink_buffer_flush_seconds")) == (500, 30)


def test_a_commit_counts_rows_bytes_phases_and_what_was_left_out_by_reason() -> None:
    metrics = SinkMetrics("s", retries=Retries())
    claimed(metrics, {P0: 0}, {P0: 15})
    left_out = (Tolerated("t", 0, 3, 2, 9, {"too_short": 1, "wrong_magic": 2}, []),)
    metrics.committed(batch(Move(P0, 0, 8), tolerated=left_out))
    metrics.committed(batch(Move(P0, 8, 9), tolerated=left_out, dispatch_seconds=0.2))
    metrics.changed(3)
    found = read(metrics)
    totals = ("records", "bytes", "staged_bytes", "files", "batches", "dead_letters", "schema_changes")
    assert [of(found, f"firn_sink_{name}_total") for name in totals] == [10, 1800, 200, 4, 2, 4, 3]
    assert of(found, "firn_sink_bad_records_total", reason="wrong_magic") == 4
    assert of(found, "firn_sink_batch_seconds_sum", phase="ship") == pytest.approx(3.2)
    assert of(found, "firn_sink_batch_seconds_bucket", phase="ship", le="1.0") == 1
    assert of(found, "firn_sink_last_commit_timestamp_seconds")


def test_a_partition_that_is_claimed_no_more_is_told_no_more() -> None:
    metrics = SinkMetrics("s", retries=Retries())
    claimed(metrics, {P0: 1, P1: 1}, {P0: 1, P1: 1})
    claimed(metrics, {P0: 1}, {P0: 1})
    found = read(metrics)
    assert of(found, "firn_sink_partition_lag_records", topic="t", partition=1) is None
    assert of(found, "firn_sink_partitions") == 1


def test_ten_thousand_partitions_stay_readable_and_the_sums_stay_whole() -> None:
    metrics = SinkMetrics("s", retries=Retries())
    many = {TopicPartition("t", number): 0 for number in range(10_000)}
    claimed(metrics, many, {where: where.partition for where in many})
    found = read(metrics)
    told = [labels for name, labels in found if name == "firn_sink_partition_lag_records"]
    assert len(told) == MAX_PARTITIONS
    assert of(found, "firn_sink_partitions") == 10_000
    assert of(found, "firn_sink_lag_records") == sum(range(10_000))
    assert of(found, "firn_sink_max_partition_lag_records") == 9_999


def test_ends_that_kafka_told_before_a_commit_are_no_negative_lag() -> None:
    metrics = SinkMetrics("s", retries=Retries())
    claimed(metrics, {P0: 0, P1: 5}, {P0: 10, P1: 5})

    def while_a_batch_commits(_: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        metrics.committed(batch(Move(P0, 0, 12)))
        return {P0: 11, P1: 3}

    metrics.positions.refresh(while_a_batch_commits)
    found = read(metrics)
    assert of(found, "firn_sink_partition_end_offset", topic="t", partition=0) == 12
    assert of(found, "firn_sink_partition_end_offset", topic="t", partition=1) == 3  # told as Kafka tells it
    assert of(found, "firn_sink_lag_records") == 0


def test_ends_that_kafka_does_not_tell_stand_still_with_their_time() -> None:
    metrics = SinkMetrics("s", retries=Retries())
    claimed(metrics, {P0: 0}, {P0: 10})
    before = of(read(metrics), "firn_sink_end_offsets_timestamp_seconds")

    def away(_: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        raise TransientError("Kafka does not answer.")

    with pytest.raises(TransientError):
        metrics.positions.refresh(away)
    found = read(metrics)
    assert of(found, "firn_sink_end_offsets_timestamp_seconds") == before
    assert of(found, "firn_sink_lag_records") == 10


def test_retries_of_driver_and_tasks_are_counted_by_kind() -> None:
    retries = Retries()
    metrics = SinkMetrics("s", retries=retries)
    retries.add({"TransientError": 2})
    retries.add({"TransientError": 1, "LockConflictError": 1})
    found = read(metrics)
    assert of(found, "firn_sink_retries_total", error="TransientError") == 3
    assert of(found, "firn_sink_retries_total", error="LockConflictError") == 1


def test_scrapes_commits_and_looks_may_happen_at_once() -> None:
    metrics = SinkMetrics("s", retries=Retries())
    claimed(metrics, {P0: 0}, {P0: 0})

    def commit() -> None:
        for at in range(200):
            metrics.committed(batch(Move(P0, at, at + 1)))

    def look() -> None:
        for end in range(200):
            metrics.positions.refresh(lambda _, end=end: {P0: end})  # type: ignore[misc]

    with ThreadPoolExecutor() as pool:
        done = [pool.submit(work) for work in (commit, look)]
        while not all(each.done() for each in done):
            assert (of(read(metrics), "firn_sink_lag_records") or 0) >= 0
        for each in done:
            each.result()
    assert of(read(metrics), "firn_sink_partition_committed_offset", topic="t", partition=0) == 200


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "POLL_SECONDS", 0.05)


def test_without_a_port_nothing_is_served_and_kafka_is_not_asked() -> None:
    threads = threading.active_count()
    with served(SinkMetrics("s"), MetricsConfig(), lambda _: pytest.fail("asked")):
        assert threading.active_count() == threads


@pytest.mark.usefixtures("quick_looks")
def test_a_port_in_use_ends_nothing_is_told_once_and_taken_when_it_is_free(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    asked = threading.Semaphore(0)

    def ends(_: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        asked.release()
        return {P0: 9}

    metrics = SinkMetrics("s", retries=Retries())
    claimed(metrics, {P0: 0}, {P0: 0})
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with served(metrics, MetricsConfig(port), ends):
            assert all(asked.acquire(timeout=5) for _ in range(3))
            other.close()
            wait_until(lambda: "metrics are served" in caplog.text, seconds=10)
            assert of(scraped(port), "firn_sink_lag_records") == 9
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 1
    assert f"127.0.0.1:{port}" in warned[0]
    assert "firn.metrics.port" in warned[0]


def test_the_port_is_free_once_the_run_is_over() -> None:
    port = free_port()
    for _ in range(2):
        with served(SinkMetrics("s", retries=Retries()), MetricsConfig(port), lambda _: {}):
            wait_until(lambda: answers(port), seconds=10)
        assert not answers(port)


def answers(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(run: SinkRun, stop: threading.Event) -> Iterator[None]:
    with ThreadPoolExecutor() as pool:
        done = pool.submit(run.run)
        try:
            yield
        finally:
            stop.set()
        done.result(60)


@pytest.mark.stack
def test_a_scrape_tells_what_was_produced_committed_and_left_out(
    settings: Settings, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_endpoint, "POLL_SECONDS", 0.2)
    topic, port, stop = Topic(settings, "metrics"), free_port(), threading.Event()
    topic.send([*(json.dumps({"n": n}).encode() for n in range(20)), b"no json"])
    topic.send([b"{}"] * 4, partition=1)
    # A batch waits for 20 records: what is sent after the first one stays uncommitted.
    parameters = {"firn__metrics__port": str(port), "errors__tolerance": "all", "buffer__count__records": "20"}
    run = new_run(topic, once=False, stop=stop, **parameters, **JSON)
    with running(run, stop):
        wait_until(lambda: run.report.records == 24, what="committed")
        wait_until(lambda: answers(port), what="served")
        topic.send([b"{}"] * 3)
        wait_until(lambda: scraped(port)["firn_sink_lag_records", (("sink", run.report.sink),)] == 3, what="seen")
        found = scraped(port)
    assert ours(found, "firn_sink_partition_end_offset", topic, 0) == 24
    assert ours(found, "firn_sink_partition_lag_records", topic, 0) == 3
    assert ours(found, "firn_sink_partition_committed_offset", topic, 0) == 21
    assert ours(found, "firn_sink_partition_committed_offset", topic, 1) == 4
    sink = {"sink": run.report.sink}
    assert found["firn_sink_records_total", tuple(sink.items())] == 24
    assert found["firn_sink_bad_records_total", (("reason", "invalid_json"), *sink.items())] == 1
    assert found["process_resident_memory_bytes", ()] > 0
    assert_stable_and_quiet(found, run)


def ours(found: Mapping[Sample, float], name: str, topic: Topic, partition: int) -> float | None:
    labels = {"partition": str(partition), "sink": f"s_{topic.table}", "topic": topic.name}
    return found.get((name, tuple(sorted(labels.items()))))


def assert_stable_and_quiet(found: Mapping[Sample, float], run: SinkRun) -> None:
    """Firn's samples have exactly the labels that METRICS tells, and no credential is in any of them."""
    expected = {metric.name: {"sink", *metric.labels} for metric in METRICS}
    for name, labels in found:
        if name.startswith("firn_"):
            base = re.sub(r"_(bucket|count|sum)$", "", name)
            assert {label for label, _ in labels} - {"le"} == expected[base]
    context = run._context
    key = context.login.private_key.get_secret_value().splitlines()[1]
    texts = [text for name, labels in found for text in (name, *(value for _, value in labels))]
    kafka = [value for value in context.kafka.librdkafka().values() if isinstance(value, str)]
    secret = [value for value in kafka if value in context.kafka.librdkafka().get("sasl.password", "")]
    assert secret
    assert not any(hidden in text for hidden in (key, *secret) for text in texts)


def test_the_page_lists_exactly_the_metrics_there_are() -> None:
    rows = re.findall(r"^\| `(firn_\w+)` \| (\w+) \|(.*?)\| (.*?) \|$", PAGE, re.MULTILINE)
    told = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning) for name, kind, labels, meaning in rows}
    assert told == {metric.name: (metric.kind, metric.labels, metric.meaning) for metric in METRICS}


def expressions() -> Iterator[tuple[str, str]]:
    """Every PromQL expression of the dashboard and of the alerts, with where it stands."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for each in DASHBOARD["annotations"]["list"]:
        yield each["name"], each["expr"]
    for each in DASHBOARD["templating"]["list"]:
        if each["type"] == "query":
            yield each["name"], each["query"]["query"]
    for rule in RULES:
        yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("where", "expression"), [pytest.param(*each, id=each[0]) for each in expressions()])
def test_every_metric_and_label_in_an_expression_exists(where: str, expression: str) -> None:
    """Names, grouping labels and matchers are those that a driver serves; histograms are asked by their parts."""
    labels = {"sink", "instance", "job", "le"}
    for name in re.findall(r"\b(?:firn|process)_\w+", expression):
        if name in SERVED:
            labels |= SERVED[name]
        else:
            pytest.fail(f"{where}: no driver serves {name}")
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    assert {label.strip() for group in grouped for label in group.split(",")} <= labels
    assert expression.count("(") == expression.count(")")


def served_names() -> dict[str, set[str]]:
    """Names as they are queried, with their labels."""
    names = {name: {label for label, _ in labels} for name, labels in read(SinkMetrics("s", retries=Retries()))}
    for metric in METRICS:
        parts = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        names |= {metric.name + part: {"sink", *metric.labels} for part in parts}
    return names


SERVED = served_names()


def test_panels_have_ids_of_their_own_and_show_the_chosen_sinks_of_the_chosen_source() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert {each["name"] for each in DASHBOARD["templating"]["list"]} == {"datasource", "sink"}
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            selectors = re.findall(r"firn_sink_\w+(\{[^}]*\})?", target["expr"])
            assert set(selectors) == {'{sink=~"$sink"}'}, panel["title"]


def test_panels_do_not_lie_on_one_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_alerts_are_those_of_the_page_and_say_what_to_do() -> None:
    assert {rule["alert"] for rule in RULES} == set(re.findall(r"^\| (Firn\w+) \|", PAGE, re.MULTILINE))
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert {"summary", "description"} <= rule["annotations"].keys()
