"""The width of a table's columns, and what a table looks like on terminals of 80 and 120 columns and in a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flows.cli import console
from flows.cli.layout import column_widths

ADDRESS = "http://127.0.0.1:27655/work-pools/work-pool/firn"
SENTENCE = "The topic has 12 partitions, the configuration of the sink names 3 tasks, and each task reads 4 of them."


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The lines that `print_rows` prints for one row on a terminal of this width."""

    def lines(width: int, row: dict[str, str], *, folded: str = "") -> list[str]:
        screen = io.StringIO()
        monkeypatch.setattr(console, "stdout", Console(file=screen, width=width))
        console.print_rows([row], columns=list(row), folded=folded)
        return screen.getvalue().splitlines()

    return lines


@pytest.mark.parametrize("width", [80, 120])
def test_a_sentence_goes_on_below_word_by_word(printed: Callable[..., list[str]], width: int) -> None:
    lines = printed(width, {"name": "orders", "state": "failed", "detail": SENTENCE})
    assert max(map(len, lines)) <= width
    shown = " ".join(line.split("│")[3].strip() for line in lines[3:-1])
    assert shown == SENTENCE
    assert all("│ orders │ failed │" in line or "│        │        │" in line for line in lines[3:-1])


def test_names_end_in_an_ellipsis_before_an_address_is_cut(printed: Callable[..., list[str]]) -> None:
    row = {"server": "secrets-manager", "state": "running", "pid": "25136", "address": ADDRESS}
    line = printed(80, row)[3]
    assert ADDRESS in line
    assert "running │ 25136" in line
    assert "…" in line.split("│")[1]
    assert "…" not in "".join(printed(120, row))


def test_an_address_within_a_sentence_stays_whole(printed: Callable[..., list[str]]) -> None:
    address = "http://127.0.0.1:20113/apis/ccompat/v7"
    row = {"subject": "registry login", "found": f"{address} has 231 subjects", "next_step": SENTENCE}
    assert any(address in line for line in printed(80, row))


def test_a_pipe_gets_every_value_in_one_line(printed: Callable[..., list[str]]) -> None:
    assert len(printed(10_000, {"name": "a" * 200, "detail": SENTENCE * 3})) == 5


def test_data_without_words_is_shown_whole_where_it_is_asked_for(printed: Callable[..., list[str]]) -> None:
    lines = printed(80, {"what": "value", "content": "00ff" * 60}, folded="content")
    assert "".join(line.split("│")[2].strip() for line in lines[3:-1]) == "00ff" * 60


CELLS = st.text("ab ", max_size=60)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), max_size=4), st.integers(60, 130))
def test_a_table_fits_and_no_column_is_wider_than_it_needs(rows: list[tuple[str, ...]], width: int) -> None:
    widths = column_widths(["one", "two", "three", "four"], rows, width)
    assert sum(widths) + 3 * 4 + 1 <= width
    needs = [
        max(len(name), *(len(row[at]) for row in rows), 0) for at, name in enumerate(("one", "two", "three", "four"))
    ]
    assert all(width <= need for width, need in zip(widths, needs, strict=True))
    if sum(needs) + 3 * 4 + 1 <= width:
        assert widths == needs
