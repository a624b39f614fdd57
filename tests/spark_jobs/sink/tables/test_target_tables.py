"""Tables: the statements that make them, what is read of them, and what is said of columns that cannot take records."""

from __future__ import annotations

import pytest

from firn.connector.config import TableConfig
from firn.errors import ConfigError
from firn.snowflake.columns import Column, Columns, TableType, column_type
from firn.snowflake.connection import connect, execute, query
from firn.snowflake.identifiers import Namespace
from firn.snowflake.tables import TableShape, describe, table_exists
from spark_jobs.sink.tables.target_tables import COMMENT, VARIANT_COLUMNS, check_columns, create_statement
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, TableLoader, VariantLoader
from tests.support.sinks import login_of

NAMESPACE = Namespace("streaming", "public")
TYPED: Columns = (
    Column("RECORD_METADATA", column_type("VARIANT")),
    Column("ORDER", column_type("NUMBER(10,2)"), nullable=False),
    Column("mixed", column_type("VARCHAR")),
)
PLAIN = TableConfig()


def statement(tables: TableConfig = PLAIN, *, evolving: bool = False) -> str:
    return create_statement(NAMESPACE, "orders", TYPED, tables, evolving=evolving)


def test_a_plain_table_has_its_columns_under_their_exact_names_and_a_comment() -> None:
    assert statement() == (
        'CREATE TABLE IF NOT EXISTS STREAMING.PUBLIC.ORDERS ("RECORD_METADATA" VARIANT, "ORDER" NUMBER(10,2) NOT NULL, '
        "\"mixed\" VARCHAR(16777216))\nCOMMENT = 'Made by Firn from a Kafka topic'"
    )


def test_a_transient_clustered_evolving_table() -> None:
    tables = TableConfig(TableType.TRANSIENT, 'TO_DATE("ORDER"), "mixed"')
    lines = statement(tables, evolving=True).splitlines()
    assert lines[0].startswith("CREATE TRANSIENT TABLE IF NOT EXISTS STREAMING.PUBLIC.ORDERS (")
    assert lines[1:] == [
        'CLUSTER BY (TO_DATE("ORDER"), "mixed")',
        "ENABLE_SCHEMA_EVOLUTION = TRUE",
        "COMMENT = 'Made by Firn from a Kafka topic'",
    ]


def test_an_interactive_table_is_clustered_and_does_not_evolve() -> None:
    lines = statement(TableConfig(TableType.INTERACTIVE, "ORDER"), evolving=True).splitlines()
    assert lines[0].startswith("CREATE INTERACTIVE TABLE IF NOT EXISTS STREAMING.PUBLIC.ORDERS (")
    assert lines[1:] == ["CLUSTER BY (ORDER)", "COMMENT = 'Made by Firn from a Kafka topic'"]


def column(text: str, *, default: str | None = None, generated: bool = False) -> Column:
    """`NAME TYPE [NOT NULL]`."""
    name, kind, *more = text.split(" ", 2)
    return Column(name, column_type(kind), nullable=not more, default=default, generated=generated)


def columns_load(columns: Columns) -> ColumnsLoader:
    return ColumnsLoader(columns, exists=True, grow=False)


EXTRA = (
    column("NOTE VARCHAR"),
    column("LOADED_AT TIMESTAMP_LTZ NOT NULL", default="CURRENT_TIMESTAMP()"),
    column("ID NUMBER NOT NULL", generated=True),
)


@pytest.mark.parametrize(
    "load",
    [
        VariantLoader(),
        columns_load(()),
        PipeLoader(fields=False, table=("D", "S", "T"), targets=("NOTE",), select=""),
    ],
)
def test_more_columns_are_welcome_that_need_no_value(load: TableLoader) -> None:
    check_columns("T", (*VARIANT_COLUMNS, *EXTRA), load)


def refusal(columns: Columns, load: TableLoader) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        check_columns("DB.S.T", columns, load)
    return raised.value


def test_every_column_at_fault_is_named_with_its_type_and_the_statement_that_helps() -> None:
    columns = (column("RECORD_METADATA VARCHAR(100)"), Column("A b", column_type("BINARY(9)"), nullable=False))
    error = refusal(columns, VariantLoader())
    assert error.where == "DB.S.T"
    assert error.what.splitlines()[1:] == [
        "  RECORD_METADATA: has type VARCHAR(100), expected VARIANT",
        "  RECORD_CONTENT: is missing, expected VARIANT",
        "  A b: has type BINARY(9) and is NOT NULL, and the sink has no value for it, expected nullable or a default",
    ]
    assert error.next_step.endswith(
        "Run: ALTER TABLE DB.S.T RENAME COLUMN RECORD_METADATA TO RECORD_METADATA_OLD; "
        "ALTER TABLE DB.S.T ADD COLUMN RECORD_METADATA VARIANT; "
        "ALTER TABLE DB.S.T ADD COLUMN RECORD_CONTENT VARIANT; "
        'ALTER TABLE DB.S.T ALTER COLUMN "A b" DROP NOT NULL;'
    )


