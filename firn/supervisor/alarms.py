"""Events that begin when a figure passes a limit: `lagging`, and `ahead` (the ledger is past Kafka's end).

Each is told once, and again only after the figure has been well below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firn.plural import counted
from firn.supervisor.statistics import Meter

_CALM = 0.5


class Alarms:
    """The alarms of one sink. lag_records, lag_seconds: limits, 0 for none."""

    def __init__(self, lag_records: int, lag_seconds: float) -> None:
        self._records, self._seconds = lag_records, lag_seconds
        self._lagging = self._ahead = False

    def ring(self, meter: Meter) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(event, sentence, data) of each that begins now."""
        share = max(self._share(meter.lag, self._records), self._share(meter.lag_seconds or 0.0, self._seconds))
        if share >= 1 and not self._lagging:
            about = {"lag": meter.lag, "lag_seconds": meter.lag_seconds}
            oldest = f", the oldest for {meter.lag_seconds:.0f} s" if meter.lag_seconds is not None else ""
            yield "lagging", f"{counted(meter.lag, 'record')} waiting{oldest}.", about
        self._lagging = share >= (_CALM if self._lagging else 1)
        ahead = [f"{each.topic}-{each.partition}" for each in meter.partitions if each.ahead]
        if ahead and not self._ahead:
            names = ", ".join(ahead)
            yield "ahead", f"The ledger is past Kafka's end: {names}.", {"partitions": ahead}
        self._ahead = bool(ahead)

    @staticmethod
    def _share(figure: float, limit: float) -> float:
        return figure / limit if limit > 0 else 0.0
