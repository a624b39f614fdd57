"""The idempotent producer: sends records, waits for every delivery report, and says what arrived where.

Not for what a record is (`records`). Delivery is at least once across runs and without duplicates within one
(enable.idempotence, https://kafka.apache.org/documentation/#producerconfigs_enable.idempotence).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from firn.child import first_signal
from firn.errors import FirnError, TerminalError, TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults, refused_configuration
from firn.produce.records import Record
from firn.settings import Settings

_POLL_EVERY = 1_000
_SOURCE = "firn-produce"

Progress = Callable[[int], None]
"""Called now and then with how many records have been handed to the client."""

Report = Callable[[str], None]
"""Called with a line about each record, once it is known whether Kafka has it."""


class PartitionDelivery(NamedTuple):
    """What one partition acknowledged; offsets of its first and last record of this run."""

    partition: int
    records: int
    first_offset: int
    last_offset: int


@dataclass
class DeliveryReport:
    """What happened to the records of one run."""

    topic: str
    delivered: int = 0
    failed: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    error: FirnError | None = None
    """Why the run ended early, or why records were not delivered."""
    partitions: list[PartitionDelivery] = field(default_factory=list)


class UndeliveredError(TransientError):
    """The run ended before everything was acknowledged, for a cause that may pass."""

    report: DeliveryReport | None = None


class RejectedError(TerminalError):
    """The run ended early for good: a bad row, a refused login, a record Kafka does not take."""

    report: DeliveryReport | None = None


def stopped(report: DeliveryReport) -> UndeliveredError | RejectedError:
    """The error of a run that did not reach its end, with its report. `report.error` must be set."""
    cause = report.error or TerminalError("The run did not reach its end.")
    kind = UndeliveredError if isinstance(cause, TransientError) else RejectedError
    failed = f", {report.failed} were not" if report.failed else ""
    what = f"{cause.what} Before that {report.delivered} records were delivered to {report.topic}{failed}."
    error = kind(what, where=cause.where, next_step=cause.next_step)
    error.report = report
    return error


def producer_config(settings: Settings, client: KafkaClient) -> dict[str, str]:
    """librdkafka's configuration for idempotent, batched production; the partitioner is that of Java's clients."""
    return {
        **client.librdkafka(),
        "enable.idempotence": "true",
        "acks": "all",
        "compression.type": "lz4",
        "linger.ms": "20",
        "batch.size": "1000000",
        "batch.num.messages": "50000",
        "queue.buffering.max.messages": "200000",
        "queue.buffering.max.kbytes": "262144",
        "partitioner": "murmur2_random",
        "message.timeout.ms": str(int(settings.retry_deadline_seconds * 1000)),
    }


def produce_all(
    settings: Settings,
    client: KafkaClient,
    topic: str,
    records: Iterable[Record],
    *,
    headers: dict[str, str],
    rate: float | None = None,
    progress: Progress = lambda _count: None,
    report: Report | None = None,
) -> DeliveryReport:
    """Send all records to `topic`, at most `rate` per second, and wait for their delivery.

    Never raises for what happens on the way: a bad row, an interrupt or a failed delivery ends up in the report, after
    everything sent before it was flushed.
    """
    run = _Run(settings, client, topic, {"source": _SOURCE, **headers}, progress, report)
    started = time.monotonic()
    interrupted = threading.Event()
    # As an exception, Ctrl-C could strike inside a delivery report, and that record would be missing from the account.
    with first_signal(interrupted.set, numbers=[signal.SIGINT]):
        try:
            run.send(records, rate, interrupted)
        except FirnError as error:
            run.report.error = error
        run.finish()
    run.report.seconds = time.monotonic() - started
    return run.report


class _Run:
    """One producer and what its delivery reports added up to."""

    def __init__(
        self,
        settings: Settings,
        client: KafkaClient,
        topic: str,
        headers: dict[str, str],
        progress: Progress,
        report_line: Report | None,
    ) -> None:
        self._faults = ConnectionFaults(client.brokers)
        self._producer = _producer(producer_config(settings, client), self._faults)
        self._headers: list[tuple[str, Any]] = list(headers.items())
        self._topic, self._progress, self._report_line = topic, progress, report_line
        self._by_partition: dict[int, list[int]] = {}
        self._first_failure: KafkaError | None = None
        self.report = DeliveryReport(topic)

    def send(self, records: Iterable[Record], rate: float | None, interrupted: threading.Event) -> None:
        """Hand all records to the client, serving its callbacks on the way."""
        started, sent = time.monotonic(), 0
        for record in records:
            if interrupted.is_set():
                self.report.interrupted = True
                break
            if rate:
                self._wait_until(started + sent / rate)
            self._enqueue(record)
            sent += 1
            if sent % _POLL_EVERY == 0 or rate:
                self._serve()
                self._progress(sent)
        self._progress(sent)

    def finish(self) -> None:
        """Wait for what is under way (bounded by message.timeout.ms), then sum up."""
        while self._producer.flush(0.5) > 0:
            if (cause := self._faults.terminal()) is not None:
                self.report.error = self.report.error or cause
                self._producer.purge()
        self.report.partitions = [
            PartitionDelivery(partition, count, first, last)
            for partition, (count, first, last) in sorted(self._by_partition.items())
        ]
        self.report.delivered = sum(partition.records for partition in self.report.partitions)
        if self._first_failure is not None and self.report.error is None:
            self.report.error = self._failure()

    def _enqueue(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, headers=self._headers, on_delivery=self._delivered
                )
            except BufferError:
                self._serve(0.1)
            except KafkaException as error:
                raise self._faults.explain(error.args[0], f"produce to {self._topic}") from None
            else:
                return

    def _serve(self, seconds: float = 0.0) -> None:
        self._producer.poll(seconds)
        if (cause := self._faults.terminal()) is not None:
            raise cause
        if self._first_failure is not None:
            raise self._failure()

    def _wait_until(self, moment: float) -> None:
        while (remaining := moment - time.monotonic()) > 0:
            self._serve(min(remaining, 0.2))

    def _failure(self) -> FirnError:
        return self._faults.explain(self._first_failure or KafkaError(KafkaError._FAIL), f"deliver to {self._topic}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if self._report_line is not None:
            self._report_line(delivery_line(error, message))
        if error is not None:
            self.report.failed += 1
            self._first_failure = self._first_failure or error
            return
        partition, offset = message.partition(), message.offset()
        seen = self._by_partition.get(partition)  # type: ignore[arg-type]
        if seen is None:
            self._by_partition[partition] = [1, offset, offset]  # type: ignore[index,list-item]
            return
        seen[0] += 1
        seen[2] = offset  # type: ignore[assignment]


def delivery_line(error: KafkaError | None, message: Message) -> str:
    """One record's delivery in words, as Confluent's examples print it."""
    if error is not None:
        return f"❌ Failed: {error}"
    return f"✅ Delivered to {message.topic()} [{message.partition()}] @ offset {message.offset()}"


def _producer(config: dict[str, str], faults: ConnectionFaults) -> Producer:
    try:
        return Producer(with_callbacks(config, faults))
    except KafkaException as error:
        raise refused_configuration(error.args[0], faults.brokers) from None
