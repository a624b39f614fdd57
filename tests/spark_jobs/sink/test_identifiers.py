"""Names of tables: the official connector's, so that a team finds its tables again."""

from __future__ import annotations

import pytest

from spark_jobs.sink.identifiers import Namespace, table_for


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("order-events", "order_events_782987144"),
        ("ORDERS", "ORDERS"),
        ("1abc", "_1abc_1556113"),
        ("a.b", "a_b_94741"),
        ("a", "a_97"),
        ("_a", "_a"),
        ("a$b", "a$b"),
        ("-", "___45"),
        ("polygenelubricants", "polygenelubricants"),
    ],
)
def test_a_topic_without_a_map_gets_the_official_name(topic: str, table: str) -> None:
    assert table_for(topic, ()) == table


def test_the_map_wins() -> None:
    assert table_for("order-events", (("order-events", "ORDER_EVENTS"),)) == "ORDER_EVENTS"


def test_plain_names_are_folded_and_others_quoted() -> None:
    assert Namespace("streaming", "My Schema").qualified('odd"name') == 'STREAMING."My Schema"."odd""name"'
