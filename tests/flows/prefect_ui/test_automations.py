"""Automations as code: valid for Prefect, applied any number of times, and one that sends what a person has to know."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import ValidationError

from firn.settings import PROJECT_ROOT
from flows.prefect_ui.automations import apply_automations, automation, read_definitions
from flows.prefect_ui.events import EVENTS, EXPORT_EVENTS, LEFT_OUT_LABEL, emit_sink_event
from tests.support.sinks import wait_until

DEFINITIONS = read_definitions()
BLOCK = uuid.uuid4()


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each["name"])
def test_every_definition_is_what_prefect_and_its_server_take(definition: dict[str, Any]) -> None:
    from prefect.server.events.schemas.automations import AutomationCore

    for block in (None, BLOCK):
        core = automation(definition, {"firn-alerts": block})
        AutomationCore.model_validate(core.model_dump(mode="json"))  # its templates are checked here too
        assert core.description


def test_every_event_that_is_waited_for_is_one_that_is_sent() -> None:
    waited = {event for each in DEFINITIONS for event in each["trigger"]["expect"] if event.startswith("firn.")}
    sent = {f"firn.sink.{event}" for event in EVENTS} | {f"firn.export.{event}" for event in EXPORT_EVENTS}
    assert waited <= sent
    needed = ("stalled", "failed", "dead_letters", "lagging", "ahead")
    assert waited >= {f"firn.sink.{event}" for event in needed}


def test_without_its_block_an_alert_does_nothing_and_with_it_it_notifies() -> None:
    stalled = next(each for each in DEFINITIONS if each["name"] == "firn-sink-stalled")
    assert [action.type for action in automation(stalled, {"firn-alerts": None}).actions] == ["do-nothing"]
    (action,) = automation(stalled, {"firn-alerts": BLOCK}).actions
    assert (action.type, action.block_document_id) == ("send-notification", BLOCK)  # type: ignore[union-attr]


def test_a_definition_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="trigger"):
        automation({"name": "x", "actions": []}, {})


def test_the_page_names_every_automation() -> None:
    page = (PROJECT_ROOT / "docs/prefect.md").read_text()
    assert [each["name"] for each in DEFINITIONS if f"| `{each['name']}` |" not in page] == []


class Pager:
    """A web server that keeps what it is sent: where alerts go."""

    def __init__(self) -> None:
        self.alerts = alerts = list[dict[str, str]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                alerts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/alert"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def client(stack: Any) -> Iterator[SyncPrefectClient]:
    """Of the stack's Prefect server, in this process."""
    with temporary_settings({PREFECT_API_URL: stack.settings.prefect_api_url}), get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def mine(client: SyncPrefectClient, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The file as it is, under names of this test: its prefix, and the file. Removed from the server afterwards."""
    name = f"t{uuid.uuid4().hex[:8]}"
    text = (PROJECT_ROOT / "infra/prefect/automations.yaml").read_text()
    file = tmp_path / "automations.yaml"
    # Sinks of other tests must not ring this pager.
    file.write_text(text.replace("firn-", f"{name}-").replace("firn.sink.*", f"firn.sink.{name}*"))
    yield name, file
    for each in client.read_automations(limit=200):
        if each.name.startswith(name):
            client.delete_automation(each.id)


@pytest.mark.stack
def test_applying_makes_changes_what_changed_and_leaves_the_rest_alone(
    client: SyncPrefectClient, mine: tuple[str, Path]
) -> None:
    name, file = mine
    assert {(each.what, each.enabled) for each in apply_automations(client, file)} == {("made", True)}
    first = client.read_automations_by_name(f"{name}-sink-lagging")
    client.pause_automation(first[0].id)

    document = yaml.safe_load(file.read_text())
    document["automations"][0]["trigger"]["within"] = 60
    file.write_text(yaml.safe_dump(document))
    applied = {each.name: each for each in apply_automations(client, file)}

    assert applied.pop(f"{name}-sink-stalled").what == "changed"
    assert {each.what for each in applied.values()} == {"unchanged"}
    assert not applied[f"{name}-sink-lagging"].enabled  # somebody switched it off
    (stalled,) = client.read_automations_by_name(f"{name}-sink-stalled")
    assert stalled.trigger.within.total_seconds() == 60  # type: ignore[union-attr]


@pytest.mark.stack
def test_an_event_of_a_sink_in_trouble_reaches_the_pager(client: SyncPrefectClient, mine: tuple[str, Path]) -> None:
    name, file = mine
    pager = Pager()
    try:
        block = CustomWebhookNotificationBlock(
            name=name,
            url=pager.url,
            json_data={"subject": "{{subject}}", "body": "{{body}}"},
            headers=None,
            cookies=None,
        )
        block.save(f"{name}-alerts")
        assert {each.notifies for each in apply_automations(client, file)} == {f"{name}-alerts", ""}
        _check_alerts(pager, name)
        CustomWebhookNotificationBlock.delete(f"{name}-alerts")
        assert {each.what for each in apply_automations(client, file) if each.silent} == {"changed"}
    finally:
        pager.close()


def _check_alerts(pager: Pager, sink: str) -> None:
    few, many = f"{sink}-few", f"{sink}-many"
    for name, records in ((few, 99), (many, 4711)):
        emit_sink_event(
            "dead_letters", {"sink": name, "records": records, "letters": 0, "sentence": f"{records} left out"}
        )
    trouble = {"sentence": "No offset moved for 45 s.", "next_step": "Look at Kafka."}
    emit_sink_event("stalled", {"sink": sink, **trouble})
    emit_sink_event("stalled", {"sink": sink, **trouble})  # within ten minutes: not sent again
    wait_until(lambda: len(pager.alerts) >= 2, seconds=60, what=f"two alerts, got {pager.alerts}")
    emit_sink_event("recovered", {"sink": sink, "sentence": "It moves again."})
    wait_until(lambda: len(pager.alerts) >= 3, seconds=60, what=f"three alerts, got {pager.alerts}")

    sent = {alert["subject"]: alert["body"] for alert in pager.alerts}
    assert set(sent) == {f"Sink {many}: many dead letters", f"Sink {sink} is stalled", f"Sink {sink} moves again"}
    assert len(pager.alerts) == 3, LEFT_OUT_LABEL
    body = sent[f"Sink {sink} is stalled"]
    assert body.startswith("No offset moved for 45 s.\nNext step: Look at Kafka.\nEvents: http")
    assert f"firn.sink.{sink}" in body
    assert "Next step" not in sent[f"Sink {many}: many dead letters"]
