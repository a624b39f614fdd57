"""What becomes of rows: matched by name, cast, transformed by a pipe's SELECT, or rejected and counted."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn_local.snowflake.streaming.row_loader import Rejection
from tests.firn_local.snowflake.streaming.streaming_server import ChannelClient, Json, Streaming

UTC = datetime.UTC


def stream(streaming: Streaming, pipe: str, *rows: object) -> Json:
    """The status of a new channel after these rows went through a pipe."""
    channel: ChannelClient = streaming.client().pipe(pipe).channel(f"c{next(ChannelClient._ends)}")
    return channel.commit(*rows)


def column(streaming: Streaming, kind: str, *values: object) -> tuple[list[Any], Json]:
    """What a column of this type holds after rows with these values, and the channel's status."""
    streaming.sql(f"CREATE OR REPLACE TABLE V (N NUMBER, A {kind})")
    status = stream(streaming, "V-STREAMING", *({"n": at, "a": value} for at, value in enumerate(values)))
    return [value for (value,) in streaming.sql("SELECT A FROM V ORDER BY N")], status


def test_keys_match_columns_in_any_case_and_others_are_ignored(streaming: Streaming) -> None:
    streaming.sql(
        "CREATE OR REPLACE TABLE PERSON (RECORD_METADATA VARIANT, CITY VARCHAR, AGE NUMBER, MARRIED BOOLEAN, "
        '"has cat" BOOLEAN, "!@&$#* includes special characters" BOOLEAN, SKILLS VARIANT, FAMILY VARIANT)'
    )
    row = {
        "city": "New York", "Age": 30, "MARRIED": True, "has cat": True, "!@&$#* includes special characters": True,
        "skills": ["sitting", "standing"], "family": {"son": "Jack"}, "RECORD_METADATA": {"offset": 1}, "more": 1,
    }  # fmt: skip
    stream(streaming, "PERSON-STREAMING", row)
    (found,) = streaming.sql("SELECT * FROM PERSON")
    assert found == (
        '{"offset":1}', "New York", Decimal(30), True, True, True, '["sitting","standing"]', '{"son":"Jack"}',
    )  # fmt: skip


def test_rows_may_spell_a_key_differently(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE K (CITY VARCHAR)")
    stream(streaming, "K-STREAMING", {"city": "a"}, {"City": "b"}, {"CITY": "c"}, {"town": "d"})
    assert [city for (city,) in streaming.sql("SELECT CITY FROM K ORDER BY CITY")] == ["a", "b", "c", None]


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("NUMBER(10,2)", [1, "12.345", True, 1e3], [Decimal("1.00"), Decimal("12.35"), Decimal(1), Decimal(1000)]),
        ("NUMBER", [12345678901234567890123456789, 1.5], [Decimal("12345678901234567890123456789"), Decimal(2)]),
        ("FLOAT", [1, "2.5", 1e-3], [1.0, 2.5, 0.001]),
        ("BOOLEAN", [True, "yes", "OFF", 0, 7, None], [True, True, False, False, True, None]),
        ("VARCHAR", ["a", 1.5, True, [1, {"b": None}]], ["a", "1.5", "true", '[1,{"b":null}]']),
        ("DATE", ["2026-03-05", "2026-03-05T23:30:00Z"], [datetime.date(2026, 3, 5)] * 2),
        ("TIME", ["12:30:15.5"], [datetime.time(12, 30, 15, 500000)]),
        ("BINARY", ["0AFF"], [b"\n\xff"]),
        ("VARIANT", ["a", 1, {"b": [1, None]}], ['"a"', "1", '{"b":[1,null]}']),
    ],
)  # fmt: skip
def test_values_are_cast_to_their_columns(streaming: Streaming, kind: str, given: list[Any], stored: list[Any]) -> None:
    found, status = column(streaming, kind, *given)
    assert (found, status["rows_error_count"]) == (stored, 0)


