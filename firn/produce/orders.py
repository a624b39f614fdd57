"""Sample orders that look like orders. Not for anything that is not a sample.

An order is CREATED, CONFIRMED, SHIPPED, DELIVERED, in this order; some are CANCELLED before they ship. Customers come
back, a few of them often; totals are pounds with pence, mostly small. Same seed, start and count: same events.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

_SCHEMAS = Path(__file__).parent / "schema"
SCHEMA_FILE = _SCHEMAS / "order_event.avsc"
SCHEMA_FILES = {
    "avro": SCHEMA_FILE,
    "json-schema": _SCHEMAS / "order_event.schema.json",
    "protobuf": _SCHEMAS / "order_event.proto",
}
"""By format; plain JSON has no schema."""

_NEXT = {"CREATED": "CONFIRMED", "CONFIRMED": "SHIPPED", "SHIPPED": "DELIVERED"}
_NEW_ORDER_SHARE = 0.3  # an order has 3.7 events on average, so a little more than 1 event in 4 opens one
_CANCELLED_SHARE = 0.06
_CUSTOMERS = 5_000
_DAY_MS = 86_400_000
_USUAL_GAP_MS = 250


class OrderEvent(TypedDict):
    """One event of an order, in the fields of `OrderEvent` (schema/order_event.avsc); created_at is Unix ms."""

    order_id: int
    customer_id: str
    order_status: str
    order_total: float
    created_at: int


@dataclass(frozen=True)
class Clock:
    """Where event time starts and how fast it moves on; both in milliseconds."""

    start_ms: int
    mean_gap_ms: int

    @classmethod
    def for_run(cls, now_ms: int, count: int, rate: float | None) -> Clock:
        """With a rate, from now on at that pace; without, a past of at most two days that ends before now."""
        if rate:
            return cls(now_ms, max(1, round(1000 / rate)))
        gap = max(1, min(_USUAL_GAP_MS, _DAY_MS // max(count, 1)))
        return cls(now_ms - 2 * gap * count, gap)


def first_order_id(now_ms: int) -> int:
    """Where a run starts to number its orders: runs do not meet, unless one makes 1000 orders in a millisecond."""
    return now_ms * 1000


def order_events(count: int, *, seed: int | None, first_id: int, clock: Clock) -> Iterator[OrderEvent]:
    """`count` events of orders numbered from `first_id`; event time never goes back."""
    rng = random.Random(seed)  # noqa: S311 - sample data
    open_orders: list[OrderEvent] = []
    next_id, now = first_id, clock.start_ms
    longest_gap = 2 * clock.mean_gap_ms - 1
    for _ in range(count):
        now += 1 + int(rng.random() * longest_gap)
        if not open_orders or rng.random() < _NEW_ORDER_SHARE:
            event = _new_order(rng, next_id, now)
            next_id += 1
        else:
            event = _step(rng, _taken(rng, open_orders), now)
        if event["order_status"] in _NEXT:
            open_orders.append(event)
        yield event


def _taken(rng: random.Random, open_orders: list[OrderEvent]) -> OrderEvent:
    """Take any open order out of the list, in constant time."""
    index = int(rng.random() * len(open_orders))
    open_orders[index], open_orders[-1] = open_orders[-1], open_orders[index]
    return open_orders.pop()


def _new_order(rng: random.Random, order_id: int, now: int) -> OrderEvent:
    # Squaring favours low numbers: a tenth of the customers place a third of the orders.
    customer = int(rng.random() ** 2 * _CUSTOMERS)
    return {
        "order_id": order_id,
        "customer_id": f"cust_{customer * 2_654_435_761 % 0xFFFFFB:06x}",
        "order_status": "CREATED",
        "order_total": round(min(max(rng.lognormvariate(3.8, 0.8), 1.5), 5_000.0), 2),
        "created_at": now,
    }


def _step(rng: random.Random, order: OrderEvent, now: int) -> OrderEvent:
    status = order["order_status"]
    cancelled = status != "SHIPPED" and rng.random() < _CANCELLED_SHARE
    return {**order, "order_status": "CANCELLED" if cancelled else _NEXT[status], "created_at": now}
