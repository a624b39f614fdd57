"""docs/reliability.md names tests as proof: each of them must exist, and the long ones be marked as such."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from firn.settings import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs" / "reliability.md").read_text()
TESTS = PROJECT_ROOT / "tests"
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


def file_of(name: str) -> Path:
    """A path from the project's root, or a file of the sink's tests."""
    return PROJECT_ROOT / name if "/" in name else TESTS / "spark_jobs" / "sink" / name


def functions_in(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


def is_full(file: Path, test: str) -> bool:
    """Whether the test, or all of its file, is marked so."""
    tree = ast.parse(file.read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    own = [mark for node in functions if node.name == test for mark in node.decorator_list]
    of_all = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return any(ast.unparse(mark) == "pytest.mark.full" for mark in own) or any(
        "pytest.mark.full" in ast.unparse(value) for value in of_all
    )


@pytest.mark.parametrize(("name", "test"), NAMED)
def test_a_named_test_exists(name: str, test: str) -> None:
    assert test in functions_in(file_of(name))


def test_long_tests_are_said_to_be_long() -> None:
    said = set(re.findall(r"`([\w/]+\.py)::(\w+)` \*\(full\)\*", PAGE))
    assert said == {(name, test) for name, test in NAMED if is_full(file_of(name), test)}


def test_every_row_of_the_table_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| fault |")]
    figures = PAGE[PAGE.index("### Figures of fifteen minutes") :]
    bare = [row for row in rows if "::test_" not in row and row not in figures]
    assert len(NAMED) > 40
    assert bare == []
