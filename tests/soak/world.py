"""What the faults of a soak are done to, and what each of them tells. Not for the faults themselves (`faults`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.soak.keeper import Keeper
from tests.soak.stack import SoakStack
from tests.soak.traffic import Traffic
from tests.soak.watch import Watch, brief_connection
from tests.support.toxics import ToxicProxy

SETTLE_SECONDS = 240
"""How long a new driver may take to its first commit, and an old one to its end, on a busy machine."""


@dataclass(frozen=True)
class World:
    """The sink talks to Snowflake through `proxy`; everybody else goes straight."""

    stack: SoakStack
    keeper: Keeper
    traffic: Traffic
    watch: Watch
    proxy: ToxicProxy
    sink: str

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """An impatient session in Snowflake."""
        connection = brief_connection(self.stack.settings)
        try:
            yield connection
        finally:
            connection.close()


@dataclass(frozen=True)
class Fired:
    """When a fault struck (Unix seconds) and how we know."""

    at: float
    evidence: str
