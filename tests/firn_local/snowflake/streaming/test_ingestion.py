"""What Snowpipe Streaming bills: gigabytes of values, and no warehouse."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from firn_local.snowflake.metering.ingestion import size_of_lines, size_of_values
from tests.firn_local.snowflake.streaming.streaming_server import Streaming


def test_values_count_and_names_of_fields_do_not() -> None:
    row = {"RECORD_METADATA": {"offset": 12, "topic": "orders"}, "RECORD_CONTENT": {"ids": [1, 23], "text": "äö"}}
    assert size_of_values(row) == len("12") + len("orders") + len("1") + len("23") + 4
    lines = pa.array([json.dumps(row, ensure_ascii=False)] * 10, pa.large_string())
    assert size_of_lines(lines) == 10 * size_of_values(row)
    assert size_of_lines(pa.array([], pa.large_string())) == 0
    assert size_of_lines(pa.array(["no json"], pa.large_string())) == len("no json")


def test_streamed_rows_are_metered_by_pipe_and_wake_no_warehouse(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE METERED (A VARCHAR)")
    before = streaming.snowflake.meter.usage()
    channel = streaming.client().pipe("METERED-STREAMING").channel("metered")
    channel.commit(*({"a": "x" * 100} for _ in range(50)))
    used = streaming.snowflake.meter.usage() - before
    assert (used.ingested_rows, used.ingested_bytes) == (50, 5000)
    assert used.ingestion_credits == pytest.approx(5000 / 1e9 * 0.0037)
    assert (used.statements, used.compute_credits) == (0, 0)
    ((service, rows, size),) = streaming.sql(
        "SELECT SERVICE_TYPE, ROWS, BYTES FROM SNOWFLAKE.ACCOUNT_USAGE.METERING_HISTORY WHERE NAME LIKE '%METERED%'"
    )
    assert (service, rows, size) == ("SNOWPIPE_STREAMING", 50, 5000)


def test_streamed_rows_end_the_results_of_their_table(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE METERED (A VARCHAR)")
    channel = streaming.client().pipe("METERED-STREAMING").channel("versions")
    query = "SELECT A FROM METERED"
    answered = []
    for step in (lambda: None, lambda: None, lambda: channel.commit({"a": "x"}), lambda: None):
        step()
        streaming.sql(query)
        answered.append(str(streaming.snowflake.meter.queries()[-1].compute))
    assert answered == ["WAREHOUSE", "PERSISTED RESULT", "WAREHOUSE", "PERSISTED RESULT"]
