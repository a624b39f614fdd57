"""Any value comes out of the payload as it went in, and any position is compared as its columns are."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.export.config import SourceConfig, SourceKind
from firn.exports.columns import SourceColumn
from firn.exports.ledger import SourceState
from firn.exports.moves.cursor import cursor_changes
from firn.exports.source import Source
from firn.snowflake.connection import execute

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)
ROWS = st.lists(
    st.tuples(
        st.decimals(-(10**27), 10**27, places=10, allow_nan=False),
        TEXTS,
        st.binary(max_size=12),
        st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)),
        st.integers(-(10**15) + 1, 10**15 - 1),
    ),
    min_size=1,
    max_size=15,
)
VALUES = SourceConfig("v", SourceKind.STREAM, ("ANY_VALUES_CHANGES",))


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_any_value_arrives_exactly(connection, schema, new_export, rows) -> None:
    execute(
        connection,
        "CREATE OR REPLACE TABLE ANY_VALUES (I NUMBER(5, 0), N NUMBER(38, 10), T VARCHAR, B BINARY, "
        "TS TIMESTAMP_NTZ(9), W NUMBER(15, 0))",
    )
    execute(connection, "CREATE OR REPLACE STREAM ANY_VALUES_CHANGES ON TABLE ANY_VALUES")
    export = new_export(VALUES)
    sql = (
        "INSERT INTO ANY_VALUES SELECT COLUMN1, COLUMN2, COLUMN3, TO_BINARY(COLUMN4, 'HEX'), COLUMN5, COLUMN6 "
        f"FROM VALUES {', '.join(['(?, ?, ?, ?, ?, ?)'] * len(rows))}"
    )
    values = [
        each
        for number, (decimal, text, data, moment, whole) in enumerate(rows)
        for each in (number, str(decimal), text, data.hex(), moment.isoformat(sep=" "), whole)
    ]
    execute(connection, sql, values)
    found = sorted((payload for _, _, payload in export.changes()), key=lambda payload: payload["I"])
    for (decimal, text, data, moment, whole), payload in zip(rows, found, strict=True):
        assert Decimal(payload["N"]) == decimal
        assert payload["T"] == text
        assert bytes.fromhex(payload["B"]) == data
        assert payload["TS"] == f"{moment:%H:%M:%S}".join((f"{moment.date().isoformat()}T", f".{moment:%f}000"))
        assert payload["W"] == whole


WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=3)


@given(rows=st.lists(st.tuples(WORDS, WORDS), max_size=8), position=st.tuples(WORDS, WORDS))
def test_rows_since_a_position_are_those_that_are_not_below_it(rows, position) -> None:
    columns = (SourceColumn("A", "VARCHAR(10)"), SourceColumn("B", "VARCHAR(10)"))
    source = Source(
        name="s",
        export="e",
        config=SourceConfig("s", SourceKind.CURSOR, ("T",), cursor_columns=("A", "B")),
        relation="T",
        base=("D", "P", "T"),
        stream=None,
        asked=(),
        columns=columns,
        all_columns=columns,
        key_names=(),
        outbox="O",
        state="ST",
        topic="t",
    )
    sql = cursor_changes(source, SourceState(cursor=position)).sql
    since = sql[sql.rindex("FROM T S\nWHERE ") + len("FROM T S\nWHERE ") : sql.index(") FIRN$ROWS")]
    with duckdb.connect() as session:
        session.execute("CREATE TABLE T (A VARCHAR, B VARCHAR)")
        for row in rows:
            session.execute("INSERT INTO T VALUES (?, ?)", list(row))
        since = since.replace("\\\\", "\\")  # DuckDB takes a backslash as it is
        found = session.execute(f"SELECT A, B FROM T S WHERE {since}").fetchall()
    assert sorted(found) == sorted(row for row in rows if row >= position)
