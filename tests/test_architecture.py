"""The house: ARCHITECTURE.md draws every room (package) and only rooms that exist, and no import runs in a circle."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

from firn.settings import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "ARCHITECTURE.md").read_text()
HOUSE = ("flows", "spark_jobs", "firn", "firn_local")


def rooms() -> set[str]:
    """The names of all packages, with a slash."""
    return {f"{file.parent.name}/" for package in HOUSE for file in (PROJECT_ROOT / package).glob("**/__init__.py")}


def drawn() -> set[str]:
    """The names in the drawing that begin a line or stand beside one another, up to the line of folders beside."""
    drawing = PAGE[PAGE.index("## Rooms") : PAGE.index(" connectors/")]
    lines = (re.match(r"[ │]*((?:\w+/ +)+)", line) for line in drawing.splitlines())
    return {name for line in lines if line for name in line[1].split()}


def test_every_room_is_drawn_and_every_drawn_one_exists() -> None:
    assert drawn() == rooms()


def test_no_import_runs_in_a_circle() -> None:
    """Imports for types alone count too: whoever reads one module of a circle has to read all of them."""
    graph = grimp.build_graph(*HOUSE, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " <- ".join(error.args[1]))
