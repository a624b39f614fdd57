"""The models over a local Snowflake: what each build adds, and that a full refresh would give the same rows."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firn.dbt.results import TransformResult
from firn.modelling.files import compared, write
from firn.modelling.generate import described, folder, generated
from firn.modelling.overrides import Overrides, read_overrides
from firn.registry.schemas import RegisteredSchema
from firn.settings import PROJECT_ROOT
from firn.snowflake.connection import SnowflakeLogin
from tests.firn.modelling.subjects import DEEP, FLAT, MESSAGES, UNIONS, Subject
from tests.support.dbt import CREATED_AT, Warehouse, copied_project, dbt_here, emptied, metadata_of

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="dbt 1.11 does not run on this Python")
MARTS = ("FCT_ORDER_EVENTS", "FCT_ORDERS", "DIM_CUSTOMERS", "FCT_DAILY_ORDERS")
SUBJECT = "order-events-value"
ORDERS = f"{PROJECT_ROOT}/firn/produce/schema/order_event.avsc"


class Story:
    """Builds of one warehouse, one after another: what they said, and what the marts held after each."""

    def __init__(self, warehouse: Warehouse, project: Path, run: Any) -> None:
        self.warehouse, self.project, self._run = warehouse, project, run
        self.results: dict[str, TransformResult] = {}
        self.events: dict[str, list[tuple[int, int]]] = {}
        self.marts: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def build(self, name: str, *arguments: str, tests: bool = False) -> None:
        without = [] if tests else ["--exclude-resource-type", "test", "--exclude-resource-type", "unit_test"]
        self.results[name] = self._run(self.project, *without, *arguments)
        self.events[name] = self.warehouse.events()
        self.marts[name] = {mart: self.warehouse.rows(mart) for mart in MARTS}


@pytest.fixture(scope="module")
def story(server: SnowflakeLogin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Five builds: a dbt build takes seconds, so several tests look at them."""
    warehouse = emptied(server, tmp_path_factory.mktemp("home"))
    project = copied_project(tmp_path_factory.mktemp("project"))
    with dbt_here(warehouse) as run:
        story = Story(warehouse, project, run)
        _first_records(warehouse)
        story.build("first")
        _later_records(warehouse)
        story.build("second", tests=True)
        _evolve(project)
        warehouse.land(0, 6, order_id=1006, coupon="SPRING", order_status="RETURNED")
        story.build("evolved", tests=True)
        story.build("backfilled", "--vars", json.dumps({"firn_backfill_from": "2020-01-01"}))
        story.build("refreshed", "--full-refresh")
        yield story


def _first_records(warehouse: Warehouse) -> None:
    warehouse.land(0, 0, order_total=0.1 + 0.2)
    warehouse.land(0, 1, order_id=1000, order_status="SHIPPED", created_at=CREATED_AT + 60_000)
    warehouse.land(2, 5, hours_ago=1)
    warehouse.land(0, 2, content={})  # a tombstone carries no event
    warehouse.land(0, 1, order_id=1000, order_status="SHIPPED", created_at=CREATED_AT + 60_000)  # written twice


def _later_records(warehouse: Warehouse) -> None:
    warehouse.land(0, 3)
    warehouse.land(1, 0)  # a partition that was silent so far
    warehouse.land(3, 0)  # a partition that is new
    warehouse.land(2, 4, hours_ago=2)  # out of order: below what the mart holds, and pushed before it
    warehouse.land(2, 5)  # a replay of what the mart holds
    warehouse.land(0, 0, order_total=0.1 + 0.2)
    # An order passes to another customer; and a field that no model knows yet.
    warehouse.land(0, 4, order_id=1003, customer_id="cust_def456", order_status="DELIVERED", coupon="EARLY")
    warehouse.land(0, 5, order_id=1005, order_total="NaN")
    warehouse.land(1, 1, hours_ago=60)  # committed long after it was pushed: no run looks so far back


def _evolve(project: Path) -> None:
    """The schema gets a field and a symbol, and the models are generated again."""
    schema = json.loads(Path(ORDERS).read_text())
    evolved = json.loads(Path(ORDERS).read_text())
    evolved["fields"].append({"name": "coupon", "type": ["null", "string"], "default": None, "doc": "Coupon, if any."})
    status = next(field for field in evolved["fields"] if field["name"] == "order_status")
    status["type"]["symbols"].append("RETURNED")
    versions = [(number, RegisteredSchema("AVRO", json.dumps(each))) for number, each in ((1, schema), (2, evolved))]
    said = read_overrides(project / "firn/order_events.yml")
    files = generated(SUBJECT, described(SUBJECT, versions), ("STREAMING", "PUBLIC"), said)
    write(compared(project, files, f"firn transform generate --subject {SUBJECT}", (folder(SUBJECT),)))
    with (project / "seeds/order_statuses.csv").open("a") as seed:
        seed.write("RETURNED,6,true,The customer sent the order back.\n")


