"""What a warehouse bills: seconds from its start to its suspension, a minute at least, credits by its size."""

from __future__ import annotations

import threading

import pytest

from firn_local.snowflake.metering.usage import CLOUD_SERVICES_CREDITS, Usage
from tests.firn_local.snowflake.metering.conftest import Metered


def work(metered: Metered) -> None:
    metered.run("UPDATE U SET B = 'x' WHERE A = 0")


def state(metered: Metered, name: str = "WH") -> object:
    return next(row[2] for row in metered.rows("SHOW WAREHOUSES") if row[1] == name)


def test_one_statement_bills_a_minute(metered: Metered) -> None:
    work(metered)
    metered.clock.advance(3600)
    assert metered.used().seconds == 60
    assert metered.used().compute_credits == pytest.approx(1 / 60)


def test_statements_in_less_than_a_minute_from_each_other_keep_it_awake(metered: Metered) -> None:
    for _ in range(120):  # a heartbeat every 30 seconds
        work(metered)
        metered.clock.advance(30)
    assert metered.used().seconds == pytest.approx(3600)
    assert metered.used().resumes == 1
    assert metered.used().compute_credits == pytest.approx(1)


def test_statements_further_apart_wake_it_again(metered: Metered) -> None:
    for _ in range(12):
        work(metered)
        metered.clock.advance(300)
    assert metered.used().seconds == 12 * 60
    assert metered.used().resumes == 12


def test_it_sleeps_a_minute_after_the_end_of_a_statement_not_after_its_beginning(metered: Metered) -> None:
    running, done = threading.Event(), threading.Event()

    def slow() -> None:
        with metered.snowflake.session("OTHER", "ACCOUNTADMIN") as session:
            session.warehouse = "WH"
            session.enter("D", "PUBLIC")
            running.set()
            metered.snowflake.run(session, "UPDATE U SET B = 'y' WHERE A = 0")
        done.set()

    metered.run("BEGIN")
    work(metered)  # holds the lock that the other one waits for
    thread = threading.Thread(target=slow)
    thread.start()
    running.wait()
    while metered.rows("SHOW LOCKS")[-1][3] != "WAITING":
        pass
    metered.clock.advance(600)
    assert state(metered) == "STARTED"
    metered.run("COMMIT")
    done.wait()
    thread.join()
    metered.clock.advance(600)
    assert metered.used().seconds == 660


def test_state_follows_the_clock(metered: Metered) -> None:
    assert state(metered) == "SUSPENDED"
    work(metered)
    metered.clock.advance(59)
    assert state(metered) == "STARTED"
    metered.clock.advance(1)
    assert state(metered) == "SUSPENDED"


def test_suspending_by_hand_ends_the_bill_but_not_its_first_minute(metered: Metered) -> None:
    metered.run("ALTER WAREHOUSE WH RESUME")
    metered.clock.advance(10)
    metered.run("ALTER WAREHOUSE WH SUSPEND")
    assert metered.used().seconds == 60
    metered.run("ALTER WAREHOUSE WH RESUME")  # within that minute: another one begins
    metered.clock.advance(50)
    metered.run("ALTER WAREHOUSE WH SUSPEND")
    assert metered.used().seconds == 120
    with pytest.raises(Exception, match="cannot be suspended"):
        metered.run("ALTER WAREHOUSE WH SUSPEND")
    metered.run("ALTER WAREHOUSE WH RESUME", "ALTER WAREHOUSE WH RESUME IF SUSPENDED")
    with pytest.raises(Exception, match="cannot be resumed"):
        metered.run("ALTER WAREHOUSE WH RESUME")


@pytest.mark.parametrize(
    ("size", "credits"), [("XSMALL", 1), ("'X-Small'", 1), ("SMALL", 2), ("MEDIUM", 4), ("'4X-Large'", 128)]
)
def test_credits_follow_the_size(metered: Metered, size: str, credits: float) -> None:
    metered.run(f"CREATE OR REPLACE WAREHOUSE OTHER WAREHOUSE_SIZE = {size} AUTO_SUSPEND = 300", "USE WAREHOUSE OTHER")
    metered.clock.advance(3600)
    metered.mark()
    work(metered)
    metered.clock.advance(3600)
    assert metered.used().seconds == 300
    assert metered.used().compute_credits == pytest.approx(credits * 300 / 3600)


def test_a_new_warehouse_runs_and_without_auto_suspend_for_ever(metered: Metered) -> None:
    metered.run("CREATE OR REPLACE WAREHOUSE OTHER AUTO_SUSPEND = 0")
    metered.clock.advance(36_000)
    assert state(metered, "OTHER") == "STARTED"
    assert metered.used().seconds == 36_000
    metered.run("DROP WAREHOUSE OTHER")
    metered.clock.advance(36_000)
    assert metered.used().seconds == 36_000


def test_without_auto_resume_a_statement_is_refused(metered: Metered) -> None:
    metered.run("CREATE OR REPLACE WAREHOUSE OTHER AUTO_RESUME = FALSE INITIALLY_SUSPENDED = TRUE")
    metered.run("USE WAREHOUSE OTHER")
    with pytest.raises(Exception, match="AUTO_RESUME"):
        work(metered)
    metered.run("ALTER WAREHOUSE OTHER RESUME")
    work(metered)


def test_it_names_the_statements_that_woke_a_warehouse_with_their_tags(metered: Metered) -> None:
    since = metered.clock.now
    metered.run("ALTER SESSION SET QUERY_TAG = 'firn sink orders'")
    work(metered)
    work(metered)
    woke = metered.snowflake.meter.resumed_by(since=since)
    assert [(query.tag, query.warehouse, query.text) for query in woke] == [
        ("firn sink orders", "WH", "UPDATE U SET B = 'x' WHERE A = 0")
    ]


def test_cloud_services_are_billed_above_a_tenth_of_the_compute(metered: Metered) -> None:
    for _ in range(100):
        metered.run("SHOW TABLES")
    assert metered.used().statements == 100
    assert metered.used().compute_credits == 0
    assert metered.used().billed_credits == pytest.approx(100 * CLOUD_SERVICES_CREDITS)
    assert Usage(compute_credits=1.0, cloud_services_credits=0.1).billed_credits == 1.0
    assert Usage(compute_credits=1.0, cloud_services_credits=0.15).billed_credits == pytest.approx(1.05)
