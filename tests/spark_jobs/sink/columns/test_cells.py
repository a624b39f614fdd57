"""The conversion table of docs/tables.md: every cell of it, by examples."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from firn.settings import PROJECT_ROOT
from firn.snowflake.columns import column_type
from spark_jobs.sink.columns.cells import Cells, to_cells

TYPES = {
    "NUMBER": ("NUMBER(38,0)", "NUMBER(20,2)"),
    "FLOAT": ("FLOAT",),
    "VARCHAR": ("VARCHAR(100)",),
    "BINARY": ("BINARY(100)",),
    "BOOLEAN": ("BOOLEAN",),
    "DATE": ("DATE",),
    "TIME": ("TIME(3)",),
    "TIMESTAMP_*": ("TIMESTAMP_NTZ(3)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_TZ(3)"),
    "VARIANT": ("VARIANT",),
    "OBJECT": ("OBJECT",),
    "ARRAY": ("ARRAY",),
    "other types": ("GEOGRAPHY", "VECTOR(FLOAT, 3)", "ARRAY(NUMBER)"),
}
MOMENTS = ("TIMESTAMP_NTZ(3)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_TZ(3)")


def moments(*texts: str) -> dict[str, str]:
    """The texts in the three kinds of timestamps."""
    return dict(zip(MOMENTS, texts, strict=True))


def of_utc(moment: str) -> dict[str, str]:
    """The texts of a moment in UTC."""
    return moments(moment, f"{moment}+00:00", f"{moment}+00:00")


# Source -> JSON text -> type -> canonical text. A type that is not there refuses the value. Every value is also tried
# with VARCHAR (here only where the text is not that of the string) and with VARIANT, which keeps it, and with ARRAY,
# which encloses it: see `expected`.
EXAMPLES: dict[str, dict[str, dict[str, str]]] = {
    "a boolean": {"true": {"BOOLEAN": "true"}, "false": {"BOOLEAN": "false"}},
    "an integer": {
        "1": {
            "NUMBER(38,0)": "1",
            "NUMBER(20,2)": "1",
            "FLOAT": "1",
            "BOOLEAN": "true",
            "DATE": "1970-01-01",
            "TIME(3)": "00:00:01.000",
            **of_utc("1970-01-01 00:00:01.000"),
        },
        "1760000000123": {
            "NUMBER(38,0)": "1760000000123",
            "NUMBER(20,2)": "1760000000123",
            "FLOAT": "1760000000123",
            "DATE": "2025-10-09",
            "TIME(3)": "08:53:20.123",
            **of_utc("2025-10-09 08:53:20.123"),
        },
    },
    "a number with a point or an exponent": {
        "1.0": {
            "NUMBER(38,0)": "1",
            "NUMBER(20,2)": "1.0",
            "FLOAT": "1.0",
            "BOOLEAN": "true",
            "DATE": "1970-01-01",
            "TIME(3)": "00:00:01.000",
            **of_utc("1970-01-01 00:00:01.000"),
        },
        "-12.5e0": {
            "NUMBER(20,2)": "-12.5",
            "FLOAT": "-12.5",
            "DATE": "1969-12-31",
            "TIME(3)": "23:59:47.500",
            **of_utc("1969-12-31 23:59:47.500"),
        },
    },
    "a string with a number": {
        '"0"': {
            "NUMBER(38,0)": "0",
            "NUMBER(20,2)": "0",
            "FLOAT": "0.0",
            "BOOLEAN": "false",
            "DATE": "1970-01-01",
            "TIME(3)": "00:00:00.000",
            **of_utc("1970-01-01 00:00:00.000"),
        },
        '"-0.5"': {
            "NUMBER(20,2)": "-0.5",
            "FLOAT": "-0.5",
            "DATE": "1969-12-31",
            "TIME(3)": "23:59:59.500",
            **of_utc("1969-12-31 23:59:59.500"),
        },
        '" 1234 "': {
            "NUMBER(38,0)": "1234",
            "NUMBER(20,2)": "1234",
            "FLOAT": "1234.0",
            "DATE": "1970-01-01",
            "TIME(3)": "00:20:34.000",
            **of_utc("1970-01-01 00:20:34.000"),
        },
        '"1234"': {
            "NUMBER(38,0)": "1234",
            "NUMBER(20,2)": "1234",
            "FLOAT": "1234.0",
            "BINARY(100)": "D76DF8",
            "DATE": "1970-01-01",
            "TIME(3)": "00:20:34.000",
            **of_utc("1970-01-01 00:20:34.000"),
        },
    },
    "a string `NaN`, `Infinity`, `-Infinity`": {
        '"NaN"': {"FLOAT": "NaN"},
        '"Infinity"': {"FLOAT": "inf", "BINARY(100)": "2277E29E2B72"},
        '"-Infinity"': {"FLOAT": "-inf"},
    },
    "a string with a boolean word": {
        '"true"': {"BOOLEAN": "true", "BINARY(100)": "B6BB9E"},
        '"Off"': {"BOOLEAN": "false"},
    },
    "a string with a date": {
        '"2025-10-10"': {"DATE": "2025-10-10", **of_utc("2025-10-10 00:00:00.000")},
        '"2024-02-29"': {"DATE": "2024-02-29", **of_utc("2024-02-29 00:00:00.000")},
    },
    "a string with a date and a time": {
        '"2025-10-10T00:00:00.000Z"': {"DATE": "2025-10-10", **of_utc("2025-10-10 00:00:00.000")},
        '"2025-10-10 09:14:59.1239"': {"DATE": "2025-10-10", **of_utc("2025-10-10 09:14:59.123")},
        '"2025-10-10T01:30+02:00"': {
            "DATE": "2025-10-10",
            **moments("2025-10-10 01:30:00.000", "2025-10-09 23:30:00.000+00:00", "2025-10-10 01:30:00.000+02:00"),
        },
    },
    "a string with a time of day": {
        '"12:34:56.789+0000"': {"TIME(3)": "12:34:56.789"},
        '"12:34:56.789Z"': {"TIME(3)": "12:34:56.789"},
        '"12:34"': {"TIME(3)": "12:34:00.000"},
        '"12:34:56.7899-05:30"': {"TIME(3)": "12:34:56.789"},
    },
    "a string of base64": {'"AAEC/v8="': {"BINARY(100)": "000102FEFF"}, '""': {"BINARY(100)": ""}},
    "a string with a JSON object": {r'"{\"a\": 1.50}"': {"VARCHAR(100)": '{"a": 1.50}', "OBJECT": '{"a":1.50}'}},
    "a string with a JSON array": {'"[1, 2]"': {"ARRAY": "[1,2]"}},
    "any other string": {
        '"plain text"': {},
        r'"a \"quoted\" é"': {"VARCHAR(100)": 'a "quoted" é'},
        '"{}}"': {},
        '"2025-02-30"': {},
        '"25:00:00"': {},
    },
    "an array": {
        "[]": {"VARCHAR(100)": "[]", "ARRAY": "[]"},
        '[1.50, "a b"]': {"VARCHAR(100)": '[1.50,"a b"]', "ARRAY": '[1.50, "a b"]'},
    },
    "an object": {'{"a":{"b":1e5}}': {"VARCHAR(100)": '{"a":{"b":1e5}}', "OBJECT": '{"a":{"b":1e5}}'}},
}
ABSENT = {"no such field": None, "`null`": "null"}


def expected(source: str, raw: str, name: str) -> str | None:
    """What the examples say; None for an error."""
    found = EXAMPLES[source][raw].get(name)
    if found is not None:
        return found
    if name == "VARCHAR(100)":
        return raw.strip('"') if raw.startswith('"') else raw
    return {"VARIANT": raw, "ARRAY": f"[{raw}]"}.get(name)


def table() -> dict[str, dict[str, str]]:
    """The page's words, by source and column type; with notes taken away."""
    page = (PROJECT_ROOT / "docs/tables.md").read_text()
    section = page[page.index("\n## Conversion table\n") :]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in re.sub(r"\[\^\w+\]", "", line).strip("|").split("|")] for line in lines]
    header = next(at for at, row in enumerate(rows) if row[0] == "the record has")
    names = rows[header][1:]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows[header + 1 : header + 18]}


