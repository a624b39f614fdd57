"""Which faults a soak injects, when, and with which parameters: a pure function of seed, length and kinds.

Not for how a fault is injected (`faults`). Times are seconds since the first commit; a fault whose turn comes while the
one before it is still at work starts late, never early, and never out of order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firn.connector.config import Method

KINDS: dict[str, float] = {
    "kill-driver": 18,
    "kill-worker": 6,
    "zombie-driver": 24,
    "stop-driver": 18,
    "second-driver": 18,
    "kill-kafka": 14,
    "kill-registry": 10,
    "kill-snowflake": 12,
    "snowflake-503": 10,
    "cut-requests": 6,
    "lose-answers": 6,
    "lose-commit-answer": 40,
    "drop-staged-files": 8,
    "add-partition": 8,
    "stream-429": 6,
    "stream-503": 6,
    "stream-cut": 6,
    "stream-lost-answers": 6,
    "stale-tokens": 8,
    "invalidated-channel": 10,
    "slow-commits": 14,
}
"""Every kind, with the seconds that injecting it and recovering from it usually take here."""
_OF_SNOWPIPE = {"drop-staged-files"}
_OF_STREAMING = {name for name in KINDS if name.startswith("stream-")} | {"stale-tokens"}
_OF_STREAMING |= {"invalidated-channel", "slow-commits"}
_SHORT = ("kill-worker", "zombie-driver", "kill-driver", "kill-kafka", "kill-snowflake")
SHORT: dict[Method, tuple[str, ...]] = {
    Method.SNOWPIPE: (*_SHORT, "drop-staged-files"),
    Method.SNOWPIPE_STREAMING: (*_SHORT, "stream-lost-answers", "invalidated-channel"),
}
"""One of each important sort, for a soak of two minutes."""
SHORT_SECONDS = 180.0
_FIRST = 3.0
_PAUSE = (0.5, 4.0)
_OUTAGE = (1.0, 8.0)
_SHORT_OUTAGE = (1.0, 3.0)


@dataclass(frozen=True)
class Planned:
    """One fault: `outage` is how long what it takes away stays away, `whole` and `pick` choose among its variants."""

    number: int
    at: float
    kind: str
    outage: float
    whole: bool
    pick: int

    def __str__(self) -> str:
        variant = "whole" if self.whole else "part"
        return (
            f"{self.number:3d}  {self.at:6.1f} s  {self.kind:18}  outage {self.outage:4.1f} s  {variant}, {self.pick}"
        )


def kinds_of(method: Method) -> tuple[str, ...]:
    """The kinds that a soak of a method injects."""
    others = _OF_STREAMING if method is Method.SNOWPIPE else _OF_SNOWPIPE
    return tuple(kind for kind in KINDS if kind not in others)


def schedule(
    seed: int, seconds: float, kinds: Sequence[str] | None = None, method: Method = Method.SNOWPIPE
) -> tuple[Planned, ...]:
    """The faults that fit into `seconds`, or one round of `kinds` for a short soak: the same for the same arguments.

    A round has each kind once, shuffled, so that none is left to chance while another repeats.
    """
    rng = random.Random(seed)
    short = seconds < SHORT_SECONDS
    outage = _SHORT_OUTAGE if short else _OUTAGE
    planned: list[Planned] = []
    at = _FIRST
    kinds = kinds or (SHORT[method] if short else kinds_of(method))
    for kind in _rounds(rng, kinds):
        if len(planned) >= len(kinds) and (short or at + KINDS[kind] > seconds):
            break
        length, whole, pick = round(rng.uniform(*outage), 1), rng.random() < 0.5, rng.randrange(1_000)
        planned.append(Planned(len(planned) + 1, round(at, 1), kind, length, whole, pick))
        at += KINDS[kind] + rng.uniform(*_PAUSE)
    return tuple(planned)


def _rounds(rng: random.Random, kinds: Sequence[str]) -> Iterator[str]:
    while True:
        order = list(kinds)
        rng.shuffle(order)
        yield from order
