"""The text of a pipe gives its target, its columns and its SELECT, whatever stands in quotes and comments."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.sink.tables.pipe_definition import Definition, UnreadableError, read_definition

SOURCE = "TABLE(DATA_SOURCE(TYPE => 'STREAMING'))"


def select_of(text: str, source: str = "L") -> str:
    found = read_definition(text)
    assert found is not None
    assert found.select is not None
    return found.select.format(source=source)


def test_target_columns_and_select() -> None:
    text = f'COPY INTO VISITS (id, "Who", at)\nFROM (\n  SELECT $1:id, $1:who, $1:at\n  FROM {SOURCE}\n)'
    assert read_definition(text) == Definition(
        ("VISITS",), ("ID", "Who", "AT"), "SELECT $1:id, $1:who, $1:at\n  FROM {source}"
    )


@pytest.mark.parametrize(
    ("written", "table"),
    [
        ("visits", ("VISITS",)),
        ("db.raw.Visits", ("DB", "RAW", "VISITS")),
        ('"d b" . "s""x".visits', ("d b", 's"x', "VISITS")),
        ("raw.v$1", ("RAW", "V$1")),
    ],
)
def test_names_are_as_snowflake_keeps_them(written: str, table: tuple[str, ...]) -> None:
    found = read_definition(
        f"copy into {written}(a) from (select $1 from {SOURCE.lower()})".replace("'streaming'", "'STREAMING'")
    )
    assert found is not None
    assert found.table == table


@pytest.mark.parametrize("alias", ["s", "AS s", '"s"'])
@pytest.mark.parametrize("between", ["", " ", "\n"])
def test_an_alias_stays_one(alias: str, between: str) -> None:
    text = f"COPY INTO T FROM (SELECT s.$1:a FROM {SOURCE}{between}{alias} WHERE s.$1:a > 0)"
    assert re.fullmatch(rf"SELECT s.\$1:a FROM L\s{alias} WHERE s.\$1:a > 0", select_of(text))


def test_the_source_may_stand_in_a_derived_table_beside_joins() -> None:
    inner = "SELECT f.value AS i FROM {} s, LATERAL FLATTEN(input => s.$1:items) f"
    select = f"SELECT x.i, d.n FROM ({inner}) x LEFT JOIN d ON d.k = x.i"
    assert select_of(f"COPY INTO T FROM ({select.format(SOURCE)})") == select.format("L")


def test_options_behind_and_comments_anywhere_do_no_harm() -> None:
    text = f"""-- made by hand
    COPY /* into */ INTO T // the table
    FROM ( -- SELECT 1)
      SELECT $1:a -- ) and {SOURCE}
      FROM TABLE ( DATA_SOURCE(TYPE=>'streaming') ) /* ( */
    )
    ON_ERROR = CONTINUE MATCH_BY_COLUMN_NAME = NONE CLUSTER_AT_INGEST_TIME = TRUE;"""
    assert " ".join(select_of(text).split()) == f"SELECT $1:a -- ) and {SOURCE} FROM L"


@pytest.mark.parametrize(
    "text",
    [
        "COPY INTO T FROM @stage FILE_FORMAT = (TYPE = JSON)",
        "COPY INTO T FROM (SELECT $1 FROM @stage)",
        "COPY INTO T FROM (SELECT $1, 'TABLE(DATA_SOURCE(TYPE => ''STREAMING''))' FROM @stage)",
        f"COPY INTO T FROM (SELECT $1 FROM @stage) -- {SOURCE}",
        "COPY INTO T FROM (SELECT $1 FROM TABLE(DATA_SOURCE(TYPE => 'OTHER')))",
        "",
    ],
)
def test_other_pipes_are_none_of_ours(text: str) -> None:
    assert read_definition(text) is None


@pytest.mark.parametrize("mode", ["CASE_INSENSITIVE", "case_sensitive"])
def test_columns_matched_by_name_need_no_select(mode: str) -> None:
    assert read_definition(f"COPY INTO T FROM {SOURCE} MATCH_BY_COLUMN_NAME = {mode}") == Definition(("T",), (), None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"COPY INTO T FROM {SOURCE}", "neither a SELECT nor MATCH_BY_COLUMN_NAME"),
        (f"COPY INTO T FROM {SOURCE} MATCH_BY_COLUMN_NAME=NONE", "neither a SELECT nor MATCH_BY_COLUMN_NAME"),
        (f"COPY INTO T FROM (SELECT $1:a FROM {SOURCE}) MATCH_BY_COLUMN_NAME=CASE_SENSITIVE", "both a SELECT"),
        (f"COPY INTO T FROM (SELECT a.$1 FROM {SOURCE} a, {SOURCE} b)", "more than once"),
        (f"COPY INTO T FROM ({SOURCE})", "no SELECT"),
        (f"COPY INTO T FROM () {SOURCE}", "neither|no SELECT"),
        (f"INSERT INTO T SELECT $1 FROM {SOURCE}", "COPY is expected in its COPY, found INSERT"),
        (f"COPY INTO T (a, 'b') FROM (SELECT 1 FROM {SOURCE})", "a name is expected in its COPY, found 'b'"),
        (f"COPY INTO T (a b) FROM (SELECT 1 FROM {SOURCE})", r"\) is expected in its COPY, found b"),
        (f"COPY INTO T FROM (SELECT (1 FROM {SOURCE})", "parentheses do not match"),
    ],
)
def test_what_is_wrong_with_a_pipe_is_said(text: str, fault: str) -> None:
    with pytest.raises(UnreadableError, match=fault):
        read_definition(text)


ANY = st.text("ab'\"(){}\\$-/*? \né,", max_size=8)
PIECES = st.one_of(
    ANY.map(lambda text: "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"),
    ANY.map(lambda text: "$1['" + text.replace("\\", "\\\\").replace("'", "\\'") + "']"),
    ANY.map(lambda text: '$1:"' + text.replace('"', '""') + '"'),
    ANY.map(lambda text: "$$" + text.replace("$", "") + "$$"),
    ANY.map(lambda text: "/*" + text.replace("*", "") + "*/ 1"),
    ANY.map(lambda text: "--" + text.replace("\n", "") + "\n 1"),
    st.sampled_from(["$1:a.b::NUMBER", "(1 + (2))", "CONCAT('x', '(')", "{'k': $1:v}", "OBJECT_CONSTRUCT('{}', 1)"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=5), PIECES)
def test_nothing_but_the_source_is_changed(items: list[str], condition: str) -> None:
    select = f"SELECT {', '.join(items)} FROM <> WHERE {condition} = 1"
    text = f"COPY INTO T (A) FROM ( {select.replace('<>', SOURCE)} ) ON_ERROR = CONTINUE"
    assert select_of(text, "D.S.L") == select.replace("<>", "D.S.L")


@settings(max_examples=100, deadline=None)
@given(st.text("COPYINTSEL ()'\"$-/*;.,=>{}", max_size=30))
def test_no_text_breaks_it(noise: str) -> None:
    for text in (noise, f"COPY INTO T FROM (SELECT {noise} FROM {SOURCE})", f"{noise} {SOURCE} {noise}"):
        with suppress(UnreadableError):
            read_definition(text)


def test_the_type_of_a_source_is_a_text_and_no_name() -> None:
    assert read_definition('COPY INTO T FROM (SELECT $1 FROM TABLE(DATA_SOURCE(TYPE => "STREAMING")))') is None


def test_a_national_text_may_hold_any_mark() -> None:
    assert select_of(f"COPY INTO T FROM (SELECT $1:a || N'(' FROM {SOURCE})") == "SELECT $1:a || N'(' FROM L"
