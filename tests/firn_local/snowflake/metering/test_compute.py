"""Which statements need a running warehouse: one table of statements."""

from __future__ import annotations

import pytest
from snowflake.connector.errors import ProgrammingError

from tests.firn_local.snowflake.metering.conftest import Metered

WAREHOUSE, METADATA, SERVICES = "WAREHOUSE", "METADATA", "CLOUD SERVICES"

STATEMENTS = [
    # Queries that retrieve rows, also through views, and of the catalog
    ("SELECT A FROM T", WAREHOUSE),
    ("SELECT A FROM V", WAREHOUSE),
    ("SELECT COUNT(*) FROM T WHERE A > 1", WAREHOUSE),
    ("SELECT COUNT(A) FROM T", WAREHOUSE),
    ("SELECT COUNT(*), 1 FROM T", WAREHOUSE),
    ("SELECT COUNT(*) FROM T, U", WAREHOUSE),
    ("SELECT COUNT(*) FROM T GROUP BY A", WAREHOUSE),
    ("SELECT MAX(A) FROM T", WAREHOUSE),
    ("SELECT 1 FROM T UNION ALL SELECT 2", WAREHOUSE),
    ("WITH C AS (SELECT A FROM T) SELECT * FROM C", WAREHOUSE),
    ("SELECT * FROM (VALUES (1)) AS X(A)", WAREHOUSE),
    ("SELECT (SELECT MAX(A) FROM T)", WAREHOUSE),
    ("SELECT TABLE_NAME FROM D.INFORMATION_SCHEMA.TABLES", WAREHOUSE),
    ("SELECT * FROM SNOWFLAKE.ACCOUNT_USAGE.QUERY_HISTORY", WAREHOUSE),
    ("SELECT * FROM TABLE(INFORMATION_SCHEMA.QUERY_HISTORY())", WAREHOUSE),
    # Metadata
    ("SELECT COUNT(*) FROM T", METADATA),
    ("SELECT COUNT(*) AS N FROM D.PUBLIC.T", METADATA),
    ("SELECT CURRENT_DATABASE()", SERVICES),
    ("SELECT CURRENT_TIMESTAMP(), 1 + 1", SERVICES),
    # Rows
    ("INSERT INTO U VALUES (1, 'x')", WAREHOUSE),
    ("INSERT INTO U SELECT * FROM T", WAREHOUSE),
    ("UPDATE U SET B = 'y' WHERE A = 99", WAREHOUSE),
    ("DELETE FROM U WHERE A = 99", WAREHOUSE),
    ("MERGE INTO U USING T ON U.A = T.A WHEN MATCHED THEN UPDATE SET B = T.B", WAREHOUSE),
    ("TRUNCATE TABLE U", WAREHOUSE),
    ("COPY INTO U FROM (SELECT $1:A, $1:B FROM @S/none/) FILE_FORMAT = (TYPE = PARQUET)", WAREHOUSE),
    ("CREATE OR REPLACE TABLE FILLED AS SELECT * FROM T", WAREHOUSE),
    # Objects
    ("CREATE OR REPLACE TABLE EMPTY (A INT)", SERVICES),
    ("ALTER TABLE EMPTY ADD COLUMN B VARCHAR", SERVICES),
    ("CREATE OR REPLACE VIEW W AS SELECT A FROM T", SERVICES),
    ("COMMENT ON TABLE EMPTY IS 'x'", SERVICES),
    ("DROP TABLE EMPTY", SERVICES),
    ("CREATE OR REPLACE PIPE P AS COPY INTO T FROM @S", SERVICES),
    ("CREATE ROLE IF NOT EXISTS R", SERVICES),
    ("GRANT USAGE ON DATABASE D TO ROLE R", SERVICES),
    ("ALTER WAREHOUSE WH SET AUTO_SUSPEND = 60", SERVICES),
    # Looking at objects, sessions and transactions, files
    ("SHOW TABLES", SERVICES),
    ("SHOW WAREHOUSES", SERVICES),
    ("SHOW PIPES", SERVICES),
    ("DESCRIBE TABLE T", SERVICES),
    ("USE SCHEMA D.PUBLIC", SERVICES),
    ("ALTER SESSION SET QUERY_TAG = ''", SERVICES),
    ("BEGIN", SERVICES),
    ("COMMIT", SERVICES),
    ("ROLLBACK", SERVICES),
    ("LIST @S", SERVICES),
    ("REMOVE @S", SERVICES),
]


@pytest.mark.parametrize(("statement", "answered_by"), STATEMENTS, ids=[each for each, _ in STATEMENTS])
def test_only_what_reads_or_changes_rows_wakes_the_warehouse(
    metered: Metered, statement: str, answered_by: str
) -> None:
    # Another text each time: no earlier result may answer it.
    metered.run(f"{statement} /* first of its text */")
    assert metered.last().compute == answered_by
    assert metered.last().resumed is (answered_by == WAREHOUSE)
    assert metered.used().resumes == (1 if answered_by == WAREHOUSE else 0)


def test_put_needs_no_warehouse(metered: Metered, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("put") / "a.csv"
    file.write_text("1\n")
    metered.run(f"PUT file://{file} @S")
    assert metered.last().compute == SERVICES
    assert metered.used().seconds == 0


def test_what_is_refused_before_it_runs_wakes_nothing(metered: Metered) -> None:
    for statement in ("SELECT FROM WHERE", "SHOW NOTHING AT ALL", "EXECUTE TASK X"):
        with pytest.raises(ProgrammingError):
            metered.run(statement)
        assert metered.last().error_code is not None
    assert metered.used().resumes == 0