TABLE = table()
CELLS = [(source, column) for source, row in TABLE.items() for column in row]


def convert(raw: str | None, name: str) -> Cells:
    """One value, in the midst of a column."""
    cells = to_cells(pa.array([None, raw, "null"], pa.string()), column_type(name))
    assert cells.texts[0].as_py() is cells.texts[2].as_py() is None
    return cells


def test_the_table_has_exactly_the_sources_and_types_of_the_examples() -> None:
    assert list(TABLE) == [*ABSENT, *EXAMPLES]
    assert all(list(row) == list(TYPES) for row in TABLE.values())


@pytest.mark.parametrize(("source", "column"), CELLS)
def test_each_cell_of_the_conversion_table_holds(source: str, column: str) -> None:
    outcomes = set()
    for name in TYPES[column]:
        for raw in [ABSENT[source]] if source in ABSENT else EXAMPLES[source]:
            cells = convert(raw, name)
            wanted = None if source in ABSENT else expected(source, raw or "", name)
            assert cells.texts[1].as_py() == wanted, (raw, name)
            outcomes.add("error" if cells.misfits else "NULL" if wanted is None else "value")
    assert outcomes == ({"value", "error"} if TABLE[source][column] == "depends" else {TABLE[source][column]})


def test_every_note_is_explained_and_every_explanation_used() -> None:
    page = (PROJECT_ROOT / "docs/tables.md").read_text()
    explained = re.findall(r"^\[\^(\w+)\]:", page, re.MULTILINE)
    assert set(explained) == set(re.findall(r"\[\^(\w+)\](?!:)", page))
    assert len(explained) == len(set(explained))
