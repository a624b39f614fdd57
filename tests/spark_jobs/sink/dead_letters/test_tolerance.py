"""errors.tolerance=all: bad records stay out of the table, each is accounted for once, and the sink goes on."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaOffset

from firn.errors import FirnError, TransientError
from firn.ledger.table import LedgerTable
from firn.settings import Settings
from spark_jobs.sink.run import SinkRun
from tests.support.kafka import Topic, framed
from tests.support.sinks import committed, landed

pytestmark = pytest.mark.stack

SCHEMA = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}
NewRun = Callable[..., SinkRun]


def items(topic: Topic, count: int) -> list[bytes]:
    return framed(topic.register(SCHEMA), SCHEMA, ({"id": number} for number in range(count)))


def letters(topic: Topic) -> list[tuple[int, int, bytes | None]]:
    """(source partition, source offset, value) of every dead letter that a reader of committed records sees."""
    consumer = Consumer(topic.client.librdkafka() | {"group.id": "letters", "isolation.level": "read_committed"})
    where = KafkaOffset(f"{topic.name}-dlq", 0, 0)
    consumer.assign([where])
    found: list[tuple[int, int, bytes | None]] = []
    try:
        _, end = consumer.get_watermark_offsets(where, timeout=10)
        while (at := consumer.position([where])[0].offset) < end:
            for message in consumer.consume(100, timeout=1):
                told: dict[str, Any] = dict(message.headers() or [])
                source = (int(told["__connect.errors.partition"]), int(told["__connect.errors.offset"]))
                found.append((*source, message.value()))
            assert at <= end
    finally:
        consumer.close()
    return sorted(found)


def tolerant(topic: Topic) -> dict[str, str]:
    return {
        "errors__tolerance": "all",
        "errors__deadletterqueue__topic__name": f"{topic.name}-dlq",
        "errors__deadletterqueue__topic__replication__factor": "1",
        "errors__deadletterqueue__context__headers__enable": "true",
    }


def test_bad_records_become_dead_letters_and_all_others_rows(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "tolerant")
    good = items(topic, 4)
    topic.send([good[0], b"\x01junk", good[1], None, good[2] + b"!", good[3]])
    topic.send([good[0][:-1], good[0]], partition=1)
    report = new_run(topic, **tolerant(topic)).run()
    assert landed(settings, topic) == [(0, 0), (0, 2), (0, 3), (0, 5), (1, 1)]
    assert committed(settings, topic) == {0: 6, 1: 2}
    assert letters(topic) == [(0, 1, b"\x01junk"), (0, 4, good[2] + b"!"), (1, 0, good[0][:-1])]
    assert (report.records, report.bad_records, report.dead_letters) == (5, 3, 3)


def test_dead_letters_come_once_though_the_commit_behind_them_fails(
    settings: Settings, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(settings, "twice")
    topic.send([*items(topic, 2), b"\x01junk", *items(topic, 1)])
    move, failures = LedgerTable.move, [TransientError("injected")]

    def fail_once(*args: Any) -> None:
        if failures:
            raise failures.pop()
        move(*args)

    monkeypatch.setattr(LedgerTable, "move", fail_once)
    report = new_run(topic, **tolerant(topic)).run()
    assert failures == []
    assert landed(settings, topic) == [(0, 0), (0, 1), (0, 3)]
    assert letters(topic) == [(0, 2, b"\x01junk")]
    assert report.records == 3


def test_unknown_schema_ids_are_all_asked_for_before_they_are_dead_letters(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "strangers")
    strangers = [struct.pack(">bI", 0, 900_000 + number) + b"\x02" for number in range(120)]
    topic.send([*strangers, *items(topic, 1)])
    report = new_run(topic, **tolerant(topic)).run()
    assert landed(settings, topic) == [(0, 120)]
    assert len(letters(topic)) == 120
    assert report.batches == 2  # the second begins where nobody had asked the registry yet


def test_without_a_topic_for_them_bad_records_are_left_out_and_counted(
    settings: Settings, new_run: NewRun, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topic(settings, "dropped")
    topic.send([*items(topic, 1), b"", b"\x01", *items(topic, 1)])
    report = new_run(topic, errors__tolerance="all", errors__log__enable="true").run()
    assert landed(settings, topic) == [(0, 0), (0, 3)]
    assert (report.bad_records, report.dead_letters) == (2, 0)
    assert "left out 2 bad records" in caplog.text
    assert caplog.text.count("cannot be converted") == 2


def test_a_letter_stays_one_though_the_sink_tolerates_nothing_any_more(
    settings: Settings, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(settings, "switched")
    topic.send([*items(topic, 2), b"\x01junk", *items(topic, 1)])
    run = new_run(topic, **tolerant(topic))
    with monkeypatch.context() as broken:
        broken.setattr(LedgerTable, "move", lambda *_: _fail())
        with pytest.raises(FirnError, match="injected"):
            run.run()
    assert letters(topic) == [(0, 2, b"\x01junk")]
    assert landed(settings, topic) == []
    assert new_run(topic).run().records == 3
    assert landed(settings, topic) == [(0, 0), (0, 1), (0, 3)]


def _fail() -> None:
    raise FirnError("injected")
