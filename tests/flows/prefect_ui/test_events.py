"""Events of a sink for Prefect: what they carry, how large they grow, what a server that is away does to the sender."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, temporary_settings

from firn.settings import PROJECT_ROOT
from flows.prefect_ui.events import EVENTS, LEFT_OUT_LABEL, emit_sink_event, job_event

AT = "2026-01-02T03:04:05.678+00:00"
LARGEST = 512 * 1024


class Server:
    """Answers every request with `status` and keeps what was sent."""

    def __init__(self, status: int) -> None:
        self.status, self.events = status, list[dict[str, Any]]()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # Prefect's client asks for a CSRF token; 404: not in use
                self._answer(404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.events += json.loads(body)
                self._answer(server.status)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/api"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    running = Server(getattr(request, "param", 204))
    with temporary_settings({PREFECT_API_URL: running.url}):
        yield running
    running.close()


def test_an_event_names_its_sink_its_time_and_carries_the_rest(server: Server) -> None:
    emit_sink_event("committed", {"sink": "orders", "rows": 5, "schema_ids": [1, 2], "at": AT})
    (event,) = server.events
    assert event["event"] == "firn.sink.committed"
    assert event["resource"] == {"prefect.resource.id": "firn.sink.orders", "prefect.resource.name": "orders"}
    assert event["payload"] == {"sink": "orders", "rows": 5, "schema_ids": [1, 2]}
    assert event["occurred"] == "2026-01-02T03:04:05.678000Z"


def test_the_same_event_sent_again_is_one_event_and_another_one_is_another(server: Server) -> None:
    for data in ({"rows": 5, "at": AT}, {"rows": 5, "at": AT}, {"rows": 6, "at": AT}, {"rows": 5}, {"rows": 5}):
        emit_sink_event("committed", {"sink": "orders", **data})
    first, again, *others = [event["id"] for event in server.events]
    assert first == again
    assert len({first, *others}) == 4


@pytest.mark.parametrize(
    ("records", "label"), [(0, "0"), (1, "1"), (9, "1"), (10, "10"), (999, "100"), (12_345, "10000"), ("?", "0")]
)
def test_records_left_out_are_labelled_by_their_power_of_ten(records: object, label: str) -> None:
    assert job_event("sink", "dead_letters", {"sink": "s", "records": records}).resource[LEFT_OUT_LABEL] == label


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.datetimes()
    | st.just(Path()),
    lambda each: st.lists(each) | st.dictionaries(st.text() | st.integers(), each) | st.sets(st.integers()),
    max_leaves=20,
)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.text(), VALUES))
def test_whatever_is_told_becomes_json(data: Mapping[str, Any]) -> None:
    event = job_event("sink", "started", {"sink": "s", **data})
    sent = json.dumps(event.model_dump(mode="json"), allow_nan=False, ensure_ascii=False).encode()
    assert b"\\u0000" not in sent


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000_000, ["x" * 10_000] * 10_000, dict.fromkeys(range(10000), "x" * 10000), [[[[[["deep"] * 999]]]]]],
    ids=["text", "list", "mapping", "deep"],
)
def test_however_much_is_told_an_event_stays_small(value: object) -> None:
    event = job_event("sink", "failed", {"sink": "s", "why": value})
    assert event.size_bytes < LARGEST
    assert "why" in event.payload


@pytest.mark.parametrize("server", [500, 503, 429], indirect=True)
def test_a_server_with_a_fault_is_worth_another_try(server: Server) -> None:
    with pytest.raises(PrefectHTTPStatusError):
        emit_sink_event("stalled", {"sink": "s"})
    assert len(server.events) == 1  # no retries in here: the caller keeps the event


@pytest.mark.parametrize("server", [422, 413], indirect=True)
def test_an_event_that_is_refused_is_dropped(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    emit_sink_event("stalled", {"sink": "s"})
    assert f"refuses the event firn.sink.stalled: status {server.status}" in caplog.text


def test_a_server_that_is_away_is_told_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/api"
        began = time.monotonic()
        with temporary_settings({PREFECT_API_URL: url}), pytest.raises(httpx.ConnectError):
            emit_sink_event("stalled", {"sink": "s"})
    assert time.monotonic() - began < 3


def test_the_page_lists_every_event() -> None:
    page = (PROJECT_ROOT / "docs/prefect.md").read_text()
    assert {event for event in EVENTS if f"| `firn.sink.{event}` | {EVENTS[event]} |" not in page} == set()
