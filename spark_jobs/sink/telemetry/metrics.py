"""What a sink's driver reports to Prometheus: counted from its commits, measured at a scrape. docs/metrics.md lists it.

Positions are those of the ledger, taken over after each commit, against Kafka's end offsets. Not for serving them
(`metrics_endpoint`), nor for exact totals over all runs, which are the ledger's: counters begin at 0 with the driver.
Names and units: https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from firn.connector.config import BufferConfig
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.positions import Ledger
from firn.retry import RETRIES, Retries
from spark_jobs.sink.values.batches import CommittedBatch

MAX_PARTITIONS = 1000
"""So many partitions have series of their own, the first ones by topic and number: the rest is in the sums alone."""
BATCH_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
Kind = Literal["counter", "gauge", "histogram"]
_WHERE = ("topic", "partition")


@dataclass(frozen=True)
class Metric:
    """One metric: its name as it is queried, the labels it has beside `sink`, and what it means."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


_COUNTED = (
    Metric("firn_sink_info", "gauge", ("version",), "Always 1; the label names Firn's version."),
    Metric("firn_sink_epoch", "gauge", (), "Epoch of this driver's last claim; each claim raises it."),
    Metric("firn_sink_buffer_records", "gauge", (), "Records that fill a batch (buffer.count.records)."),
    Metric(
        "firn_sink_buffer_flush_seconds", "gauge", (), "Seconds that fewer records wait for others (buffer.flush.time)."
    ),
    Metric("firn_sink_records_total", "counter", (), "Records committed to tables."),
    Metric("firn_sink_bytes_total", "counter", (), "Bytes of text in these records, before compression."),
    Metric("firn_sink_staged_bytes_total", "counter", (), "Bytes of the files that these records were committed from."),
    Metric("firn_sink_files_total", "counter", (), "Files that these records were committed from."),
    Metric(
        "firn_sink_batches_total", "counter", (), "Committed batches. It grows as long as any committed offset moves."
    ),
    Metric(
        "firn_sink_batch_seconds",
        "histogram",
        ("phase",),
        "Seconds of a batch's phases: `ship` (tasks read, convert and write) and `commit` (rows and ledger).",
    ),
    Metric(
        "firn_sink_last_commit_timestamp_seconds",
        "gauge",
        (),
        "Unix time of the last commit in seconds; 0 before the first.",
    ),
    Metric("firn_sink_bad_records_total", "counter", ("reason",), "Records that errors.tolerance=all left out."),
    Metric("firn_sink_dead_letters_total", "counter", (), "Bad records that were published as dead letters."),
    Metric(
        "firn_sink_schema_changes_total", "counter", (), "Statements that changed tables because records needed it."
    ),
)
_MEASURED = (
    Metric(
        "firn_sink_lag_records",
        "gauge",
        (),
        "Records above the committed offsets of all partitions, at most: gaps count.",
    ),
    Metric(
        "firn_sink_max_partition_lag_records",
        "gauge",
        (),
        "Records above the committed offset of the partition that is farthest behind.",
    ),
    Metric(
        "firn_sink_waiting_seconds",
        "gauge",
        (),
        "Seconds for which records have been waiting without a commit; 0 where none wait.",
    ),
    Metric("firn_sink_partitions", "gauge", (), "Partitions that the sink has claimed."),
    Metric(
        "firn_sink_end_offsets_timestamp_seconds",
        "gauge",
        (),
        "Unix time in seconds of the last end offsets from Kafka. While it stands still, so does the lag.",
    ),
    Metric(
        "firn_sink_partition_lag_records",
        "gauge",
        _WHERE,
        "Records above the committed offset: the end offset less it.",
    ),
    Metric(
        "firn_sink_partition_committed_offset", "gauge", _WHERE, "The next offset to commit: NEXT_OFFSET in the ledger."
    ),
    Metric(
        "firn_sink_partition_end_offset", "gauge", _WHERE, "Kafka's end offset: the next offset that a record gets."
    ),
    Metric(
        "firn_sink_retries_total",
        "counter",
        ("error",),
        "Retries of the driver and its tasks, by the kind of error.",
    ),
)
METRICS = _COUNTED + _MEASURED
"""All metrics of Firn's own, each of which has the label `sink` too."""


