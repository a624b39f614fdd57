"""The envelope of a dead letter: the `__connect.errors.*` headers that Kafka Connect adds to a record's own.

Source: DeadLetterQueueReporter of Apache Kafka 3 and 4: values are UTF-8 text, and they are added behind the record's
own headers, also where these have the same names (a dead letter that became one again). So the last one of a name is
the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firn.kafka.transactional_producer import Header

PREFIX = "__connect.errors."
TOPIC, PARTITION, OFFSET = PREFIX + "topic", PREFIX + "partition", PREFIX + "offset"
CONNECTOR, TASK = PREFIX + "connector.name", PREFIX + "task.id"
STAGE, CLASS = PREFIX + "stage", PREFIX + "class.name"
EXCEPTION, MESSAGE = PREFIX + "exception.class.name", PREFIX + "exception.message"
STACKTRACE = PREFIX + "exception.stacktrace"
NAMES = (TOPIC, PARTITION, OFFSET, CONNECTOR, TASK, STAGE, CLASS, EXCEPTION, MESSAGE, STACKTRACE)

_TASK = "0"  # a sink of Firn is one connector whose Spark tasks change from batch to batch
_EXCEPTION = "org.apache.kafka.connect.errors.DataException"  # what Connect's converters raise
_LONGEST = 4000  # characters of a message: a detail may quote the record


@dataclass(frozen=True)
class Origin:
    """Where the record of a dead letter came from and why it is one, for its envelope."""

    topic: str
    partition: int
    offset: int
    sink: str
    in_key: bool
    converter: str
    reason: str
    detail: str


def envelope_headers(origin: Origin) -> list[Header]:
    """The headers that are added to one record, in Connect's order."""
    message = f"{origin.reason}: {origin.detail}"[:_LONGEST]
    values = (
        origin.topic,
        str(origin.partition),
        str(origin.offset),
        origin.sink,
        _TASK,
        "KEY_CONVERTER" if origin.in_key else "VALUE_CONVERTER",
        origin.converter,
        _EXCEPTION,
        message,
        f"{_EXCEPTION}: {message}",
    )
    return [(name, value.encode(errors="replace")) for name, value in zip(NAMES, values, strict=True)]


def envelope_of(headers: Iterable[Header]) -> Mapping[str, str]:
    """The newest envelope of a dead letter, by header name; empty where it has none."""
    return {name: (value or b"").decode(errors="replace") for name, value in headers if name in NAMES}


def without_envelope(headers: Iterable[Header]) -> list[Header]:
    """The record's own headers: without the newest envelope; an older one belongs to the record."""
    kept, newest = [], set(NAMES)
    for name, value in reversed(list(headers)):
        if name in newest:
            newest.remove(name)
        else:
            kept.append((name, value))
    return kept[::-1]
