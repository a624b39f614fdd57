"""Sample orders behave like orders, and are the same for the same seed."""

from collections import defaultdict
from itertools import pairwise

from firn.produce.orders import Clock, first_order_id, order_events

NOW = 1_772_713_815_123
AFTER = {"CREATED": {"CONFIRMED", "CANCELLED"}, "CONFIRMED": {"SHIPPED", "CANCELLED"}, "SHIPPED": {"DELIVERED"}}


def events(count=20_000, seed=7, now=NOW, rate=None):
    return list(order_events(count, seed=seed, first_id=first_order_id(now), clock=Clock.for_run(now, count, rate)))


def test_each_order_goes_through_its_states_in_order():
    by_order = defaultdict(list)
    for event in events():
        by_order[event["order_id"]].append(event)
    finals = set()
    for order in by_order.values():
        states = [event["order_status"] for event in order]
        assert states[0] == "CREATED"
        assert all(later in AFTER[earlier] for earlier, later in pairwise(states))
        assert len({(event["customer_id"], event["order_total"]) for event in order}) == 1
        finals.add(states[-1])
    assert {"DELIVERED", "CANCELLED"} <= finals


def test_event_time_moves_forward_and_stays_in_the_past():
    times = [event["created_at"] for event in events()]
    assert all(later > earlier for earlier, later in pairwise(times))
    assert times[-1] <= NOW
    assert NOW - times[0] <= 2 * 86_400_000


def test_with_a_rate_event_time_starts_now_and_keeps_that_pace():
    times = [event["created_at"] for event in events(2_000, rate=10)]
    assert times[0] > NOW
    assert 0.9 < (times[-1] - times[0]) / (2_000 * 100) < 1.1


def test_customers_come_back_and_some_much_more_often():
    orders = [event["customer_id"] for event in events(100_000) if event["order_status"] == "CREATED"]
    counts = sorted((orders.count(customer) for customer in set(orders[:2_000])), reverse=True)
    assert counts[0] > 5 * counts[-1]


def test_totals_are_pounds_with_pence_and_mostly_small():
    totals = sorted(event["order_total"] for event in events())
    assert all(total == round(total, 2) and 0 < total <= 5_000 for total in totals)
    assert totals[len(totals) // 2] < sum(totals) / len(totals)


def test_the_same_seed_gives_the_same_orders_and_another_seed_others():
    assert events() == events()
    assert events() != events(seed=8)


def test_a_later_run_repeats_no_order_id():
    first, second = events(seed=1), events(seed=1, now=NOW + 1_000)
    assert not {e["order_id"] for e in first} & {e["order_id"] for e in second}
    assert [e["order_status"] for e in first] == [e["order_status"] for e in second]
