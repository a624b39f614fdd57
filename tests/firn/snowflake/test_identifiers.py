"""Names of tables: the official connector's, so that a team finds its tables again."""

from __future__ import annotations

from typing import Any

import pytest

from firn.errors import ConfigError
from firn.snowflake.identifiers import Namespace, check_table_map, quoted, stored, table_for
from tests.support.vectors import vectors

NAMES = vectors("table_names")
DIFFERENCES = {"prod.orders.*": "no topic can be named so: the official connector strips `.*` of a pattern"}


@pytest.mark.parametrize("row", NAMES["no_map"], ids=[row["topic"] for row in NAMES["no_map"]])
def test_a_topic_without_a_map_gets_the_official_name(row: dict[str, Any]) -> None:
    assert (table_for(row["topic"], ()) == row["table"]) is (row["topic"] not in DIFFERENCES)


MAPPED = [row for row in NAMES["with_map"] if "parsed" in row]


@pytest.mark.parametrize("row", MAPPED, ids=[row["topic2table.map"] for row in MAPPED])
def test_a_map_names_tables_by_topic_or_by_expression(row: dict[str, Any]) -> None:
    assert table_for(row["topic"], tuple(row["parsed"].items())) == row["table"]


def test_the_map_wins() -> None:
    assert table_for("order-events", (("order-events", "ORDER_EVENTS"),)) == "ORDER_EVENTS"


def test_plain_names_are_folded_and_others_quoted() -> None:
    assert Namespace("streaming", "My Schema").qualified('odd"name') == 'STREAMING."My Schema"."odd""name"'


@pytest.mark.parametrize(
    ("name", "written", "kept"),
    [
        ("abc", "ABC", "ABC"),
        ("a b", '"a b"', "a b"),
        ('"', '""""', '"'),
        ("数据", '"数据"', "数据"),
        ("order", '"ORDER"', "ORDER"),
        ("Orders", "ORDERS", "ORDERS"),
    ],
)
def test_a_name_is_quoted_where_it_must_be_and_folded_where_it_may(name: str, written: str, kept: str) -> None:
    assert (quoted(name), stored(name)) == (written, kept)


PETS = ((".*_cat", "CATS"), ("big_.*", "BIG"), ("small_cats", "SMALL"))


def test_a_topic_that_two_expressions_match_is_refused_with_both() -> None:
    check_table_map(["a_cat", "big_dog", "small_cats", "other"], PETS)
    with pytest.raises(ConfigError) as raised:
        check_table_map(["a_cat", "big_cat", "big_old_cat"], PETS)
    assert raised.value.what.splitlines()[1:] == [
        "  big_cat: .*_cat (table CATS), big_.* (table BIG)",
        "  big_old_cat: .*_cat (table CATS), big_.* (table BIG)",
    ]


def test_an_expression_matches_the_whole_name_of_a_topic() -> None:
    check_table_map(["cats"], (("cat", "A"), ("cats?", "B")))
    assert table_for("cats", (("cat", "A"), ("cats?", "B"))) == "B"


def test_many_topics_go_to_one_table() -> None:
    both = ((".*_cat", "PETS"), (".*_dog", "PETS"))
    assert {table_for(topic, both) for topic in ("a_cat", "a_dog", "b_dog")} == {"PETS"}


def test_a_name_that_snowflake_takes_no_table_of_is_refused_before_the_first_record() -> None:
    longest = "t" * 249  # of a topic
    check_table_map([longest, "a." + longest[:242]], ())
    with pytest.raises(ConfigError, match="more than 255 characters") as raised:
        check_table_map([longest, "a." + longest[:247]], ())
    assert raised.value.what.splitlines()[1:] == ["  a." + longest[:247]]
    check_table_map(["a." + longest[:247]], (("a\\..*", "SHORT"),))
