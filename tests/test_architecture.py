"""ARCHITECTURE.md draws every module of the sink and of firn, so that a reader finds each of them."""

from __future__ import annotations

import re

import pytest

from firn.settings import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "ARCHITECTURE.md").read_text()
ROOMS = {
    "spark_jobs/supervise": " spark_jobs/supervise/ ",
    "spark_jobs/sink": " spark_jobs/sink/ ",
    "firn": " firn/ ",
}


def modules(room: str) -> set[str]:
    """The names of a package's modules; a package inside it is one name, with a slash."""
    folder = PROJECT_ROOT / room
    files = {file.stem for file in folder.glob("*.py") if file.stem != "__init__"}
    return files | {f"{file.parent.name}/" for file in folder.glob("*/__init__.py")}


def drawn(room: str) -> set[str]:
    """The names in the left column of a room's box, which have dots between them."""
    lines = PAGE[PAGE.index(f"\n{ROOMS[room]}") + 1 :].splitlines()[1:]
    names: set[str] = set()
    for line in lines:
        if not line.startswith(" │ "):
            break
        row = re.match(r" │ (\w+/?(?: · \w+/?)*) ", line)
        names |= set(row[1].split(" · ")) if row else set()
    return names


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_is_drawn_and_every_drawn_one_exists(room: str) -> None:
    assert drawn(room) == modules(room)
