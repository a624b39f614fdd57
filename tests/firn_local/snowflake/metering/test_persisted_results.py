"""When the persisted result of an earlier query answers the next one, and no warehouse wakes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.firn_local.snowflake.metering.conftest import Metered

DAY = 24 * 3600.0
REUSED = "PERSISTED RESULT"


def answered_by(metered: Metered, statement: str) -> str:
    metered.run(statement)
    return str(metered.last().compute)


@pytest.fixture
def query(metered: Metered) -> str:
    """A query that was answered, with a text of its own."""
    statement = f"SELECT A, B FROM T WHERE A < {int(metered.clock.now)}"
    metered.run(statement)
    metered.clock.advance(100)  # the warehouse is suspended again
    metered.mark()
    return statement


def test_the_same_text_on_the_same_data_keeps_the_warehouse_asleep(metered: Metered, query: str) -> None:
    for _ in range(100):
        assert answered_by(metered, query) == REUSED
        metered.clock.advance(30)
    assert metered.used().seconds == 0
    assert metered.used().compute_credits == 0


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO T VALUES (3, 'c')",
        "UPDATE T SET B = 'z' WHERE A = 1",
        "DELETE FROM T WHERE A = 3",
        "MERGE INTO T USING U ON U.A = T.A WHEN NOT MATCHED THEN INSERT VALUES (U.A, U.B)",
        "ALTER TABLE T ALTER COLUMN B COMMENT 'x'",
    ],
)
def test_a_committed_change_of_a_table_ends_its_results(metered: Metered, query: str, change: str) -> None:
    assert answered_by(metered, query) == REUSED
    metered.run(change)
    assert answered_by(metered, query) == "WAREHOUSE"
    assert answered_by(metered, query) == REUSED


def test_a_change_of_another_table_or_one_rolled_back_does_not(metered: Metered, query: str) -> None:
    metered.run("INSERT INTO U VALUES (1, 'x')", "BEGIN", "DELETE FROM T", "ROLLBACK")
    assert answered_by(metered, query) == REUSED


def test_a_transaction_sees_its_own_changes_and_leaves_no_result_of_them(metered: Metered, query: str) -> None:
    metered.run("BEGIN", "UPDATE T SET B = 'q' WHERE A = 1")
    assert answered_by(metered, query) == "WAREHOUSE"
    metered.run("ROLLBACK")
    assert answered_by(metered, query) == REUSED


@pytest.mark.parametrize(
    "differently",
    [
        lambda query: query.replace("SELECT", "select"),
        lambda query: query.replace("FROM T", "FROM T X"),
        lambda query: query + " ",
    ],
    ids=["case", "alias", "blank"],
)
def test_another_spelling_is_another_query(metered: Metered, query: str, differently: Callable[[str], str]) -> None:
    assert answered_by(metered, differently(query)) == "WAREHOUSE"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT A, CURRENT_TIMESTAMP() FROM T",
        "SELECT A FROM T WHERE CURRENT_DATE > '2020-01-01'",
        "SELECT A, SYSDATE() FROM T",
        "SELECT A, RANDOM() FROM T",
        "SELECT A, UUID_STRING() FROM T",
        "SELECT A, RANDSTR(5, RANDOM()) FROM T",
        "SELECT A FROM T WHERE B <> CURRENT_USER()",
        "SELECT A FROM T WHERE B <> CURRENT_ROLE()",
        "SELECT A FROM V",
        "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES",
        "SELECT * FROM TABLE(INFORMATION_SCHEMA.QUERY_HISTORY())",
    ],
)
def test_what_may_change_by_itself_is_never_reused(metered: Metered, statement: str) -> None:
    assert [answered_by(metered, statement) for _ in range(3)] == ["WAREHOUSE"] * 3


def test_another_bound_value_or_another_option_is_another_query(metered: Metered) -> None:
    run, statement = metered.snowflake.run, "SELECT B FROM T WHERE A = ?"
    for values, expected in (((1,), "WAREHOUSE"), ((1,), REUSED), ((2,), "WAREHOUSE"), ((2,), REUSED)):
        run(metered.session, statement, values)
        assert metered.last().compute == expected
    metered.run("ALTER SESSION SET TIMEZONE = 'Europe/London'")
    run(metered.session, statement, (1,))
    assert metered.last().compute == "WAREHOUSE"


def test_the_tag_of_a_query_is_no_part_of_it(metered: Metered, query: str) -> None:
    metered.run("ALTER SESSION SET QUERY_TAG = 'another'")
    assert answered_by(metered, query) == REUSED


def test_a_session_may_decline(metered: Metered, query: str) -> None:
    metered.run("ALTER SESSION SET USE_CACHED_RESULT = FALSE")
    assert answered_by(metered, query) == "WAREHOUSE"


def test_a_result_is_kept_for_a_day_from_its_last_use(metered: Metered, query: str) -> None:
    metered.clock.advance(DAY - 101)
    assert answered_by(metered, query) == REUSED
    metered.clock.advance(DAY - 1)
    assert answered_by(metered, query) == REUSED
    metered.clock.advance(DAY)
    assert answered_by(metered, query) == "WAREHOUSE"


def test_and_for_31_days_at_most(metered: Metered, query: str) -> None:
    days = 0
    while answered_by(metered, query) == REUSED:
        metered.clock.advance(DAY / 2)
        days += 1
    assert days / 2 == 31


def test_another_role_reuses_it_only_with_its_privileges(metered: Metered, query: str) -> None:
    metered.run("CREATE ROLE READER", "CREATE USER READER DEFAULT_ROLE = READER", "GRANT ROLE READER TO USER READER")
    metered.run("GRANT USAGE ON DATABASE D TO ROLE READER", "GRANT USAGE ON SCHEMA D.PUBLIC TO ROLE READER")
    metered.run("GRANT USAGE ON WAREHOUSE WH TO ROLE READER")
    with metered.snowflake.session("READER", "READER") as reader:
        reader.warehouse = "WH"
        reader.enter("D", "PUBLIC")
        with pytest.raises(Exception, match="not authorized"):
            metered.snowflake.run(reader, query)
        metered.run("GRANT SELECT ON TABLE D.PUBLIC.T TO ROLE READER")
        metered.snowflake.run(reader, query)
    assert metered.last().compute == REUSED