def test_each_build_adds_what_landed_and_nothing_twice(story: Story) -> None:
    assert all(not result.failed for result in story.results.values()), [r.failed for r in story.results.values()]
    assert story.events["first"] == [(0, 0), (0, 1), (2, 5)]
    assert story.events["second"] == [(0, 0), (0, 1), (0, 3), (0, 4), (0, 5), (1, 0), (2, 4), (2, 5), (3, 0)]


def test_the_mart_is_typed(story: Story) -> None:
    described = story.warehouse.query("DESCRIBE TABLE FCT_ORDER_EVENTS")
    columns = {row["name"]: row["type"].split("(")[0] for row in described}
    assert columns["OFFSET"] == "NUMBER"
    assert columns["ORDER_STATUS"] == "VARCHAR"
    assert columns["ORDER_TOTAL"] == "FLOAT"
    assert columns["CREATED_AT"] == "TIMESTAMP_NTZ"
    assert columns["RECORD_KEY"] == "VARCHAR"
    (event,) = [each for each in story.marts["second"]["FCT_ORDER_EVENTS"] if each["RECORD_KEY"] == "1001"]
    assert event["ORDER_STATUS"] == "SHIPPED"
    assert event["KAFKA_TIMESTAMP"].isoformat() == "2026-03-05T12:30:15.124000"


def test_what_is_read_is_documented_in_snowflake(story: Story) -> None:
    """persist_docs: people see the texts where they query."""
    comments = {row["name"]: row["comment"] for row in story.warehouse.query("DESCRIBE TABLE FCT_ORDERS")}
    assert comments["ORDER_ID"] == "Id of the order."


def test_orders_customers_and_days_follow_the_events(story: Story) -> None:
    (order,) = [each for each in story.marts["second"]["FCT_ORDERS"] if each["ORDER_ID"] == 1003]
    assert (order["CUSTOMER_ID"], order["ORDER_STATUS"], order["IS_FINAL"]) == ("cust_def456", "DELIVERED", True)
    customers = {each["CUSTOMER_ID"]: each for each in story.marts["second"]["DIM_CUSTOMERS"]}
    assert customers["cust_def456"]["ORDER_COUNT"] == 1
    assert str(customers["cust_def456"]["DELIVERED_TOTAL"]) == "99.99"
    assert customers["cust_abc123"]["ORDER_COUNT"] == 3
    days = {each["ORDER_STATUS"]: each for each in story.marts["second"]["FCT_DAILY_ORDERS"]}
    assert days["CREATED"]["EVENT_COUNT"] == 7
    assert str(days["DELIVERED"]["ORDER_TOTAL"]) == "99.99"


def test_a_new_field_is_filled_for_records_that_had_it_before_the_models(story: Story) -> None:
    rows = story.marts["evolved"]["FCT_ORDER_EVENTS"]
    coupons = {(each["PARTITION"], each["OFFSET"]): each["COUPON"] for each in rows}
    assert coupons[0, 6] == "SPRING"
    assert coupons[0, 4] == "EARLY"
    assert coupons[0, 0] is None


def test_a_record_that_was_committed_too_late_is_missed_and_backfilled(story: Story) -> None:
    assert (1, 1) not in story.events["second"]
    assert (1, 1) not in story.events["evolved"]
    assert (1, 1) in story.events["backfilled"]
    assert len(story.events["backfilled"]) == len(story.events["evolved"]) + 1


def test_a_full_refresh_gives_the_same_rows(story: Story) -> None:
    for mart in MARTS:
        assert story.marts["backfilled"][mart] == story.marts["refreshed"][mart], mart