class SinkMetrics:
    """The metrics of one driver. Safe for the main thread, the one of the batches, and scrapes at once.

    buffer: how long records wait for others; None where none does.
    """

    def __init__(self, sink: str, buffer: BufferConfig | None = None, retries: Retries = RETRIES) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nobody asks for
        self.sink, self.registry = sink, CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.positions = Positions()
        self.registry.register(_Measured(sink, self.positions, retries))
        self._made = {metric.name: _made(metric, self.registry) for metric in _COUNTED}
        for metric in _COUNTED:
            if not metric.labels:  # at 0 from the beginning: a counter that appears with its first step hides that step
                self._of(metric.name)
        for phase in ("ship", "commit"):
            self._of("firn_sink_batch_seconds", phase)
        self._set("firn_sink_info", 1, version("firn"))
        self._set("firn_sink_buffer_records", buffer.records if buffer else 1)
        self._set("firn_sink_buffer_flush_seconds", buffer.seconds if buffer else 0)

    def claimed(self, ledger: Ledger, kafka: Mapping[TopicPartition, KafkaPartition]) -> None:
        """A claim: these are the sink's partitions from now on."""
        self._set("firn_sink_epoch", ledger.epoch)
        self.positions.claimed(ledger.committed, {where: seen.latest for where, seen in kafka.items()})

    def committed(self, batch: CommittedBatch) -> None:
        """A batch that Snowflake has committed."""
        self.positions.moved({move.where: move.end for move in batch.moves})
        self._count("firn_sink_records_total", batch.rows)
        self._count("firn_sink_bytes_total", batch.text_bytes)
        self._count("firn_sink_staged_bytes_total", batch.bytes)
        self._count("firn_sink_files_total", batch.receipts)
        self._count("firn_sink_batches_total", 1)
        self._count("firn_sink_dead_letters_total", batch.dead_letters)
        for reason, records in batch.reasons.items():
            self._count("firn_sink_bad_records_total", records, reason)
        for phase, seconds in (("ship", batch.dispatch_seconds), ("commit", batch.commit_seconds)):
            self._of("firn_sink_batch_seconds", phase).observe(seconds)
        self._set("firn_sink_last_commit_timestamp_seconds", time.time())

    def changed(self, statements: int) -> None:
        """So many statements changed tables."""
        self._count("firn_sink_schema_changes_total", statements)

    def _count(self, name: str, amount: int, *labels: str) -> None:
        self._of(name, *labels).inc(amount)

    def _set(self, name: str, value: float, *labels: str) -> None:
        self._of(name, *labels).set(value)

    def _of(self, name: str, *labels: str) -> Any:
        return self._made[name].labels(self.sink, *labels)


@dataclass(frozen=True)
class Seen:
    """(partition, committed offset, end offset) in order; when Kafka gave the ends, Unix time, 0: never; and for how
    many seconds records have been waiting with no commit."""

    rows: list[tuple[TopicPartition, int, int]]
    at: float
    waiting: float


class Positions:
    """Committed and end offset of each partition that the sink has claimed. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._committed: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._at = 0.0
        self._waits_since: float | None = None

    def claimed(self, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        """All partitions of a claim, with what Kafka holds now."""
        with self._lock:
            self._committed = dict(committed)
            self._ends = {where: ends.get(where, at) for where, at in committed.items()}
            self._at = time.time()
            self._note_waiting()

    def moved(self, committed: Mapping[TopicPartition, int]) -> None:
        """Take over a commit; Kafka holds what was committed, whenever it was asked last."""
        with self._lock:
            self._committed |= committed
            self._ends |= {where: max(at, self._ends.get(where, at)) for where, at in committed.items()}
            self._waits_since = None  # from now on, if at all
            self._note_waiting()

    def refresh(self, ends_of: Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]) -> None:
        """Ask Kafka for the end offsets. Raises as `ends_of` does: the ends known before stay, with their time."""
        with self._lock:
            before = dict(self._committed)
        if not before:
            return
        asked_at, ends = time.time(), ends_of(before)
        with self._lock:
            for where in self._committed.keys() & ends.keys():
                moved = self._committed[where] != before.get(where)  # since Kafka was asked
                self._ends[where] = max(ends[where], self._committed[where]) if moved else ends[where]
            self._at = asked_at
            self._note_waiting()

    def _note_waiting(self) -> None:
        waits = any(self._ends[where] > at for where, at in self._committed.items())
        self._waits_since = (self._waits_since or time.monotonic()) if waits else None

    def read(self) -> Seen:
        """As they are now."""
        with self._lock:
            rows = [(where, at, self._ends[where]) for where, at in sorted(self._committed.items())]
            waiting = time.monotonic() - self._waits_since if self._waits_since else 0.0
            return Seen(rows, self._at, waiting)


class _Measured(Collector):
    """What is read at a scrape: a partition that is claimed no more has no series any more."""

    def __init__(self, sink: str, positions: Positions, retries: Retries) -> None:
        self._sink, self._positions, self._retries = sink, positions, retries

    def collect(self) -> Iterator[Family]:
        families = {metric.name: _family(metric) for metric in _MEASURED}

        def add(name: str, value: float, *labels: object) -> None:
            families[name].add_metric([self._sink, *map(str, labels)], value)

        seen = self._positions.read()
        lags = [max(0, end - committed) for _, committed, end in seen.rows]
        if seen.at:
            add("firn_sink_lag_records", sum(lags))
            add("firn_sink_max_partition_lag_records", max(lags, default=0))
            add("firn_sink_waiting_seconds", seen.waiting)
            add("firn_sink_partitions", len(seen.rows))
            add("firn_sink_end_offsets_timestamp_seconds", seen.at)
        for (where, committed, end), lag in list(zip(seen.rows, lags, strict=True))[:MAX_PARTITIONS]:
            add("firn_sink_partition_lag_records", lag, *where)
            add("firn_sink_partition_committed_offset", committed, *where)
            add("firn_sink_partition_end_offset", end, *where)
        for error, count in sorted(self._retries.counts().items()):
            add("firn_sink_retries_total", count, error)
        yield from families.values()


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return family(metric.name, metric.meaning, labels=_labels(metric))


def _made(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    match metric.kind:
        case "counter":
            return Counter(metric.name, metric.meaning, _labels(metric), registry=registry)
        case "gauge":
            return Gauge(metric.name, metric.meaning, _labels(metric), registry=registry)
        case "histogram":
            return Histogram(metric.name, metric.meaning, _labels(metric), registry=registry, buckets=BATCH_SECONDS)


def _labels(metric: Metric) -> tuple[str, ...]:
    return ("sink", *metric.labels)
