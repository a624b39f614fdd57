"""The output of commands: results on stdout (a table, or JSON lines with --json), everything else on stderr."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TextIO

import orjson
import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from firn.errors import TerminalError
from firn.settings import Settings
from flows.cli.layout import column_widths

# A table may be wider than a pipe's assumed 80 columns: never cut values that somebody reads from a file.
stdout = Console(width=None if sys.stdout.isatty() else 10_000)
stderr = Console(stderr=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print rows as JSON lines instead of a table.")]


class _ForPeople(logging.Filter):
    """Passes log records of this project, and warnings; drops Prefect's messages about itself.

    Prefect's engine also logs the stack trace of an error that the command is about to explain.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if "/prefect/" not in record.pathname:
            return True
        return record.levelno >= logging.WARNING and not record.module.endswith("engine")


def log_handler(*, debug: bool) -> logging.StreamHandler[TextIO]:
    """Writes log records to stderr as short lines; without `debug` only those that a person needs."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    if not debug:
        handler.addFilter(_ForPeople())
    return handler


def configure_console(settings: Settings, *, debug: bool) -> None:
    """Show logs on stderr as short lines and point Prefect at the settings' server.

    Must run before Prefect is imported: it leaves a root logger alone that already has a handler with a format.
    """
    logging.basicConfig(level=logging.INFO if debug else logging.WARNING, handlers=[log_handler(debug=debug)])
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    if settings.prefect_api_url:
        os.environ.setdefault("PREFECT_API_URL", settings.prefect_api_url)


def say(message: str) -> None:
    """Print progress or a remark for a person, on stderr."""
    stderr.print(message, markup=False, highlight=False, soft_wrap=True)


def has_terminal() -> bool:
    """Whether a person can answer a question."""
    return sys.stdin.isatty()


def require_terminal(command: str, next_step: str) -> None:
    """Raise TerminalError if there is no terminal to confirm on."""
    if not has_terminal():
        raise TerminalError(
            "Nothing was changed: there is no terminal to confirm on.", where=command, next_step=next_step
        )


def confirm(question: str) -> bool:
    """Ask before something is changed; False after a no. Ctrl-C and the end of input end the command: exit code 130."""
    return _answered(lambda: typer.confirm(question, err=True))


def confirm_name(question: str, name: str) -> bool:
    """Ask for a name before something is changed that cannot be undone; any other answer is a no."""
    return _answered(lambda: typer.prompt(question, err=True) == name)


def _answered(ask: Callable[[], bool]) -> bool:
    try:
        yes = ask()
    except typer.Abort:
        say("\nNothing was changed.")
        raise typer.Exit(130) from None
    if not yes:
        say("Nothing was changed.")
    return yes


def print_rows(
    rows: Iterable[Mapping[str, Any]],
    *,
    columns: Sequence[str],
    title: str = "",
    as_json: bool = False,
    folded: str = "",
) -> None:
    """Print rows (column name -> value) as one table, or as JSON lines; an empty result still shows its columns.

    On a terminal a long text goes on below, word by word, and a word that is too long ends in an ellipsis. folded: a
    column of data without words, all of which is shown.
    """
    if as_json:
        for row in rows:
            sys.stdout.buffer.write(orjson.dumps(dict(row), default=str, option=orjson.OPT_APPEND_NEWLINE))
        sys.stdout.buffer.flush()
        return
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    table = Table(title=title or None, title_justify="left")
    for column, width in zip(columns, column_widths(columns, cells, stdout.width), strict=True):
        table.add_column(column, overflow="fold" if column == folded else "ellipsis", width=width)
    for row_cells in cells:
        # As Text: values are data, and may hold what Rich takes for markup.
        table.add_row(*(Text(cell) for cell in row_cells))
    stdout.print(table)


def print_entries(title: str, entries: Iterable[tuple[str, str]]) -> None:
    """Print a heading and entries below it: each its first line whole, and its text indented, word by word."""
    print_lines(title, ())
    for head, text in entries:
        print_lines("", [head])
        stdout.print(Padding(Text(text), (0, 0, 0, 6), expand=False))


def print_lines(title: str, lines: Iterable[str]) -> None:
    """Print a heading and whole lines below it, which the terminal breaks."""
    if title:
        stdout.print(title, style="bold", markup=False, highlight=False)
    for line in lines:
        stdout.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return orjson.dumps(value, default=str).decode()
    return value if isinstance(value, str) else str(value)
