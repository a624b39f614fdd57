"""What a person reads about records that cannot be converted: log lines, and the error that stops a sink.

Log options: Kafka Connect's errors.log.enable and errors.log.include.messages
(https://kafka.apache.org/documentation/#sinkconnectconfigs_errors.log.enable).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from firn.connector.config import ErrorsConfig
from firn.errors import BadRecordError
from firn.kafka.partitions import TopicPartition
from firn.plural import counted
from spark_jobs.sink.telemetry.events import emit
from spark_jobs.sink.values.reports import Stopped, Tolerated

log = logging.getLogger(__name__)


def log_stopped(errors: ErrorsConfig, stops: Sequence[Stopped]) -> None:
    """One line for each record that the sink stopped in front of, if the sink is to log them."""
    for stop in stops:
        _log_one(errors, stop.where, stop.offset, stop.reason, stop.detail)


def log_tolerated(sink: str, errors: ErrorsConfig, tolerated: Sequence[Tolerated]) -> None:
    """How many were left out and where they are now, always; the first one by one, if the sink is to log them."""
    for each in tolerated:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(each.reasons.items()))
        if errors.dead_letter_topic is None:
            kept = " for good: no errors.deadletterqueue.topic.name is set"
        else:
            kept = f": {each.letters} became {'a dead letter' if each.letters == 1 else 'dead letters'}"
        emit(
            "dead_letters",
            f"left out {counted(each.records, 'bad record')} of {each.where} ({reasons}){kept}",
            sink=sink,
            level=logging.WARNING,
            topic=each.topic,
            partition=each.partition,
            records=each.records,
            letters=each.letters,
            reasons=each.reasons,
        )
        for offset, reason, detail in each.samples:
            _log_one(errors, each.where, offset, reason, detail)


def _log_one(errors: ErrorsConfig, where: TopicPartition, offset: int, reason: str, detail: str) -> None:
    if errors.log_enable:
        record = f" ({where} offset {offset}: {detail})" if errors.log_messages else ""
        log.error("a record cannot be converted: %s%s", reason, record)


def stopped_error(sink: str, stops: Sequence[Stopped]) -> BadRecordError:
    """Why the sink ends, with each partition's first bad record and the command that leaves it out."""
    lines = [f"  {stop.where} offset {stop.offset}: {stop.reason}: {stop.detail}" for stop in stops]
    skip = [
        # The offset itself, not a step: given twice it leaves out no second record.
        f"  firn sink offsets <config> --reset {stop.offset + 1} --topic {stop.topic} --partition {stop.partition}"
        for stop in stops
    ]
    return BadRecordError(
        "The sink stopped in front of records that cannot be converted (errors.tolerance=none):\n" + "\n".join(lines),
        where=f"sink {sink}; everything before them is committed",
        next_step="Correct the producer or the registry and start the sink again: it goes on at these records. To "
        "leave out all that are bad: errors.tolerance=all. To leave out these alone:\n" + "\n".join(skip),
    )
