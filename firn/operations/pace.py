"""What is normal for a sink, as plain values in FIRN_SINKS, so that an observer without its file judges alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from firn.connector.config import SinkConfig


def pace_of(config: SinkConfig) -> dict[str, Any]:
    """How long what is normal for a sink, as plain values for FIRN_SINKS: who has no file of it judges alike."""
    return {
        "heartbeat_seconds": config.heartbeat_seconds,
        "buffer_records": config.buffer.records,
        "buffer_seconds": config.buffer.seconds,
        "tasks_max": config.tasks_max,
    }


def at_pace(config: SinkConfig, stats: Mapping[str, Any]) -> SinkConfig:
    """The configuration with the pace that FIRN_SINKS holds of it; what is not there, or is no number, stays."""
    pace = pace_of(config)
    pace |= {name: stats[name] for name in pace if isinstance(stats.get(name), int | float)}
    buffer = replace(config.buffer, records=pace["buffer_records"], seconds=pace["buffer_seconds"])
    return replace(config, heartbeat_seconds=pace["heartbeat_seconds"], buffer=buffer, tasks_max=pace["tasks_max"])
