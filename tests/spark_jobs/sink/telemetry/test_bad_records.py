"""What a person is told of bad records."""

from __future__ import annotations

import pytest

from firn.connector.config import ErrorsConfig
from spark_jobs.sink.telemetry.bad_records import log_tolerated, stopped_error
from spark_jobs.sink.values.reports import Stopped, Tolerated


def test_each_record_that_stops_a_sink_comes_with_the_command_that_leaves_it_out() -> None:
    stops = [Stopped("orders", 2, 41, "wrong_magic", "byte 7"), Stopped("more", 0, 0, "truncated", "3 bytes")]
    error = stopped_error("s", stops)
    assert "orders-2 offset 41: wrong_magic: byte 7" in error.what
    assert error.next_step.splitlines()[-2:] == [
        "  firn sink offsets <config> --reset 42 --topic orders --partition 2",
        "  firn sink offsets <config> --reset 1 --topic more --partition 0",
    ]


@pytest.mark.parametrize(
    ("topic", "records", "text"),
    [
        (None, 2, "left out 2 bad records of t-0 (x 2) for good: no errors.deadletterqueue.topic.name is set"),
        ("dlq", 2, "left out 2 bad records of t-0 (x 2): 2 became dead letters"),
        ("dlq", 1, "left out 1 bad record of t-0 (x 1): 1 became a dead letter"),
    ],
)
def test_what_became_of_tolerated_records(
    topic: str | None, records: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    errors = ErrorsConfig(tolerance="all", dead_letter_topic=topic)
    log_tolerated("s", errors, [Tolerated("t", 0, records, records if topic else 0, -1, {"x": records}, [])])
    assert caplog.messages == [text]