def test_typed_columns_need_metadata_and_no_required_column_of_a_type_that_nothing_fits() -> None:
    columns = (column("CITY VARCHAR NOT NULL"), column("PLACE GEOGRAPHY NOT NULL"), column("AREA GEOGRAPHY"))
    error = refusal(columns, columns_load(columns))
    assert [line.split(":")[0].strip() for line in error.what.splitlines()[1:]] == ["RECORD_METADATA", "PLACE"]
    assert "ADD COLUMN RECORD_METADATA VARIANT;" in error.next_step


def test_a_table_that_is_not_made_yet_has_no_fault() -> None:
    check_columns("T", (), ColumnsLoader((), exists=False, grow=True))


def test_a_pipe_may_name_only_columns_there_are_and_must_name_the_required_ones() -> None:
    columns = (column("A NUMBER NOT NULL"), column("B NUMBER NOT NULL"))
    check_columns("T", columns, PipeLoader(fields=True, table=("D", "S", "T"), targets=(), select=""))
    error = refusal(columns, PipeLoader(fields=True, table=("D", "S", "T"), targets=("A", "C"), select=""))
    assert [line.split(":")[0].strip() for line in error.what.splitlines()[1:]] == ["C", "B"]


@pytest.mark.stack
def test_a_table_is_described_as_it_is(stack) -> None:
    tables, namespace = TableConfig(TableType.TRANSIENT), Namespace("STREAMING", "PUBLIC")
    name, other = "H_described 100%", "H_described 1000"
    columns = (*TYPED, column("ID NUMBER NOT NULL"))
    with connect(login_of(stack.settings)) as connection:
        try:
            assert describe(connection, namespace, name) is None
            assert not table_exists(connection, namespace, name)
            execute(connection, create_statement(namespace, other, VARIANT_COLUMNS, TableConfig(), evolving=False))
            for _ in range(2):
                execute(connection, create_statement(namespace, name, columns, tables, evolving=True))
            assert describe(connection, namespace, name) == TableShape(columns, True, TableType.TRANSIENT, COMMENT)
            assert describe(connection, namespace, other) == TableShape(VARIANT_COLUMNS, comment=COMMENT)
            rows = query(connection, "SHOW TABLES LIKE 'H_described%' IN SCHEMA STREAMING.PUBLIC")
            assert {row["comment"] for row in rows} == {"Made by Firn from a Kafka topic"}
        finally:
            for each in (name, other):
                execute(connection, f"DROP TABLE IF EXISTS {namespace.qualified(each)}")


@pytest.mark.stack
def test_a_session_keeps_names_in_quotes_whatever_the_account_prefers(stack) -> None:
    with connect(login_of(stack.settings)) as connection:
        (row,) = query(connection, "SHOW PARAMETERS LIKE 'QUOTED_IDENTIFIERS_IGNORE_CASE'")
    assert row["value"] == "false"


@pytest.mark.stack
def test_defaults_and_numbered_columns_need_no_value(stack) -> None:
    namespace, name = Namespace("STREAMING", "PUBLIC"), "H_NUMBERED"
    made = (
        f"CREATE OR REPLACE TABLE {name} (ID NUMBER NOT NULL IDENTITY(1, 1), STATE VARCHAR NOT NULL DEFAULT 'new', "
        "N NUMBER NOT NULL)"
    )
    with connect(login_of(stack.settings)) as connection:
        try:
            execute(connection, made)
            shape = describe(connection, namespace, name)
        finally:
            execute(connection, f"DROP TABLE IF EXISTS {name}")
    assert shape is not None
    numbered, state, plain = shape.columns
    assert (numbered.generated, numbered.default, numbered.required) == (True, None, False)
    assert (state.generated, state.default, state.required) == (False, "'new'", False)
    assert plain.required


def test_a_table_without_metadata_is_fit_where_what_has_no_column_is_left_out() -> None:
    columns = (column("ID NUMBER"),)
    check_columns("T", columns, ColumnsLoader(columns, exists=True, grow=False, leave_out=True))
    with pytest.raises(ConfigError, match="RECORD_METADATA: is missing"):
        check_columns("T", columns, columns_load(columns))
