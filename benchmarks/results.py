"""Results of a benchmark as a JSON file, with what is to be known of the machine and the versions."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).parent / "results"
_PACKAGES = (
    "pyspark",
    "confluent-kafka",
    "pyarrow",
    "pyruhvro",
    "ptars",
    "msgspec",
    "snowflake-connector-python",
    "duckdb",
)


def write_results(benchmark: str, figures: dict[str, Any]) -> Path:
    """Write `<benchmark>.json`, in place of an older one; returns its path inside the project."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{benchmark}.json"
    about = {
        "benchmark": benchmark,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memory_gigabytes": round(psutil.virtual_memory().total / 1e9),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
    }
    file.write_text(json.dumps(about | figures, indent=1) + "\n")
    return file.relative_to(RESULTS.parent.parent)
