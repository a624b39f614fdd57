"""`firn export dead-letters`: rows that an export left out of its topics, looked at."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from firn.plural import counted
from flows.cli.console import JsonOption, print_rows, say
from flows.cli.dead_letters import (
    AllOption,
    NewestOption,
    OffsetArgument,
    OneJsonOption,
    PartitionArgument,
    print_letter,
)
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from firn.dead_letters.reader import DeadLetterReader

app = typer.Typer(
    name="dead-letters",
    help="List and show rows that an export left out. `firn export resync` publishes the rows of now.",
    no_args_is_help=True,
)


@app.command("list")
def _list(
    config: ConfigArgument, newest: NewestOption = 50, everything: AllOption = False, as_json: JsonOption = False
) -> None:
    """List the newest dead letters of an export: source, batch, row id, reason."""
    from firn.operations.exports.dead_letters import COLUMNS, RowLetter

    found = [RowLetter.of(each) for each in _reader(config).newest(None if everything else newest)]
    print_rows((asdict(each) for each in found), columns=COLUMNS, as_json=as_json)
    say(counted(len(found), "dead letter"))


@app.command("show")
def _show(
    config: ConfigArgument, partition: PartitionArgument, offset: OffsetArgument, as_json: OneJsonOption = False
) -> None:
    """Show one dead letter: its row as JSON with masks applied, and its headers."""
    from firn.operations.exports.dead_letters import COLUMNS, row_letter_document

    print_letter(row_letter_document(_reader(config).one(partition, offset)), COLUMNS, as_json=as_json)


def _reader(file: Path) -> DeadLetterReader:
    from firn.operations.exports.control import export_of_file
    from firn.operations.exports.dead_letters import letters_of
    from firn.settings import load_settings

    return letters_of(export_of_file(file, load_settings()))