@pytest.fixture(scope="module")
def foreign(server: SnowflakeLogin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warehouse, Any]]:
    """Models of unlike subjects in a project that is not Firn's, built once."""
    warehouse = emptied(server, tmp_path_factory.mktemp("home"))
    project = tmp_path_factory.mktemp("other")
    (project / "dbt_project.yml").write_text("name: other\nversion: 1.0.0\nprofile: firn\n")
    for subject in (FLAT, DEEP, UNIONS, MESSAGES):
        table = subject.name.replace("-", "_").replace(".", "_").upper()
        _generate(project, subject, table)
        warehouse.sink_does(f"CREATE TABLE {table} (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
        warehouse.load(table, metadata_of("t", 0, 0), subject.content)
        warehouse.load(table, metadata_of("t", 0, 1) | {"schema_id": 0}, "{}")
    _generate(project, FLAT, "TYPED", subject="typed-readings-value", typed_columns=True)
    warehouse.sink_does(
        "CREATE TABLE TYPED (RECORD_METADATA VARIANT, SENSORID VARCHAR, CELSIUS FLOAT, VALID BOOLEAN, COUNT NUMBER, "
        'RAW BINARY, "ORDER" NUMBER, TOPIC VARCHAR, TAKEN_AT NUMBER)',
        f"INSERT INTO TYPED SELECT PARSE_JSON('{json.dumps(metadata_of('t', 0, 0))}'), 's-2', 1.5, TRUE, NULL, "
        "TO_BINARY('00ff', 'HEX'), 7, 'weather', 1772713815123",
    )
    with dbt_here(warehouse) as run:
        yield warehouse, run(project)


def _generate(project: Path, of: Subject, table: str, *, subject: str | None = None, **said: Any) -> None:
    name = subject or of.name
    files = generated(name, of.described, ("STREAMING", "PUBLIC"), Overrides(table=table, **said))
    write(compared(project, files, f"firn transform generate --subject {name}", (folder(name),)))


def test_models_of_unlike_subjects_are_built_and_tested(foreign: tuple[Warehouse, TransformResult]) -> None:
    warehouse, result = foreign
    assert not result.failed, result.failed
    assert {node.status for node in result.nodes} == {"success", "pass"}
    (flat,) = warehouse.query("SELECT SENSOR_ID, CELSIUS, VALUE_ORDER, RAW FROM FCT_FLAT_READINGS")
    assert (flat["SENSOR_ID"], flat["VALUE_ORDER"], bytes(flat["RAW"])) == ("s-1", 9007199254740993, b"\x00\xff")
    (typed,) = warehouse.query("SELECT SENSOR_ID, VALUE_ORDER, RAW FROM FCT_TYPED_READINGS")
    assert (typed["SENSOR_ID"], typed["VALUE_ORDER"], bytes(typed["RAW"])) == ("s-2", 7, b"\x00\xff")
    (event,) = warehouse.query("SELECT * FROM FCT_UNIONS_AND_TIMES")
    assert str(event["PRICE"]) == "12.345"
    assert event["HUGE"] == "9" * 50
    assert event["DAY"].isoformat() == "2026-03-05"
    assert event["AT_TIME"].isoformat() == "12:30:15.123000"
    assert event["AT_MICRO"].isoformat() == "01:02:03.000004"
    assert event["SEEN_US"].isoformat() == "2026-03-05T12:30:15.123456"
    (ride,) = warehouse.query("SELECT KIND, STARTED, FARE, PAID_BY_0_CARD FROM FCT_RIDES")
    assert (ride["KIND"], ride["FARE"], ride["PAID_BY_0_CARD"]) == ("CAR", 12, "c")


def test_child_tables_have_a_row_for_each_item(foreign: tuple[Warehouse, TransformResult]) -> None:
    warehouse, _ = foreign

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in warehouse.query(sql))

    assert rows("SELECT LINES_INDEX, SKU FROM FCT_SHOP_DEEP_BASKETS__LINES") == [(0, "a"), (1, "b")]
    discounts = "SELECT LINES_INDEX, DISCOUNTS_INDEX, CODE FROM FCT_SHOP_DEEP_BASKETS__LINES__DISCOUNTS"
    assert rows(discounts) == [(0, 0, "x"), (0, 1, "y")]
    assert rows('SELECT LABELS_KEY, "VALUE" FROM FCT_SHOP_DEEP_BASKETS__LABELS') == [("gift", "yes")]
    assert rows('SELECT DETAIL_ARRAY_INDEX, "VALUE" FROM FCT_UNIONS_AND_TIMES__DETAIL_ARRAY') == [(0, 4), (1, 5)]
    assert rows("SELECT SEATS_INDEX, KEY FROM FCT_RIDES__SEATS") == [(0, 1)]
