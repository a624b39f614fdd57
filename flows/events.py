"""The events of a sink in Prefect: `firn.sink.<event>`, for automations and the UI's event feed.

What they say comes from the job's log (`spark_jobs.sink.events`); no secret is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect.events import emit_event


def emit_sink_event(event: str, data: Mapping[str, Any]) -> None:
    """Emit `firn.sink.<event>` about the sink that `data` names; `data` is its payload."""
    name = str(data.get("sink", ""))
    resource = {"prefect.resource.id": f"firn.sink.{name}", "prefect.resource.name": name}
    emit_event(f"firn.sink.{event}", resource=resource, payload=dict(data))