def test_times_keep_their_clock_or_their_instant(streaming: Streaming) -> None:
    texts = ["2026-03-05T12:00:00+02:00", "2026-03-05 12:00:00.123456", 1_772_704_800, 1_772_704_800_000]
    wall_clock, _ = column(streaming, "TIMESTAMP_NTZ", *texts)
    noon, day = datetime.datetime(2026, 3, 5, 12), datetime.datetime(2026, 3, 5, 10)
    assert wall_clock == [noon, noon.replace(microsecond=123456), day, day]
    instants, _ = column(streaming, "TIMESTAMP_TZ", *texts[:1], 1_772_704_800)
    assert [each.astimezone(UTC) for each in instants] == [day.replace(tzinfo=UTC)] * 2


@pytest.mark.parametrize(
    ("kind", "bad", "words"),
    [
        ("NUMBER", "x", "'x'"),
        ("NUMBER(3)", 1000, "1000"),
        ("VARCHAR(3)", "abcd", "String 'abcd' is too long and would be truncated"),
        ("NUMBER NOT NULL", None, "NULL result in a non-nullable column: A"),
        ("TIMESTAMP_NTZ", "yesterday", "yesterday"),
    ],
)
def test_a_bad_row_is_left_out_and_counted(streaming: Streaming, kind: str, bad: object, words: str) -> None:
    streaming.sql(f"CREATE OR REPLACE TABLE B (N NUMBER, A {kind})")
    good = "2026-01-01" if kind.startswith("TIME") else 1
    channel = streaming.client().pipe("B-STREAMING").channel("c")
    channel.append({"n": 1, "a": good}, {"n": 2, "a": bad}, {"n": 3, "a": good}, {"n": 4, "a": bad}, end="first")
    status = channel.commit({"n": 5, "a": good})
    assert [int(n) for (n,) in streaming.sql("SELECT N FROM B ORDER BY N")] == [1, 3, 5]
    assert (status["rows_parsed"], status["rows_inserted"], status["rows_error_count"]) == (5, 3, 2)
    assert status["last_error_offset_upper_bound"] == "first"
    assert words in status["last_error_message"]
    assert status["last_error_timestamp_ms"] >= status["created_on_ms"]


