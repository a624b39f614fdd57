"""When the streams of an export become stale, and whether that is soon. Asked by SHOW STREAMS, without a warehouse.

A stale stream has lost the changes between its offset and now: the export reads all rows again (`resync`), or the
changes are missing. Snowflake extends a table's retention for its streams to 14 days (MAX_DATA_EXTENSION_TIME_IN_DAYS),
https://docs.snowflake.com/en/user-guide/streams-intro#data-retention-period-and-staleness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from firn.exports.source import Source
from firn.exports.streams import find_stream
from firn.snowflake.identifiers import written

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

SOON_HOURS = 72.0
"""From so many hours before a stream becomes stale a person should look: weekends are longer."""
COLUMNS = ("source", "stream", "stale_after", "hours_left", "mark")


@dataclass(frozen=True)
class Staleness:
    """A stream and when it becomes stale (UTC); None: Snowflake does not say. gone: it is not there."""

    source: str
    stream: str
    stale_after: datetime | None
    stale: bool = False
    gone: bool = False

    def hours_left(self, now: datetime) -> float | None:
        """Hours until then; negative once it is over."""
        return None if self.stale_after is None else (self.stale_after - now).total_seconds() / 3600

    def needs_attention(self, now: datetime) -> bool:
        """Whether a person has to look."""
        left = self.hours_left(now)
        return self.stale or self.gone or (left is not None and left < SOON_HOURS)

    def row(self, now: datetime) -> dict[str, Any]:
        """By the names of COLUMNS."""
        left = self.hours_left(now)
        state = "gone" if self.gone else "stale" if self.stale else "look" if self.needs_attention(now) else "good"
        after = self.stale_after and self.stale_after.isoformat(timespec="minutes")
        hours = None if left is None else round(left, 1)
        return {"source": self.source, "stream": self.stream, "stale_after": after, "hours_left": hours, "mark": state}


def staleness(connection: SnowflakeConnection, sources: Iterable[Source]) -> list[Staleness]:
    """Each source's stream, those that have one."""
    found = []
    for source in sources:
        if source.stream is None:
            continue
        info = find_stream(connection, source.stream)
        name = written(source.stream)
        if info is None:
            found.append(Staleness(source.name, name, None, gone=True))
        else:
            found.append(Staleness(source.name, name, info.stale_after, stale=info.stale))
    return found


def now() -> datetime:
    """The time by which hours are counted."""
    return datetime.now(UTC)
