"""What a file says about the streaming client, in the names of both official connectors, and what has no effect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.connector.config import StreamingConfig
from firn.connector.outcome import CheckedConfig
from firn.connector.parse import check_sink_config
from firn.connector.streaming import LAG, MAP, MEMORY
from tests.support.connectors import MINIMAL

STREAMING = MINIMAL | {"snowflake.ingestion.method": "SNOWPIPE_STREAMING"}
LAG_OF_CLIENT = "max_append_request_buffer_duration_ms"


def checked(**parameters: str) -> CheckedConfig:
    """The check of a streaming configuration; `__` in a name stands for a dot."""
    raw = {name.replace("__", "."): value for name, value in parameters.items()}
    return check_sink_config(STREAMING | raw, where="x")


def streaming(raw: dict[str, str]) -> StreamingConfig:
    return check_sink_config(STREAMING | raw, where="x").require().streaming


def warnings(raw: dict[str, str]) -> list[str]:
    found = check_sink_config(STREAMING | raw, where="x")
    assert found.faults == ()
    return [str(warned) for warned in found.warnings]


def test_defaults() -> None:
    assert streaming({}) == StreamingConfig(0.2, None, (), 600.0, 300.0)
    assert streaming({MEMORY: "-1"}).memory_bytes is None


def test_each_parameter_has_its_field() -> None:
    raw = {LAG: "0.2", MEMORY: "50000000", "firn.ledger.seconds": "60", "firn.streaming.idle.seconds": "5"}
    assert streaming(raw) == StreamingConfig(0.2, 50_000_000, (), 60.0, 5.0)
    assert warnings(raw) == []


def test_the_map_takes_the_names_of_both_clients_in_any_case() -> None:
    assert streaming({MAP: "MAX_CLIENT_LAG:30, MAX_MEMORY_LIMIT_IN_BYTES:1000"}) == StreamingConfig(30.0, 1000)
    of_v4 = streaming({MAP: f"{LAG_OF_CLIENT}:250,Max_Inflight_Megabytes_Per_Channel:16,mem_throttle_by_pod:TRUE"})
    assert of_v4.client_lag_seconds == 0.25
    assert of_v4.client_properties == (("max_inflight_megabytes_per_channel", "16"), ("mem_throttle_by_pod", "true"))


@pytest.mark.parametrize("name", ["MAX_CLIENT_LAG", LAG_OF_CLIENT])
def test_a_parameter_of_its_own_wins_over_the_map(name: str) -> None:
    raw = {LAG: "2", MEMORY: "7", MAP: f"{name}:30,MAX_MEMORY_LIMIT_IN_BYTES:9"}
    assert streaming(raw) == StreamingConfig(2.0, 7)
    assert [line.partition(" has no effect")[0] for line in warnings(raw)] == [
        f"{MAP}: {name.lower()}:",
        f"{MAP}: max_memory_limit_in_bytes:",
    ]


def test_what_changes_nothing_is_warned_of_and_not_passed_on() -> None:
    raw = {MAP: "user:somebody,private_key:hunter2,MAX_CHANNEL_SIZE_IN_BYTES:1,hunter2_in_the_wrong_place:1"}
    login, older, unknown = warnings(raw)
    assert "user, private_key: has no effect: the sink's own login" in login
    assert "max_channel_size_in_bytes: has no effect" in older
    assert "has 1 without effect" in unknown
    assert streaming(raw) == StreamingConfig()
    assert "hunter2" not in "".join((login, older, unknown))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max_client_lag:soon", "max_client_lag: the value is not a number"),
        ("max_inflight_rows_per_channel:hunter2", "the value is not a number"),
        ("mem_throttle_by_process:1", "the value is not true or false"),
        ("max_client_lag->1", "is not <key>:<value>"),
    ],
)
def test_a_value_that_the_client_cannot_take_is_a_fault_without_the_value(text: str, wanted: str) -> None:
    (fault,) = checked(**{MAP: text}).faults
    assert fault.name == MAP
    assert wanted in str(fault)
    assert "hunter2" not in str(fault)


def test_with_snowpipe_each_is_warned_of() -> None:
    raw = {MEMORY: "5", MAP: "max_client_lag:no", "firn.ledger.seconds": "1"}
    found = check_sink_config(MINIMAL | raw, where="x")
    assert {warned.name: warned.reason for warned in found.warnings} == dict.fromkeys(
        raw, "has no effect with SNOWPIPE."
    )
    assert found.require().streaming == StreamingConfig()
    assert "firn.streaming.idle.seconds" not in {line.name for line in found.effective}
    assert "firn.streaming.idle.seconds" in {line.name for line in checked().effective}


@given(st.floats(0, 1e6, allow_nan=False).map(lambda each: f"{each:.6f}"))
def test_every_lag_is_the_same_in_seconds_and_milliseconds(text: str) -> None:
    milliseconds = f"{float(text) * 1000:.3f}"
    of_map = streaming({MAP: f"{LAG_OF_CLIENT}:{milliseconds}"}).client_lag_seconds
    assert of_map == pytest.approx(streaming({LAG: text}).client_lag_seconds)
