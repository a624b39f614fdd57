"""Names of tables: the official connector's, so that a team finds its tables again."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.sink.identifiers import Namespace, table_for
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
