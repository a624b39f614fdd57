"""The log of a job's driver on the terminal: its newest lines, and what is written from there on."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from firn.errors import ConfigError
from flows.cli.console import say

FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")]
LinesOption = Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of the newest lines to print.")]
AsIsOption = Annotated[bool, typer.Option("--json", help="Print the lines as they are in the file.")]
_POLL_SECONDS = 0.5


def print_log(file: Path, *, follow: bool, lines: int, as_json: bool) -> None:
    """Print the newest lines of a log that is there; with `follow` until Ctrl-C."""
    from firn.operations.log_files import LogReader, readable

    shown = (lambda line: line) if as_json else readable
    say(f"From {file}")
    reader = LogReader(file)
    try:
        _print(map(shown, reader.newest(lines)))
        while follow:
            time.sleep(_POLL_SECONDS)
            _print(map(shown, reader.more()))
    except KeyboardInterrupt:
        if not follow:
            raise
    finally:
        reader.close()


def name_in(file: Path, kind: str) -> str:
    """The job's name, also from a file with faults or missing secrets: they do not hide a log."""
    from firn.connector.file import read_connector_file

    name = read_connector_file(file, kind).get("name")
    if not name:
        raise ConfigError(f"The file has no {kind} name.", where=str(file), next_step='Add "name".')
    return name


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
