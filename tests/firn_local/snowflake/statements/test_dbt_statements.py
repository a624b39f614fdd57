"""Statements that dbt and its users write: clones, grants, tags, comments, constraints, catalogs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

TABLE = """
CREATE OR REPLACE TABLE A (ID INT NOT NULL, NAME VARCHAR(10) DEFAULT 'x' COMMENT 'who', V VARIANT, PRIMARY KEY (ID))
CLUSTER BY (ID) COMMENT = 'the a'
"""


@pytest.fixture
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        run(connection, TABLE)
        run(connection, "INSERT INTO A (ID, V) SELECT 1, PARSE_JSON('[1]')")
        yield connection


def described(c: Connection, table: str) -> list[tuple[object, ...]]:
    """(name, type, nullable, default, part of the primary key, comment) of each column."""
    return [(row[0], row[1], row[3], row[4], row[5], row[9]) for row in run(c, f"DESC TABLE {table}")]


def shown(c: Connection, kind: str, name: str) -> dict[str, object]:
    with c.cursor() as cursor:
        (row,) = cursor.execute(f"SHOW {kind} LIKE '{name}'").fetchall()
        return dict(zip((column.name for column in cursor.description), row, strict=True))


def test_a_clone_has_rows_columns_and_comments_of_its_source(c: Connection) -> None:
    run(c, "CREATE OR REPLACE TRANSIENT TABLE CLONED CLONE A")
    assert run(c, "SELECT * FROM CLONED") == [(1, "x", "[1]")]
    assert described(c, "CLONED") == described(c, "A")
    of = shown(c, "TABLES", "CLONED")
    assert (of["kind"], of["comment"], of["cluster_by"]) == ("TRANSIENT", "the a", "LINEAR(ID)")
    run(c, "INSERT INTO CLONED (ID) VALUES (2)")
    assert run(c, "SELECT COUNT(*) FROM A") == [(1,)]
    with pytest.raises(ProgrammingError, match="no Time Travel"):
        run(c, "CREATE TABLE OLD CLONE A AT (OFFSET => -60)")


def test_like_has_the_columns_and_no_rows(c: Connection) -> None:
    run(c, "CREATE OR REPLACE TEMPORARY TABLE EMPTY LIKE A")
    assert run(c, "SELECT COUNT(*) FROM EMPTY") == [(0,)]
    assert described(c, "EMPTY") == described(c, "A")
    with pytest.raises(ProgrammingError, match="non-nullable column"):
        run(c, "INSERT INTO EMPTY (ID) VALUES (NULL)")


def test_grants_survive_a_replacement_only_where_they_are_copied(c: Connection) -> None:
    def readers(table: str) -> set[object]:
        return {row[5] for row in run(c, f"SHOW GRANTS ON {table}") if row[1] == "SELECT"}

    run(c, "CREATE ROLE IF NOT EXISTS READER")
    run(c, "CREATE OR REPLACE VIEW STREAMING.PUBLIC.W AS SELECT ID FROM A")
    for name in ("STREAMING.PUBLIC.A", "STREAMING.PUBLIC.W"):
        run(c, f"GRANT SELECT ON {name} TO READER")
        assert readers(name) == {"READER"}
    run(c, "CREATE OR REPLACE TABLE CLONED CLONE A COPY GRANTS")
    assert readers("CLONED") == set()
    run(c, "GRANT SELECT ON CLONED TO ROLE READER")
    run(c, "CREATE OR REPLACE TRANSIENT TABLE CLONED CLONE A COPY GRANTS")
    assert readers("CLONED") == {"READER"}
    run(c, "CREATE OR REPLACE VIEW W COPY GRANTS AS SELECT 1 AS ID")
    assert readers("W") == {"READER"}
    run(c, "CREATE OR REPLACE TABLE CLONED CLONE A")
    run(c, "REVOKE SELECT ON STREAMING.PUBLIC.W FROM READER")
    assert readers("CLONED") == readers("W") == set()


def test_swapped_tables_take_their_rows_comments_and_grants_along(c: Connection) -> None:
    run(c, "CREATE OR REPLACE TABLE B (ID INT) COMMENT = 'the b'")
    run(c, "ALTER TABLE A SWAP WITH B")
    assert run(c, "SELECT * FROM A") == []
    assert run(c, "SELECT ID FROM B") == [(1,)]
    assert [shown(c, "TABLES", name)["comment"] for name in ("A", "B")] == ["the b", "the a"]
    assert described(c, "B")[1] == ("NAME", "VARCHAR(10)", "Y", "'x'", "N", "who")


def test_keys_are_shown_and_not_enforced(c: Connection) -> None:
    run(c, "INSERT INTO A (ID) VALUES (1)")
    run(c, "CREATE OR REPLACE TABLE K (ID INT PRIMARY KEY, U INT UNIQUE, R INT REFERENCES A (ID))")
    run(c, "INSERT INTO K VALUES (1, 1, 9), (1, 1, 8)")
    assert described(c, "K")[0] == ("ID", "NUMBER(38,0)", "N", None, "Y", None)
    run(c, "ALTER TABLE K DROP PRIMARY KEY")
    run(c, "ALTER TABLE K ADD CONSTRAINT KEYS PRIMARY KEY (U)")
    assert [row[4] for row in described(c, "K")] == ["N", "Y", "N"]


def test_not_null_is_enforced_where_a_query_makes_the_table(c: Connection) -> None:
    columns = "(ID NUMBER(38,0) NOT NULL, NAME VARCHAR, PRIMARY KEY (ID))"
    made = f"CREATE OR REPLACE TABLE N {columns} AS (SELECT {{}} AS ID, 'a' AS NAME)"
    run(c, made.format(1))
    with pytest.raises(ProgrammingError, match="non-nullable column: ID") as error:
        run(c, made.format("NULL::NUMBER"))
    assert error.value.errno == 100072
    assert run(c, "SELECT ID FROM N") == [(1,)]
    with pytest.raises(ProgrammingError, match="non-nullable column"):
        run(c, "INSERT INTO N VALUES (NULL, 'b')")


def test_tags_keep_their_values_with_their_object(c: Connection) -> None:
    run(c, "CREATE OR REPLACE TAG COST ALLOWED_VALUES 'low', 'high' COMMENT = 'what it costs'")
    run(c, "ALTER TABLE A SET TAG COST = 'low'")
    run(c, "ALTER TABLE A MODIFY COLUMN NAME SET TAG STREAMING.PUBLIC.COST = 'high'")
    run(c, "CREATE OR REPLACE TABLE CLONED CLONE A")
    value = "SELECT SYSTEM$GET_TAG('COST', '{}', '{}')"
    assert run(c, value.format("CLONED", "TABLE")) == [("low",)]
    assert run(c, value.format("CLONED.NAME", "COLUMN")) == [("high",)]
    with pytest.raises(ProgrammingError, match="not allowed"):
        run(c, "ALTER TABLE A SET TAG COST = 'none'")
    run(c, "ALTER TABLE A UNSET TAG COST")
    assert run(c, value.format("A", "TABLE")) == [(None,)]
    run(c, "CREATE OR REPLACE TABLE T (X INT WITH TAG (COST = 'low')) WITH TAG (COST = 'high')")
    assert run(c, value.format("T", "TABLE") + ", " + value.format("T.X", "COLUMN")[7:]) == [("high", "low")]
    assert shown(c, "TAGS", "COST")["allowed_values"] == '["low", "high"]'
    run(c, "DROP TAG COST")
    with pytest.raises(ProgrammingError, match=r"Tag 'STREAMING\.PUBLIC\.COST' does not exist"):
        run(c, "ALTER TABLE A SET TAG COST = 'low'")


def test_comments_on_columns_keep_their_types_and_views_have_comments_too(c: Connection) -> None:
    run(c, "COMMENT ON COLUMN A.NAME IS $$who's$$")
    assert described(c, "A")[1] == ("NAME", "VARCHAR(10)", "Y", "'x'", "N", "who's")
    run(
        c,
        'CREATE OR REPLACE VIEW W ("ID" COMMENT $$the id$$, "NAME" COMMENT $$$$) '
        "COMMENT = 'w' AS SELECT ID, NAME FROM A",
    )
    run(c, 'ALTER VIEW W ALTER "NAME" COMMENT $$a name$$')
    run(c, "ALTER VIEW W SET COMMENT = 'the w'")
    comments = "SELECT COLUMN_NAME, COMMENT FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'W' ORDER BY 1"
    assert run(c, comments) == [("ID", "the id"), ("NAME", "a name")]
    tables = (
        "SELECT TABLE_TYPE, COMMENT, TABLE_OWNER, IS_TRANSIENT FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_NAME = '{}'"
    )
    assert run(c, tables.format("W")) == [("VIEW", "the w", "ACCOUNTADMIN", "NO")]
    run(c, "CREATE OR REPLACE TRANSIENT TABLE T (X INT)")
    assert run(c, tables.format("T")) == [("BASE TABLE", None, "ACCOUNTADMIN", "YES")]


def test_columns_are_dropped_together_and_absent_tables_truncated(c: Connection) -> None:
    run(c, "ALTER TABLE A DROP COLUMN NAME, V")
    assert [row[0] for row in described(c, "A")] == ["ID"]
    run(c, "TRUNCATE TABLE IF EXISTS NOT_THERE")
    run(c, "TRUNCATE TABLE IF EXISTS A")
    assert run(c, "SELECT * FROM A") == []


def test_a_clone_of_a_schema_has_its_tables_and_views(c: Connection) -> None:
    run(c, 'CREATE OR REPLACE VIEW OF_A (NUMBERED, "Named") AS SELECT ID, NAME FROM A')
    run(c, "CREATE OR REPLACE VIEW OF_VIEW AS SELECT COUNT(*) AS ROWS_ FROM OF_A")
    run(c, "CREATE OR REPLACE SCHEMA COPIED CLONE PUBLIC")
    assert run(c, "SELECT ID, NAME, V FROM COPIED.A") == [(1, "x", "[1]")]
    assert described(c, "COPIED.A") == described(c, "PUBLIC.A")
    assert shown(c, "TABLES", "A")["comment"] == "the a"
    assert run(c, "SELECT * FROM COPIED.OF_VIEW") == [(1,)]
    assert run(c, 'SELECT NUMBERED, "Named" FROM COPIED.OF_A') == [(1, "x")]
    run(c, "INSERT INTO COPIED.A (ID) VALUES (2)")
    assert run(c, "SELECT COUNT(*) FROM PUBLIC.A") == [(1,)]
    run(c, "USE SCHEMA PUBLIC")
    with pytest.raises(ProgrammingError, match="already exists"):
        run(c, "CREATE SCHEMA COPIED CLONE PUBLIC")
    assert run(c, "CREATE SCHEMA IF NOT EXISTS COPIED CLONE PUBLIC")
    assert run(c, "SELECT COUNT(*) FROM COPIED.A") == [(2,)]
    with pytest.raises(ProgrammingError, match="does not exist"):
        run(c, "CREATE SCHEMA OTHER CLONE NOWHERE")
    run(c, "DROP SCHEMA COPIED")
