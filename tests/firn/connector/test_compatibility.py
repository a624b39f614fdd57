"""docs/compatibility.md names every parameter with its effect, every difference that tests know, and every reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firn.connector.formats import CLASSES
from firn.connector.parameters import PARAMETERS
from spark_jobs.sink.values import bad_records
from tests.firn.connector import test_official_vectors as configurations
from tests.firn.snowflake import test_identifiers as identifiers
from tests.spark_jobs.sink import test_official_connector as rows
from tests.spark_jobs.sink.decode.connect import test_connect as connect
from tests.spark_jobs.sink.decode.json import test_plain as json_plain

PAGE = Path("docs/compatibility.md").read_text(encoding="utf-8")
_CELL = re.compile(r"(?<!\\)\|")


def section(title: str) -> str:
    """The text under a heading of the second level."""
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def table(text: str) -> list[list[str]]:
    """The rows of all tables in a text, cell by cell, without headings."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in _CELL.split(line)[1:-1]] for line in lines]


EFFECTS = {row[0].strip("`"): row[-1] for row in table(section("Parameter by parameter"))}


def known() -> set[str]:
    """All parameters; an option of the key's converter stands with the value's."""
    return {re.sub(r"^key\.converter\.", "value.converter.", name) for name in PARAMETERS}


def test_every_parameter_is_on_the_page_once_and_no_unknown_one() -> None:
    rows_of_page = [row[0].strip("`") for row in table(section("Parameter by parameter"))]
    assert len(rows_of_page) == len(EFFECTS)
    assert EFFECTS.keys() == known()
    assert "as `key.converter.<option>`" in PAGE


@pytest.mark.parametrize("name", EFFECTS)
def test_the_effect_is_the_one_of_the_definition(name: str) -> None:
    assert EFFECTS[name].startswith(f"{PARAMETERS[name].effect}. ")


def test_key_and_value_options_have_the_same_effects() -> None:
    for name, parameter in PARAMETERS.items():
        twin = PARAMETERS.get(re.sub(r"^key\.converter\.", "value.converter.", name), parameter)
        assert twin.effect is parameter.effect


def test_every_converter_is_on_the_page() -> None:
    converters = section("Converter by converter")
    assert [name for name in CLASSES if f"`{name.rpartition('.')[2]}`" not in converters] == []


def test_every_reason_of_a_bad_record_is_on_the_page_and_no_other() -> None:
    reasons = {value for name, value in vars(bad_records).items() if name.isupper() and isinstance(value, str)}
    of_page = {row[0].strip("`") for row in table(section("What is refused that was dropped or kept silently"))}
    assert {each for each in of_page if re.fullmatch(r"[a-z_0-9]+", each)} == reasons


def names(found: set[str]) -> str:
    """Parameters as a cell shows them."""
    return ", ".join(f"`{each}`" for each in sorted(found)) or "none"


def known_differences() -> set[tuple[str, ...]]:
    """The first three cells of the differences in rows and in checks of configurations."""
    json = [name.partition(" ") for name in json_plain.DIFFERENCES]
    return {
        *((f"`{vector}`", f"`{converter}`", f"`{what}`") for vector, converter, what in rows.DIFFERENCES),
        *((f"`{vector}`", f"`{converter}`", "RECORD_CONTENT") for converter, _, vector in json),
        *((f"`{vector}`", "`*`", "RECORD_CONTENT") for vector in connect.DIFFERENCES),
        *((f"`{case}`", names(gone), names(new)) for case, (gone, new, _) in configurations.DIFFERENCES.items()),
    }


def test_every_difference_that_the_tests_know_is_on_the_page_and_no_other() -> None:
    text = section("Every difference that the vectors show")
    listed = table(text)
    assert {tuple(row[:3]) for row in listed if len(row) == 4} == known_differences()
    assert {row[0].strip("`") for row in listed if len(row) == 2} == identifiers.DIFFERENCES.keys()
    assert all(f"`{name}`" in text for name in configurations.DEFAULT_DIFFERENCES)


def test_links_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in re.findall("^#+ (.+)$", PAGE, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        assert (Path("docs") / path).exists() if path else anchor in anchors
