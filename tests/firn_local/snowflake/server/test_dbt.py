"""dbt-snowflake against the local Snowflake: every materialisation, twice in a row, with a contract."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.firn_local.snowflake.in_process import run
from tests.firn_local.snowflake.process import Server
from tests.firn_local.snowflake.server.dbt_process import Dbt

pytestmark = [
    pytest.mark.skipif(sys.version_info >= (3, 14), reason="dbt 1.11 does not run on this Python"),
    pytest.mark.full,  # `tests.firn.dbt.test_models` builds Firn's own models again and again
]
PROFILE = """
tiny:
  target: local
  outputs:
    local:
      {{type: snowflake, account: LOCAL, user: DBT, password: any, host: 127.0.0.1, port: {port}, protocol: http,
       database: STREAMING, schema: ANALYTICS, role: ACCOUNTADMIN, threads: 2, query_tag: dbt}}
"""
PROJECT = """
name: tiny
profile: tiny
model-paths: [models]
flags: {send_anonymous_usage_stats: false}
"""
SOURCES = """
sources:
  - name: streaming
    database: STREAMING
    schema: PUBLIC
    tables: [{name: ORDER_EVENTS}]
models:
  - name: stg_orders
    description: "One row an order event; it's flat."
    columns: [{name: order_id, data_tests: [not_null]}]
  - name: fct_merge
    config: {contract: {enforced: true}}
    columns:
      - {name: topic_offset, data_type: "number(38,0)", data_tests: [unique, not_null]}
      - {name: order_id, data_type: "number(38,0)"}
      - {name: customer, data_type: varchar}
      - {name: total, data_type: float}
      - {name: created_at, data_type: timestamp_ntz}
"""
STAGING = """
select record_metadata:offset::number(38,0) as topic_offset, record_content:order_id::number(38,0) as order_id,
       record_content:customer::varchar as customer, record_content:total::float as total,
       to_timestamp_ntz(record_content:created_at::number, 3) as created_at
from {{ source('streaming', 'ORDER_EVENTS') }}
"""
NEWER = "{% if is_incremental() %} where topic_offset > (select max(topic_offset) from {{ this }}) {% endif %}"
MODELS = {
    "stg_orders.sql": "{{ config(materialized='view') }}" + STAGING,
    "tbl.sql": "{{ config(materialized='table', persist_docs={'relation': true}) }} "
    "select * from {{ ref('stg_orders') }}",
    "fct_merge.sql": "{{ config(materialized='incremental', unique_key='topic_offset', incremental_strategy='merge', "
    "on_schema_change='append_new_columns') }} select * from {{ ref('stg_orders') }} " + NEWER,
    "fct_delete.sql": "{{ config(materialized='incremental', unique_key='topic_offset', "
    "incremental_strategy='delete+insert') }} select * from {{ ref('stg_orders') }} " + NEWER,
    "fct_append.sql": "{{ config(materialized='incremental', incremental_strategy='append') }} "
    "select * from {{ ref('stg_orders') }} " + NEWER,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("snowflake") / "data")
    with server.connect(database=None, schema=None) as connection:
        run(connection, "CREATE DATABASE STREAMING")
        run(connection, "CREATE TABLE ORDER_EVENTS (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def project(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dbt")
    (root / "models").mkdir()
    (root / "dbt_project.yml").write_text(PROJECT)
    (root / "profiles.yml").write_text(PROFILE.format(port=server.port))
    (root / "models/schema.yml").write_text(SOURCES)
    for name, sql in MODELS.items():
        (root / "models" / name).write_text(sql)
    return root


@pytest.fixture(scope="module")
def dbt(project: Path) -> Iterator[Dbt]:
    dbt = Dbt(project)
    yield dbt
    dbt.close()


def add_orders(server: Server, *offsets: int) -> None:
    with server.connect() as connection:
        for offset in offsets:
            content = {"order_id": 1000 + offset, "customer": f"c{offset}", "total": 9.5, "created_at": 1700000000123}
            run(
                connection,
                "INSERT INTO ORDER_EVENTS SELECT PARSE_JSON(%s), PARSE_JSON(%s)",
                (json.dumps({"offset": offset}), json.dumps(content)),
            )


def test_a_project_builds_again_and_again(server: Server, dbt: Dbt) -> None:
    for offsets in [(0, 1), (2,), ()]:
        add_orders(server, *offsets)
        dbt.build()
    with server.connect(schema="ANALYTICS") as connection:
        for model in ("STG_ORDERS", "TBL", "FCT_MERGE", "FCT_DELETE", "FCT_APPEND"):
            found = run(connection, f"SELECT TOPIC_OFFSET, ORDER_ID FROM {model} ORDER BY 1")
            assert found == [(0, 1000), (1, 1001), (2, 1002)], model
        types = {row[0]: row[1] for row in run(connection, "DESCRIBE TABLE FCT_MERGE")}
        assert types["ORDER_ID"] == "NUMBER(38,0)"
        assert types["CREATED_AT"] == "TIMESTAMP_NTZ(9)"
        assert run(connection, "SELECT CREATED_AT::VARCHAR FROM FCT_MERGE LIMIT 1")[0][0].startswith("2023-11-14 22:13")


def test_a_full_refresh_replaces_the_tables(server: Server, dbt: Dbt) -> None:
    dbt.build("--full-refresh")
    with server.connect(schema="ANALYTICS") as connection:
        assert run(connection, "SELECT COUNT(*) = COUNT(DISTINCT TOPIC_OFFSET) FROM FCT_MERGE") == [(True,)]
