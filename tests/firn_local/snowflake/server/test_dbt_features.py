"""What dbt-snowflake offers a team, against the local Snowflake: snapshots, clones, grants, each incremental strategy,
contracts, persisted docs, catalogs, source freshness, query tags and comments. *(full)*
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.firn_local.snowflake.in_process import Rows, run
from tests.firn_local.snowflake.process import Server
from tests.firn_local.snowflake.server.dbt_process import Dbt

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.version_info >= (3, 14), reason="dbt 1.11 does not run on this Python"),
]
TARGET = """
    {name}: {{type: snowflake, account: LOCAL, user: DBT, password: any, host: 127.0.0.1, port: {port}, protocol: http,
      database: STREAMING, schema: {schema}, role: ACCOUNTADMIN, warehouse: WH, threads: 2}}
"""
FILES = {
    "dbt_project.yml": """
name: shop
profile: shop
flags: {send_anonymous_usage_stats: false}
query-comment: {comment: "shop of {{ target.name }}", append: true}
models: {+persist_docs: {relation: true, columns: true}}
""",
    "models/models.yml": """
sources:
  - name: raw
    database: STREAMING
    schema: PUBLIC
    config: {loaded_at_field: pushed_at, freshness: {warn_after: {count: 1, period: day}}}
    tables: [{name: ORDERS}]
models:
  - name: stg_orders
    description: One row an order event.
    config: {grants: {select: [READER]}, event_time: ordered_at}
    columns: [{name: ORDER_ID, description: "The order's number."}]
  - name: orders
    description: The last state of each order.
    config: {contract: {enforced: true}, query_tag: marts, tags: [contracted]}
    columns:
      - {name: order_id, data_type: "number(38,0)", description: Its number.,
         constraints: [{type: not_null}, {type: primary_key}], data_tests: [unique, not_null]}
      - {name: status, data_type: varchar}
      - {name: total, data_type: "number(10,2)"}
      - {name: kinds, data_type: array}
""",
    "models/stg_orders.sql": """
{{ config(materialized='view') }}
select content:order_id::number(38,0) as order_id, content:status::varchar as status,
       content:total::number(10,2) as total, typeof(content:lines) as kind, content:lines as lines,
       to_timestamp_ntz(content:ordered_at::number, 3) as ordered_at
from {{ source('raw', 'ORDERS') }}
""",
    "models/orders.sql": """
{{ config(
    materialized='table', transient=true,
    post_hook="alter table {{ this }} set tag streaming.public.team = 'shop'"
) }}
select order_id, status, total, lines_of.kinds
from {{ ref('stg_orders') }} left join (
  select s.order_id as id, array_agg(f.value:sku::varchar) within group (order by f.index) as kinds
  from {{ ref('stg_orders') }} s, lateral flatten(input => s.lines, outer => true) f group by all
) lines_of on lines_of.id = order_id
qualify row_number() over (partition by order_id order by ordered_at desc) = 1
""",
    **{
        f"models/by_{name}.sql": f"""
{{{{ config(materialized='incremental', incremental_strategy='{strategy}', {options}) }}}}
select order_id, status, total, ordered_at from {{{{ ref('stg_orders') }}}}
{where}
"""
        for name, strategy, options, where in (
            (
                "merge",
                "merge",
                "unique_key='order_id', merge_update_columns=['status', 'ordered_at']",
                "{% if is_incremental() %} where ordered_at > (select max(ordered_at) from {{ this }}) {% endif %}",
            ),
            (
                "delete_insert",
                "delete+insert",
                "unique_key='order_id'",
                "{% if is_incremental() %} where ordered_at > (select max(ordered_at) from {{ this }}) {% endif %}",
            ),
            (
                "append",
                "append",
                "on_schema_change='append_new_columns'",
                "{% if is_incremental() %} where ordered_at > (select max(ordered_at) from {{ this }}) {% endif %}",
            ),
            ("overwrite", "insert_overwrite", "on_schema_change='ignore'", ""),
            ("day", "microbatch", "event_time='ordered_at', batch_size='day', begin='2026-01-01'", ""),
        )
    },
    "snapshots/snapshots.yml": """
