"""Versions of the software on this machine, for a bug report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_JAVA_SECONDS = 20
_PACKAGES = (
    *("firn", "pyspark", "pyarrow", "confluent-kafka", "fastavro", "pyruhvro", "duckdb", "orjson"),
    *("snowflake-connector-python", "snowpipe-streaming", "boto3", "prefect", "dbt-core", "dbt-snowflake", "pydantic"),
)


def versions() -> dict[str, Any]:
    """Python, platform, Java and packages, by name; what is absent is said so."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "java": _java(),
        "packages": dict(_installed()),
    }


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        return "none found"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {java}"
    return done.stderr.strip()


def _installed() -> Iterator[tuple[str, str]]:
    for name in _PACKAGES:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, "not installed"
