"""Events of a driver, gathered: a sink that commits each second tells of it twice a minute, with sums.

Nothing is lost but the single figures of a batch; what does not repeat (started, schema_changed) goes on at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from firn.plural import counted

GATHER_SECONDS = 30.0
_GATHERED = ("committed", "dead_letters")
_NOT_ADDED = ("partition", "partitions", "epoch")
_IDS = 100


class Gathering:
    """The events `committed` and `dead_letters` of one sink, summed up between two tellings of each."""

    def __init__(self, seconds: float = GATHER_SECONDS) -> None:
        self._seconds = seconds
        self._sums: dict[str, dict[str, Any]] = {}
        self._told: dict[str, float] = {}

    def takes(self, event: str, data: Mapping[str, Any]) -> bool:
        """Whether this event is one of those; it is added then."""
        if event not in _GATHERED:
            return False
        _add(self._sums.setdefault(event, {"events": 0}), data)
        return True

    def due(self, now: float, *, last: bool = False) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(event, sentence, data) of each that may be told again, or at the `last` of all that are left."""
        for event in [e for e in self._sums if last or now - self._told.get(e, float("-inf")) >= self._seconds]:
            data = self._sums.pop(event)
            self._told[event] = now
            yield event, _sentence(event, data), data


def _add(sums: dict[str, Any], data: Mapping[str, Any]) -> None:
    """Numbers add up, lists unite, mappings add up by their keys, of anything else the newest stays."""
    sums["events"] += 1
    for name, value in data.items():
        before = sums.get(name)
        if name in _NOT_ADDED or isinstance(value, bool | str) or value is None:
            sums[name] = value
        elif isinstance(value, int | float):
            sums[name] = round((before or 0) + value, 3)
        elif isinstance(value, list):
            sums[name] = [*dict.fromkeys([*(before or []), *value])][-_IDS:]
        elif isinstance(value, Mapping):
            counts = dict(before or {})
            for key, count in value.items():
                counts[key] = counts.get(key, 0) + count
            sums[name] = counts


def _sentence(event: str, data: Mapping[str, Any]) -> str:
    if event == "committed":
        return f"{counted(data.get('rows', 0), 'record')} committed in {counted(data['events'], 'batch', 'batches')}"
    left_out = counted(data.get("records", 0), "record")
    return f"{left_out} left out, {counted(data.get('letters', 0), 'dead letter')} published"
