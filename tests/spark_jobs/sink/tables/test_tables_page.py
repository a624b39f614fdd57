"""The worked examples of docs/tables.md, run on the stack: commands, connector files and output are those of the page.

Names on the page have `harbor` in them; each run puts another word in its place, so that topics, tables and sinks are
its own. Sinks run in the tests' Spark session, without Prefect around them. `WRITE_PAGES=1 pytest <this file>`
writes what the commands print now into the page.
"""

from __future__ import annotations

import io
import os
import random
import shlex
import string
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from firn.settings import PROJECT_ROOT, load_settings
from flows import cli
from tests.support.pages import run_page

pytestmark = [pytest.mark.stack, pytest.mark.full]
PAGE = PROJECT_ROOT / "docs/tables.md"
WORD = "harbor"


class Shell:
    """Runs the lines of a page in `folder`. Commands that need no Prefect run in this process: they start at once."""

    def __init__(self, stack, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._env, self._folder, self._monkeypatch = stack.env, folder, monkeypatch

    def __call__(self, line: str) -> str:
        """What the line prints on both streams. A filter gets standard output alone, and what it prints comes first."""
        command, _, filter_ = line.partition(" | ")
        words = [word.replace("\\$", "$") for word in shlex.split(command)]  # a shell takes this backslash away, too
        run = self._here if words[0] == "firn" and words[1] != "produce" else self._outside
        out, err = run(words, merged=not filter_)
        if filter_:
            out = subprocess.run(["sh", "-c", filter_], input=out, capture_output=True, text=True).stdout
        return out + err

    def _here(self, words: list[str], *, merged: bool) -> tuple[str, str]:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        self._monkeypatch.setattr(sys, "argv", words)
        with redirect_stdout(out), redirect_stderr(out if merged else err), pytest.raises(SystemExit):
            cli.main()
        return read(out), read(err)

    def _outside(self, words: list[str], *, merged: bool) -> tuple[str, str]:
        done = subprocess.run(
            [Path(sys.executable).with_name(words[0]), *words[1:]],
            cwd=self._folder,
            env=self._env | {"PYTHONPATH": str(PROJECT_ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            text=True,
            timeout=120,
        )
        return done.stdout, done.stderr or ""


def read(stream: io.TextIOWrapper) -> str:
    """All that was written to it."""
    stream.seek(0)
    return stream.read()


@pytest.fixture
def shell(stack, sinks_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIRN_HOME", str(stack.home))
    load_settings.cache_clear()
    return Shell(stack, tmp_path, monkeypatch)


def test_the_examples_print_what_the_page_says(shell: Callable[[str], str], tmp_path: Path) -> None:
    word = "h" + "".join(random.choices(string.ascii_lowercase, k=len(WORD) - 1))
    page = PAGE.read_text()
    now = with_word(run_page(with_word(page, WORD, word), tmp_path, shell), word, WORD)
    if os.environ.get("WRITE_PAGES"):
        PAGE.write_text(now)
    assert now == page


def with_word(text: str, old: str, new: str) -> str:
    """`text` with one word in place of another, in small and in large letters."""
    return text.replace(old, new).replace(old.upper(), new.upper())
