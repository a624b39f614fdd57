"""Schema ids that the registry does not know, remembered for a while: junk in a topic must not become its load.

Each would cost a request per batch, and again with every retry. Not for known ids, which never change their schema.
"""

from __future__ import annotations

from collections.abc import Callable

REMEMBERED_SECONDS = 30.0
"""A schema that is registered late is found after that time."""
MAX_IN_BATCH = 100
"""So many unknown ids of one batch are looked up; more of them are no mistake of a producer's schema."""


class UnknownIds:
    """Why the registry knows no schema of an id. clock: seconds that only rise. Not thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[int, tuple[float, str]] = {}
        self._in_batch = 0

    def begin_batch(self) -> None:
        """Forget what is too old, and begin to count."""
        now = self._clock()
        self._until = {each: found for each, found in self._until.items() if found[0] > now}
        self._in_batch = 0

    def add(self, schema_id: int, what: str) -> str:
        """Remember what the registry said of the id; the same is said of the records."""
        self._until[schema_id] = (self._clock() + REMEMBERED_SECONDS, what)
        self._in_batch += 1
        return what

    def remembered(self, schema_id: int) -> str | None:
        """What to say of the records of an id that is known to be unknown; None where nothing is known of it."""
        if schema_id not in self._until:
            return None
        self._in_batch += 1
        return self._until[schema_id][1]

    @property
    def enough(self) -> bool:
        """Whether this batch has so many unknown ids that no further one is worth a request."""
        return self._in_batch >= MAX_IN_BATCH
