"""Offset tokens: what a channel remembers of how far its rows are durable. Pure.

Snowflake keeps a token as the text that came with the last committed rows, and never looks into it
(https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-high-performance-overview). Ours is
`<generation>:<offset>`. A reset of a sink's positions raises the generation, so that a channel's older token says
nothing any more. Not for asking a channel for it (`client`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(r"(0|[1-9][0-9]{0,18}):(0|[1-9][0-9]{0,18})")


class Token(NamedTuple):
    """The offset of a row, and the generation of its sink; prints as it is written. Tokens order as their rows do."""

    generation: int
    offset: int

    def __str__(self) -> str:
        return f"{self.generation}:{self.offset}"

    @classmethod
    def parse(cls, text: str | None) -> Token | None:
        """The token that a channel holds; None for a channel without one, and for a text that no sink wrote."""
        found = _TOKEN.fullmatch(text) if text else None
        return cls(int(found[1]), int(found[2])) if found else None


def next_offset(text: str | None, generation: int) -> int | None:
    """The first offset that a token of this generation does not cover; None for every other token, and for none."""
    token = Token.parse(text)
    return token.offset + 1 if token and token.generation == generation else None