snapshots:
  - name: orders_by_time
    relation: ref('orders')
    config: {unique_key: order_id, strategy: check, check_cols: [status, total], schema: history}
  - name: orders_by_stamp
    relation: ref('by_delete_insert')
    config: {unique_key: order_id, strategy: timestamp, updated_at: ordered_at, hard_deletes: invalidate}
""",
}
DAY = 86_400_000
FIRST = 1_767_225_600_000
"""Midnight of 2026-01-01 in UTC, in milliseconds."""
ONLY_DAYS = ("--event-time-start", "2026-01-01", "--event-time-end", "2026-01-04")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("snowflake") / "data")
    with server.connect(database=None, schema=None) as connection:
        for sql in (
            "CREATE WAREHOUSE WH",
            "CREATE DATABASE STREAMING",
            "CREATE ROLE READER",
            "CREATE TAG TEAM",
            "CREATE TABLE ORDERS (CONTENT VARIANT, PUSHED_AT TIMESTAMP_LTZ)",
        ):
            run(connection, sql)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def project(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shop")
    targets = [
        TARGET.format(name=name, port=server.port, schema=schema)
        for name, schema in (("dev", "ANALYTICS"), ("copy", "CLONED"))
    ]
    (root / "profiles.yml").write_text("shop:\n  target: dev\n  outputs:" + "".join(targets))
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module")
def dbt(project: Path) -> Iterator[Dbt]:
    dbt = Dbt(project)
    yield dbt
    dbt.close()


@pytest.fixture(scope="module")
def built(server: Server, dbt: Dbt) -> None:
    """Two days, one after the other: order 1 changes its status on the second one, order 2 is new."""
    add(server, 1, "placed", "1.005", FIRST, ["a", "b"])
    dbt.build(*ONLY_DAYS)
    add(server, 1, "shipped", "2.005", FIRST + DAY, None)
    add(server, 2, "placed", "5", FIRST + DAY, [])
    dbt.build(*ONLY_DAYS)


def add(server: Server, order: int, status: str, total: str, at: int, lines: list[str] | None) -> None:
    content: dict[str, Any] = {"order_id": order, "status": status, "total": total, "ordered_at": at}
    content["lines"] = None if lines is None else [{"sku": sku} for sku in lines]
    query("INSERT INTO PUBLIC.ORDERS SELECT PARSE_JSON(%s), CURRENT_TIMESTAMP()", server, (json.dumps(content),))


def query(sql: str, server: Server, params: tuple[str, ...] | None = None, schema: str = "ANALYTICS") -> Rows:
    with server.connect(schema=schema) as connection:
        return run(connection, sql, params)


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("model", "rows"),
    [
        ("MERGE", [(1, "shipped", "1.01"), (2, "placed", "5.00")]),
        ("DELETE_INSERT", [(1, "shipped", "2.01"), (2, "placed", "5.00")]),
        ("APPEND", [(1, "placed", "1.01"), (1, "shipped", "2.01"), (2, "placed", "5.00")]),
        ("OVERWRITE", [(1, "placed", "1.01"), (1, "shipped", "2.01"), (2, "placed", "5.00")]),
        ("DAY", [(1, "placed", "1.01"), (1, "shipped", "2.01"), (2, "placed", "5.00")]),
    ],
)
def test_each_incremental_strategy_has_its_rows(server: Server, model: str, rows: Rows) -> None:
    assert query(f"SELECT ORDER_ID, STATUS, TOTAL::VARCHAR FROM BY_{model} ORDER BY 1, 2", server) == rows


@pytest.mark.usefixtures("built")
def test_snapshots_keep_what_was(server: Server) -> None:
    for name in ("ANALYTICS_HISTORY.ORDERS_BY_TIME", "ANALYTICS.ORDERS_BY_STAMP"):
        found = query(f"SELECT ORDER_ID, STATUS, DBT_VALID_TO IS NULL FROM {name} ORDER BY 1, 2", server)
        assert found == [(1, "placed", False), (1, "shipped", True), (2, "placed", True)], name


@pytest.mark.usefixtures("built")
def test_a_contract_grants_tags_and_comments_are_as_configured(server: Server) -> None:
    assert query("SELECT ORDER_ID, STATUS, KINDS FROM ORDERS ORDER BY 1", server) == [
        (1, "shipped", '["a","b"]'),
        (2, "placed", "[]"),
    ]
    described = query("DESC TABLE ORDERS", server)
    assert [(row[0], row[1], row[3], row[5]) for row in described][:3] == [
        ("ORDER_ID", "NUMBER(38,0)", "N", "Y"),
        ("STATUS", "VARCHAR(16777216)", "Y", "N"),
        ("TOTAL", "NUMBER(10,2)", "Y", "N"),
    ]
    granted = {(row[1], row[5]) for row in query("SHOW GRANTS ON VIEW STG_ORDERS", server)}
    assert granted == {("OWNERSHIP", "ACCOUNTADMIN"), ("SELECT", "READER")}
    assert query("SELECT SYSTEM$GET_TAG('PUBLIC.TEAM', 'ORDERS', 'TABLE')", server) == [("shop",)]
    tagged = "SELECT COUNT(*) > 0 FROM SNOWFLAKE.ACCOUNT_USAGE.QUERY_HISTORY WHERE QUERY_TAG = 'marts'"
    assert query(f"{tagged} AND QUERY_TEXT LIKE '%/* shop of dev */%'", server) == [(True,)]


@pytest.mark.usefixtures("built")
def test_a_null_breaks_the_contract_and_the_table_stays(server: Server, dbt: Dbt) -> None:
    query('INSERT INTO PUBLIC.ORDERS SELECT PARSE_JSON(\'{"status": "lost"}\'), CURRENT_TIMESTAMP()', server)
    succeeded, printed = dbt.run("run", "--select", "orders")
    query("DELETE FROM PUBLIC.ORDERS WHERE CONTENT:status::VARCHAR = 'lost'", server)
    assert not succeeded
    assert "NULL result in a non-nullable column" in printed
    assert query("SELECT COUNT(*) FROM ORDERS", server) == [(2,)]


@pytest.mark.usefixtures("built")
def test_the_catalog_and_the_freshness_of_sources(dbt: Dbt, project: Path) -> None:
    dbt.must("docs", "generate")
    nodes = json.loads((project / "target/catalog.json").read_text())["nodes"]
    view, table = nodes["model.shop.stg_orders"], nodes["model.shop.orders"]
    assert (view["metadata"]["type"], view["metadata"]["comment"]) == ("VIEW", "One row an order event.")
    assert view["columns"]["ORDER_ID"]["comment"] == "The order's number."
    assert (table["metadata"]["type"], table["metadata"]["owner"]) == ("BASE TABLE", "ACCOUNTADMIN")
    assert table["columns"]["ORDER_ID"]["type"] == "NUMBER"
    assert table["stats"]["row_count"]["value"] == 2
    dbt.must("source", "freshness")
    (result,) = json.loads((project / "target/sources.json").read_text())["results"]
    assert result["status"] == "pass"
    assert 0 <= result["max_loaded_at_time_ago_in_s"] < 600


@pytest.mark.usefixtures("built")
def test_clone_makes_tables_of_tables_in_another_schema(server: Server, dbt: Dbt, project: Path) -> None:
    state = project / "state"
    state.mkdir()
    (state / "manifest.json").write_bytes((project / "target/manifest.json").read_bytes())
    dbt.must("clone", "--state", str(state), "--target", "copy", "--select", "orders", "stg_orders")
    assert query("SELECT ORDER_ID, STATUS FROM ORDERS ORDER BY 1", server, schema="CLONED") == [
        (1, "shipped"),
        (2, "placed"),
    ]
    assert query("SELECT COUNT(*) FROM STG_ORDERS", server, schema="CLONED") == [(3,)]
