"""What is known of a channel as values: what the ledger remembers, and what the service says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

SUCCESS = "SUCCESS"
"""The status of a channel that takes rows."""


@dataclass(frozen=True)
class RecordedChannel:
    """What the ledger remembers of a partition's channel.

    pipe: its name, in the ledger's own schema. created_ms: when the service made the channel, milliseconds since 1970:
    one that was dropped and made again is another one. token: as it was folded into the position. row_errors: the
    baseline, that is how many of the channel's row errors are accounted for.
    """

    pipe: str
    created_ms: int
    token: str | None
    row_errors: int

    def is_same(self, pipe: str, created_ms: int) -> bool:
        """Whether a channel of that pipe, made then, is this one."""
        return (self.pipe, self.created_ms) == (pipe, created_ms)


@dataclass(frozen=True)
class ChannelSeen:
    """What the service says of a channel. Counters are of the channel's whole life.

    token: of the last row that is durable. row_errors: rows that Snowflake refused while the token passed them.
    last_error, error_bound: the message of the last one, and the token at or before which it was. inserted: rows.
    """

    created_ms: int
    token: str | None
    row_errors: int
    status_code: str = SUCCESS
    last_error: str | None = None
    error_bound: str | None = None
    inserted: int = 0

    def unaccounted(self, recorded: RecordedChannel) -> int:
        """Row errors beyond the baseline of this channel, which `recorded` must be about."""
        return self.row_errors - recorded.row_errors
