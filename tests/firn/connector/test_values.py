"""Values at their edges: empty, too large, too long."""

from __future__ import annotations

import pytest

from firn.connector.parameter import Effect
from firn.connector.parameters import PARAMETERS
from firn.connector.parse import check_sink_config, parse_sink_config
from tests.support.connectors import MINIMAL


def fault(name: str, value: str) -> str:
    """What is wrong with a parameter of the smallest configuration."""
    (found,) = check_sink_config(MINIMAL | {name: value}, where="x").faults
    assert found.name == name
    return str(found)


@pytest.mark.parametrize("name", sorted(name for name, each in PARAMETERS.items() if each.effect is Effect.HONOURED))
def test_an_empty_text_is_absent_or_at_fault(name: str) -> None:
    officially_a_fault = (
        *("name", "snowflake.url.name", "snowflake.user.name", "snowflake.private.key", "snowflake.database.name"),
        *("snowflake.schema.name", "buffer.count.records", "buffer.flush.time", "buffer.size.bytes"),
    )
    checked = check_sink_config({"name": "orders", "topics.regex": "a"} | {name: " "}, where="x")
    if name in officially_a_fault:
        assert [fault.name for fault in checked.faults] == [name]
    elif name != "topics.regex":
        assert checked.config == parse_sink_config({"name": "orders", "topics.regex": "a"}, where="x")


def test_records_do_not_wait_for_ever() -> None:
    assert parse_sink_config(MINIMAL | {"buffer.flush.time": "86400"}, where="x").buffer.seconds == 86_400
    assert "above the maximum 86400" in fault("buffer.flush.time", "99999999999999999")


def test_a_fault_of_a_long_value_is_short_and_says_what_is_wrong() -> None:
    assert "more than 249 characters" in fault("topics", "t" * 250)
    assert parse_sink_config(MINIMAL | {"topics": "t" * 249}, where="x").topics == ("t" * 249,)
    assert len(fault("topics", "t" * 5_000_000 + "!")) < 1000
