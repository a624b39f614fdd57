"""The events of a job in Prefect: `firn.<kind>.<event>`, for automations and the UI's event feed (docs/prefect.md).

Sent one by one over Prefect's REST API (POST /events), with a short timeout and without retries of the client's own.
Not by `prefect.events.emit_event`: it puts events into a queue without bound; a worker behind it gives up after some
ten attempts and loses what waits; and a process that ends waits for that queue. Here the caller keeps what could not
be sent, for as long as it likes (`flows.prefect_ui.publishing`), and the server drops duplicates: an event's id depends
on its contents alone. Which events are sent, and how often: `firn.supervisor`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import orjson
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.events import Event
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

EVENTS: Mapping[str, str] = {
    "started": "a run has claimed the sink and reads",
    "committed": "rows were committed; one event sums up at least 30 s",
    "dead_letters": "records were left out; one event sums up at least 30 s",
    "schema_changed": "the columns of a table changed",
    "stalled": "records wait and no committed offset moves, or Kafka or Snowflake does not answer",
    "recovered": "committed offsets move again after a stall",
    "restarting": "the driver ended and the supervisor starts it again",
    "lagging": "the lag has passed its limit, in records or seconds",
    "ahead": "the ledger is past the end of a partition in Kafka",
    "paused": "the driver has ended after a pause was requested",
    "resumed": "the sink continues after a pause",
    "stopped": "the supervisor has ended after a stop was requested",
    "failed": "the sink ended with an error that a restart cannot fix, or after too many restarts",
}
"""Every event of a sink and when it is sent. Unknown ones are sent too: a driver may be newer than its supervisor."""

EXPORT_EVENTS: Mapping[str, str] = {
    "started": "a run has claimed the export and asks its sources",
    "committed": "batches were published; one event sums up at least 30 s",
    "dead_letters": "rows became dead letters; one event sums up at least 30 s",
    "schema_changed": "the columns of a source changed; the export follows",
    "stale_soon": "a stream becomes stale soon: consume it before that, or its changes are lost",
    "check_failed": "rows did not meet a quality check",
    "stalled": "changes wait and none is published, or Kafka or Snowflake does not answer",
    "recovered": "batches are published again after a stall",
    "restarting": "the driver ended and the supervisor starts it again",
    "lagging": "the lag has passed its limit, in rows or seconds",
    "paused": "the driver has ended after a pause was requested",
    "resumed": "the export continues after a pause",
    "stopped": "the supervisor has ended after a stop was requested",
    "failed": "the export ended with an error that a restart cannot fix, or after too many restarts",
}
"""The same of an export."""

LEFT_OUT_LABEL = "firn.left-out"
"""Label of `dead_letters`: how many records, as a power of ten ("1", "10", "100", ...), which a trigger can match."""

TIMEOUT_SECONDS = 5.0
_CHARACTERS, _ITEMS, _DEPTH = 2000, 100, 4
_WHOLE = 2**63 - 1
_LATER = (408, 429)
log = logging.getLogger(__name__)


def emit_job_event(kind: str, event: str, data: Mapping[str, Any]) -> None:
    """Send `firn.<kind>.<event>` about the job that `data[kind]` names; the rest of `data` is its payload.

    `data["at"]`, a time in ISO format, is when it happened: with it, sending the same event twice stores it once.
    Takes TIMEOUT_SECONDS at most for each step of a request. Raises where the server does not answer or has a fault of
    its own: sending it later may help. An event that the server refuses is logged and dropped.
    """
    settings = {PREFECT_CLIENT_MAX_RETRIES: 0}
    body = [job_event(kind, event, data).model_dump(mode="json")]
    with temporary_settings(settings), get_client({"timeout": TIMEOUT_SECONDS}, sync_client=True) as client:
        try:
            client.request("POST", "/events", json=body)
        except PrefectHTTPStatusError as error:
            if error.response.status_code >= 500 or error.response.status_code in _LATER:
                raise
            log.warning("Prefect refuses the event firn.%s.%s: status %s.", kind, event, error.response.status_code)


emit_sink_event = partial(emit_job_event, "sink")
emit_export_event = partial(emit_job_event, "export")


def job_event(kind: str, event: str, data: Mapping[str, Any]) -> Event:
    """The event as Prefect takes it: payload of plain values bounded in size, the flow run and its tags as related."""
    payload = {_text(name): _plain(value) for name, value in list(data.items())[:_ITEMS] if name != "at"}
    name = _text(data.get(kind, ""))
    resource = {"prefect.resource.id": f"firn.{kind}.{name}", "prefect.resource.name": name}
    if event == "dead_letters":
        resource[LEFT_OUT_LABEL] = _power_of_ten(payload.get("records"))
    at = data.get("at")
    content = {"event": f"firn.{kind}.{event}", "resource": resource, "payload": payload}
    same = {"id": uuid5(NAMESPACE_URL, orjson.dumps([content, str(at)]).decode())} if at is not None else {}
    return Event.model_validate({**content, **same, "related": _related(), "occurred": _time(at)})


def _time(at: object) -> datetime:
    with suppress(ValueError):
        time = datetime.fromisoformat(str(at))
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return datetime.now(UTC)


def _power_of_ten(number: object) -> str:
    """0, 1, 10, 100, ...: the largest that is not above the number."""
    return "1" + "0" * (len(str(number)) - 1) if isinstance(number, int) and number > 0 else "0"


def _related() -> list[dict[str, str]]:
    """The flow run that sends the event, its flow, deployment and tags, from the context, without a request."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return []
    run = context.flow_run
    found = [("flow-run", run.id, run.name), ("flow", run.flow_id, context.flow.name if context.flow else "")]
    found += [("deployment", run.deployment_id, "")] if run.deployment_id else []
    related = [
        {"prefect.resource.id": f"prefect.{kind}.{id}", "prefect.resource.role": kind, "prefect.resource.name": name}
        for kind, id, name in found
    ]
    related += [
        {"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag"} for tag in sorted(run.tags)
    ]
    return [{label: value for label, value in each.items() if value} for each in related]


def _plain(value: object, depth: int = _DEPTH) -> Any:
    """A value as JSON knows it: long texts and collections cut, what is too deep or of another kind as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or (isinstance(value, int) and -_WHOLE <= value <= _WHOLE):
        return value
    if depth and isinstance(value, Mapping):
        return {_text(name): _plain(each, depth - 1) for name, each in list(value.items())[:_ITEMS]}
    if depth and isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
        return [_plain(each, depth - 1) for each in items[:_ITEMS]]
    if isinstance(value, datetime):
        return value.isoformat()
    return _text(value)


def _text(value: object) -> str:
    """As JSON and every database take it: no halves of characters, no NUL, not longer than _CHARACTERS."""
    text = str(value).encode("utf-8", "replace").decode().replace("\0", "")
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"
