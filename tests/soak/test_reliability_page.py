"""docs/reliability.md names tests as proof: each must exist, and those that only `make test-full` runs be marked."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from firn.settings import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`(test_\w+)`", PAGE)))


@cache
def full_by_name() -> dict[str, bool]:
    """Every test function by name, and whether it, or all of its file, is marked `full`."""
    found: dict[str, bool] = {}
    for file in (PROJECT_ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(file.read_text())
        of_all = any(
            "pytest.mark.full" in ast.unparse(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                full = of_all or any(ast.unparse(mark) == "pytest.mark.full" for mark in node.decorator_list)
                found[node.name] = full and found.get(node.name, True)
    return found


@pytest.mark.parametrize("test", NAMED)
def test_a_named_test_exists(test: str) -> None:
    assert test in full_by_name()


def test_long_tests_are_said_to_be_long() -> None:
    said = set(re.findall(r"`(test_\w+)` \*\(full\)\*", PAGE))
    assert said == {test for test in NAMED if full_by_name().get(test)}


def test_every_row_of_the_table_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| fault |")]
    results = PAGE[PAGE.index("### Results of fifteen minutes") :]
    bare = [row for row in rows if "`test_" not in row and row not in results]
    assert len(NAMED) > 40
    assert bare == []
