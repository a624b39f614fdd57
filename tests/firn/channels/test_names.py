"""No two partitions share a channel, and every name is one that a URL and Snowflake take."""

from __future__ import annotations

import re

from hypothesis import assume, example, given
from hypothesis import strategies as st

from firn.channels.names import MAX_CHANNEL_NAME, channel_name, default_pipe
from firn.kafka.partitions import TopicPartition

TEXTS = st.text(min_size=1, max_size=300)
PARTS = st.tuples(TEXTS, TEXTS, TEXTS, st.integers(0, 100_000))


def name_of(parts: tuple[str, str, str, int]) -> str:
    ledger_id, sink, topic, partition = parts
    return channel_name(ledger_id, sink, TopicPartition(topic, partition))


@given(PARTS, PARTS)
@example(("id", "a-b", "c", 0), ("id", "a", "b-c", 0))
@example(("id", "a", "b", 11), ("id", "a", "b-1", 1))
@example(("id", "a", "b.c", 1), ("id", "a", "b_c", 1))
@example(("id", "a", "Orders", 1), ("id", "a", "orders", 1))
@example(("1", "a", "orders", 1), ("2", "a", "orders", 1))
def test_no_two_partitions_meet_even_where_the_case_of_a_name_counts_for_nothing(
    one: tuple[str, str, str, int], two: tuple[str, str, str, int]
) -> None:
    assume(one != two)
    assert name_of(one).upper() != name_of(two).upper()


@given(PARTS)
def test_a_name_is_plain_short_and_always_the_same(parts: tuple[str, str, str, int]) -> None:
    name = name_of(parts)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    assert len(name) <= MAX_CHANNEL_NAME
    assert name == name_of(parts)


def test_a_person_sees_whose_channel_it_is() -> None:
    assert name_of(("id", "orders-sink", "order-events", 3)).endswith("-orders_sink-order_events-3")


def test_the_default_pipe_has_the_name_of_its_table() -> None:
    assert default_pipe("ORDERS") == "ORDERS-STREAMING"
