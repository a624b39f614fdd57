"""Examples of a page, run as a reader would run them, and their output compared with the page's.

A block ```console has commands (`$ ` before each) and below each what it prints; a block whose fence names a file
(```json ships.json) is that file. What may differ from run to run stands in `PLACEHOLDERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACEHOLDERS = (
    (re.compile(r"^\d\d:\d\d:\d\d ", re.MULTILINE), "<time> "),
    (re.compile(r"\bin \d+\.\d s\b"), "in <seconds> s"),
    (re.compile(r"\(\d[\d,]* per second\)"), "(<rate> per second)"),
    (re.compile(r"\(epoch \d+\)"), "(epoch <n>)"),
    (re.compile(r'"SCHEMA_ID":\d+'), '"SCHEMA_ID":<id>'),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+\d\d:\d\d"), "<moment>"),
    (re.compile(r"[━─]+"), "─"),
    (re.compile(r" +"), " "),
)
"""What is compared as if it were the same: clock times, durations, epochs (a ledger that others use begins anywhere),
ids of the registry, and the widths of tables."""


@dataclass(frozen=True)
class File:
    """A file of the page, written to the working folder."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of the page and what it prints. `start`, `end`: where that stands in the page's text."""

    line: str
    output: str
    start: int
    end: int


def examples(page: str) -> Iterator[File | Command]:
    """Files and commands of a page, in their order."""
    for fence in _FENCE.finditer(page):
        language, name, text = fence.groups()
        if name:
            yield File(name, text)
        elif language == "console":
            yield from _commands(text, fence.start(3))


def _commands(text: str, offset: int) -> Iterator[Command]:
    for part in re.finditer(r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        line = part[1].replace("\n> ", "\n").rstrip("\n")
        yield Command(line, part[2], offset + part.start(2), offset + part.end(2))


def same(printed: str, shown: str) -> bool:
    """Whether two outputs differ in nothing but placeholders."""
    return _plain(printed) == _plain(shown)


def _plain(text: str) -> str:
    for pattern, placeholder in PLACEHOLDERS:
        text = pattern.sub(placeholder, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def run_page(page: str, folder: Path, run: Callable[[str], str]) -> str:
    """Write the files, run the commands; returns the page with what they print now in place of what differs."""
    pieces, done = [], 0
    for example in examples(page):
        if isinstance(example, File):
            (folder / example.name).write_text(example.text)
            continue
        printed = run(example.line)
        if not same(printed, example.output):
            pieces += [page[done : example.start], printed.rstrip() + "\n" if printed.strip() else ""]
            done = example.end
    return "".join([*pieces, page[done:]])
