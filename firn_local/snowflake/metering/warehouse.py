"""One warehouse that wakes, works, sleeps, and what that bills. Not for which statement needs it (`compute`).

Source: "Overview of warehouses" and "Understanding compute cost" in Snowflake's documentation: credits an hour by size,
billed by the second, at least 60 seconds each time it is started or resumed. Times are seconds of one clock. A state is
worked out when somebody asks: nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CREDITS_AN_HOUR = {
    "XSMALL": 1.0, "SMALL": 2.0, "MEDIUM": 4.0, "LARGE": 8.0, "XLARGE": 16.0, "XXLARGE": 32.0, "XXXLARGE": 64.0,
    "X4LARGE": 128.0, "X5LARGE": 256.0, "X6LARGE": 512.0,
}  # fmt: skip
"""Of standard warehouses, generation 1."""
LEAST_SECONDS = 60.0
"""Billed at each start."""
DEFAULT_AUTO_SUSPEND = 600.0
"""Of CREATE WAREHOUSE without AUTO_SUSPEND."""
_SYNONYMS = {"2XLARGE": "XXLARGE", "3XLARGE": "XXXLARGE"} | {f"{n}XLARGE": f"X{n}LARGE" for n in (4, 5, 6)}

Bill = Callable[[str, float, float, float], None]
"""Called with a warehouse's name, from when, until when, and its credits an hour."""


def size_of(properties: Mapping[str, Any]) -> str:
    """The size as CREDITS_AN_HOUR names it, in any of Snowflake's spellings; XSMALL where it is not said."""
    text = str(properties.get("WAREHOUSE_SIZE", "XSMALL")).upper().replace("-", "").replace(" ", "")
    name = _SYNONYMS.get(text, text)
    return name if name in CREDITS_AN_HOUR else "XSMALL"


@dataclass
class Warehouse:
    """One warehouse. auto_suspend: idle seconds after which it is suspended, None for never."""

    name: str
    bill: Bill
    size: str = "XSMALL"
    auto_suspend: float | None = DEFAULT_AUTO_SUSPEND
    auto_resume: bool = True
    running: int = 0
    """Statements that it works on."""
    _started: bool = field(default=False, repr=False)
    _idle_since: float = field(default=0.0, repr=False)
    _billed_until: float = field(default=0.0, repr=False)

    def configure(self, properties: Mapping[str, Any], now: float) -> None:
        """Take the properties of CREATE or ALTER WAREHOUSE; what ran until `now` is billed as it was."""
        self.settle(now)
        self.size = size_of(properties)
        seconds = properties.get("AUTO_SUSPEND", DEFAULT_AUTO_SUSPEND)
        self.auto_suspend = float(seconds) if str(seconds).replace(".", "").isdigit() and float(seconds) else None
        self.auto_resume = properties.get("AUTO_RESUME") is not False

    def is_started(self, now: float) -> bool:
        """Whether it runs and is billed."""
        self.settle(now)
        return self._started

    def resume(self, now: float) -> bool:
        """Start it; whether it was suspended."""
        if self.is_started(now):
            return False
        self._started, self._idle_since = True, now
        self._billed_until = now
        self._bill_until(now + LEAST_SECONDS)
        return True

    def suspend(self, now: float) -> bool:
        """Stop it, at once; whether it ran."""
        if not self.is_started(now):
            return False
        self._started = False
        return True

    def begin(self, now: float) -> bool:
        """A statement begins to work on it; whether that resumed it."""
        resumed = self.resume(now)
        self.running += 1
        return resumed

    def end(self, now: float) -> None:
        """A statement has ended."""
        self.settle(now)
        self.running -= 1
        self._idle_since = now

    def settle(self, now: float) -> None:
        """Bill what ran until `now`, and suspend it where it was idle for long enough."""
        if not self._started:
            return
        due = None if self.running or self.auto_suspend is None else self._idle_since + self.auto_suspend
        if due is not None and due <= now:
            self._bill_until(due)
            self._started = False
        else:
            self._bill_until(now)

    def _bill_until(self, end: float) -> None:
        if end > self._billed_until:
            self.bill(self.name, self._billed_until, end, CREDITS_AN_HOUR[self.size])
            self._billed_until = end