def test_a_not_null_column_without_a_key_rejects_every_row_whatever_its_default(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE N (A NUMBER, B NUMBER NOT NULL)")
    assert stream(streaming, "N-STREAMING", {"a": 1}, {"a": 2})["rows_error_count"] == 2
    streaming.sql("CREATE OR REPLACE TABLE N (A NUMBER, B NUMBER NOT NULL DEFAULT 7, C NUMBER DEFAULT 8)")
    status = stream(streaming, "N-STREAMING", {"a": 1}, {"a": 2, "b": 3}, {"a": 3, "b": None})
    assert status["rows_error_count"] == 2
    assert streaming.sql("SELECT A, B, C FROM N") == [(2, 3, None)]
    assert stream(streaming, "N-STREAMING", {"nothing": 1})["rows_inserted"] == 0


def test_a_default_pipe_fills_in_no_defaults(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE D (A NUMBER, B NUMBER DEFAULT 7, I NUMBER IDENTITY)")
    stream(streaming, "D-STREAMING", {"a": 1}, {"nothing": 1}, {"b": 2})
    assert set(streaming.sql("SELECT A, B, I FROM D")) == {(1, None, None), (None, None, None), (None, 2, None)}


def test_what_is_no_json_object_is_a_rejected_row(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE J (A NUMBER)")
    pipe = streaming.client().pipe("J-STREAMING")
    token = str(pipe.open("c")["next_continuation_token"])
    pipe.append("c", token, b'{"a":1}\n{"a":\n[1]\n5\n{}\n\xff\xfe\n{"a":2}\n', "end")
    streaming.settle()
    status = pipe.status("c")
    assert (status["rows_inserted"], status["rows_error_count"], status["last_committed_offset_token"]) == (3, 4, "end")
    assert sorted(a or 0 for (a,) in streaming.sql("SELECT A FROM J")) == [0, 1, 2]


def test_thousands_of_bad_rows_are_found_in_one_pass(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE M (A NUMBER)")
    status = stream(streaming, "M-STREAMING", *({"a": at if at % 2 else "x"} for at in range(20_000)))
    assert (status["rows_inserted"], status["rows_error_count"]) == (10_000, 10_000)


class TestPipesWithASelect:
    """CREATE PIPE ... AS COPY INTO ... FROM (SELECT ... FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))."""

    ROW: ClassVar[Json] = {
        "order_id": 12345, "customer_name": "John", "order_total": 100.5, "isPaid": True, "has cat": True,
        " @&$#* has Łułósżź": False, "parent": {"child": 1, "child field": "x"}, "list": [1, 2],
        "RECORD_METADATA": {"topic": "orders", "partition": 3},
    }  # fmt: skip

    @pytest.mark.parametrize(
        ("select", "stored"),
        [
            ("$1:order_id::STRING, $1:customer_name", ("12345", "John")),
            ("$1['order_id']::STRING, CONCAT($1['order_total']::STRING, ' USD')", ("12345", "100.5 USD")),
            ("$1:RECORD_METADATA.topic::STRING AS topic, $1['isPaid']::STRING AS paid", ("orders", "true")),
            ("$1['has cat'] AS has_cat, $1[' @&$#* has Łułósżź']", ("true", "false")),
            ("$1:parent.child, $1:parent['child field']", ("1", "x")),
            ("UPPER($1:customer_name::STRING), $1:list[1]", ("JOHN", "2")),
            ("$1:nowhere.deep, $1:order_total::NUMBER", (None, "101")),
        ],
    )
    def test_its_expressions_are_evaluated_over_each_row(
        self, streaming: Streaming, select: str, stored: tuple[Any, ...]
    ) -> None:
        source = "TABLE(DATA_SOURCE(TYPE => 'STREAMING'))"
        streaming.sql(
            "CREATE OR REPLACE TABLE O (A VARCHAR, B VARCHAR)",
            f"CREATE OR REPLACE PIPE O AS COPY INTO O FROM (SELECT {select} FROM {source})",
        )
        stream(streaming, "O", self.ROW)
        assert streaming.sql("SELECT A, B FROM O") == [stored]

    def test_a_column_list_a_condition_and_rows_that_cannot_be_cast(self, streaming: Streaming) -> None:
        streaming.sql(
            "CREATE OR REPLACE TABLE W (A NUMBER NOT NULL, B VARCHAR(3), C VARIANT)",
            "CREATE OR REPLACE PIPE W AS COPY INTO W (C, A) FROM (SELECT s.$1, $1:a::NUMBER "
            "FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')) s WHERE $1:keep::BOOLEAN)",
        )
        rows = [{"a": 1, "keep": True}, {"a": 2, "keep": False}, {"a": "x", "keep": True}, {"a": "y", "keep": False}]
        status = stream(streaming, "W", *rows, {"keep": True}, {"a": 6, "keep": True})
        assert streaming.sql("SELECT A, B, C FROM W ORDER BY A") == [
            (1, None, '{"a":1,"keep":true}'),
            (6, None, '{"a":6,"keep":true}'),
        ]
        assert (status["rows_parsed"], status["rows_inserted"], status["rows_error_count"]) == (6, 2, 2)

    def test_match_by_column_name_without_a_select(self, streaming: Streaming) -> None:
        streaming.sql(
            "CREATE OR REPLACE TABLE X (A NUMBER)",
            "CREATE OR REPLACE PIPE XP AS COPY INTO X FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')) "
            "MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE",
        )
        stream(streaming, "XP", {"a": 5})
        assert streaming.sql("SELECT A FROM X") == [(5,)]

    @pytest.mark.parametrize(
        "copy",
        [
            "COPY INTO Y FROM (SELECT $1:a, $1:b FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
            "COPY INTO Y (NOPE) FROM (SELECT $1:a FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
            "COPY INTO Y FROM (SELECT NOSUCHFUNCTION($1:a) FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
            "COPY INTO Y FROM (SELECT $2 FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
        ],
    )
    def test_a_select_that_cannot_be_evaluated_is_refused_before_rows_are_taken(
        self, streaming: Streaming, copy: str
    ) -> None:
        streaming.sql("CREATE OR REPLACE TABLE Y (A VARCHAR)", f"CREATE OR REPLACE PIPE Y AS {copy}")
        answer = streaming.client().pipe("Y").open("c")
        assert (answer.status, answer["code"]) == (400, "ERR_PIPE_DEFINITION_INVALID")

    def test_a_replaced_pipe_loses_its_channels(self, streaming: Streaming) -> None:
        create = (
            "CREATE OR REPLACE PIPE Z AS COPY INTO Z FROM (SELECT $1:{} FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))"
        )
        streaming.sql("CREATE OR REPLACE TABLE Z (A VARCHAR)", create.format("a"))
        channel = streaming.client().pipe("Z").channel("c")
        channel.commit({"a": "old"})
        streaming.sql(create.format("b"))
        assert channel.append({"b": "new"}).status == 200  # taken, and given up when it is to be committed
        streaming.settle()
        assert channel.append({"b": "new"})["code"] == "ERR_CHANNEL_MUST_BE_REOPENED"
        again = streaming.client().pipe("Z").channel("c")
        assert again.commit({"b": "new"})["rows_inserted"] == 1
        assert sorted(streaming.sql("SELECT A FROM Z")) == [("new",), ("old",)]


def test_an_interactive_table_has_its_transformation_in_its_definition(streaming: Streaming) -> None:
    streaming.sql(
        "CREATE INTERACTIVE TABLE REALTIME_METRICS (METRIC_NAME VARCHAR, METRIC_VALUE NUMBER, SOURCE_TOPIC VARCHAR, "
        "TIMESTAMP TIMESTAMP_NTZ) AS (SELECT $1:M_NAME::VARCHAR, $1:M_VALUE::NUMBER, "
        "$1:RECORD_METADATA.topic::VARCHAR, "
        "$1:RECORD_METADATA.timestamp::TIMESTAMP_NTZ FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))"
    )
    metadata = {"topic": "metrics", "timestamp": "2026-03-05T12:00:00"}
    for pipe in ("REALTIME_METRICS", "REALTIME_METRICS-STREAMING"):
        stream(streaming, pipe, {"M_NAME": "load", "M_VALUE": 3, "RECORD_METADATA": metadata})
    row = ("load", Decimal(3), "metrics", datetime.datetime(2026, 3, 5, 12))
    assert streaming.sql("SELECT * FROM REALTIME_METRICS") == [row, row]


def test_injected_rejections_hit_their_rows_alone(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE R (RECORD_METADATA VARIANT)")
    streaming.endpoint.faults.reject(Rejection("$.RECORD_METADATA.offset", ("3", "5"), "too odd"))
    status = stream(streaming, "R-STREAMING", *({"RECORD_METADATA": {"offset": at}} for at in range(7)))
    offsets = [int(at) for (at,) in streaming.sql("SELECT RECORD_METADATA:offset::INT FROM R ORDER BY 1")]
    assert offsets == [0, 1, 2, 4, 6]
    assert (status["rows_error_count"], status["last_error_message"]) == (2, "too odd")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def variants(streaming: Streaming) -> ChannelClient:
    streaming.sql("CREATE OR REPLACE TABLE VARIANTS (N NUMBER, A VARIANT)")
    return streaming.client().pipe("VARIANTS-STREAMING").channel("any")


@settings(max_examples=20, deadline=None)
@given(value=JSON.filter(lambda value: value is not None))
def test_a_variant_holds_any_json_value(streaming: Streaming, variants: ChannelClient, value: object) -> None:
    streaming.sql("DELETE FROM VARIANTS")
    assert variants.commit({"n": 1, "a": value})["rows_error_count"] == 0
    ((stored,),) = streaming.sql("SELECT A FROM VARIANTS")
    assert json.loads(stored) == value
