"""How fresh the sinks' tables are, as `dbt source freshness` found it. Runs nothing.

Format: https://docs.getdbt.com/reference/artifacts/sources-json. A table without rows is as old as can be to dbt; here
it is a warning, because nothing has failed to arrive yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firn.dbt.results import NodeResult

SOURCES = "sources.json"
_NO_ROWS = "0001-01-01"


def read_freshness(target: Path) -> tuple[NodeResult, ...]:
    """A result for each source whose freshness was asked for; `seconds` is how long asking took."""
    document = json.loads((target / SOURCES).read_text())
    return tuple(_source(result) for result in document["results"])


def _source(result: Mapping[str, Any]) -> NodeResult:
    name = ".".join(str(result["unique_id"]).split(".")[2:])
    status, message = str(result["status"]), str(result.get("error") or "")
    if newest := str(result.get("max_loaded_at") or ""):
        message = f"newest row {newest[:19]} UTC, {_span(result['max_loaded_at_time_ago_in_s'])} ago"
        if newest.startswith(_NO_ROWS):
            status, message = "warn", "no rows yet"
    seconds = round(float(result.get("execution_time") or 0), 2)
    return NodeResult(name, "source", status, None, seconds, "" if status == "pass" else message)


def _span(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
