"""How long a run waits until it asks for data again."""

from __future__ import annotations

from firn.connector.export.config import PollConfig

_GROWTH = 2.0


class Poll:
    """Adaptive: at once shorter where there was data, longer with each look that finds none, between two bounds."""

    def __init__(self, config: PollConfig) -> None:
        self._config, self._seconds = config, config.seconds

    def next(self, *, found: bool) -> float:
        """Seconds until the next look. found: whether the last one brought rows."""
        if not self._config.adaptive:
            return self._config.seconds
        wanted = self._config.shortest if found else self._seconds * _GROWTH
        self._seconds = min(max(wanted, self._config.shortest), self._config.longest)
        return self._seconds
