"""`firn export clean`: what an export made, shown and removed. Order of the steps: firn.operations.exports.clean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from firn.plural import counted
from flows.cli.console import JsonOption, confirm_name, print_rows, require_terminal, say
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from firn.operations.exports.clean import ExportResidue


def clean(
    config: ConfigArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove what an export made, and retire its name: tasks, streams, outboxes, markers, its rows in the ledger.

    It shows everything and asks first. Topics, schemas, dead letters, the history and streams that somebody made stay.
    """
    from firn.exports import names
    from firn.operations.exports.clean import ExportCleaner
    from firn.operations.exports.control import export_of_file
    from firn.settings import load_settings
    from firn.snowflake.connection import connect

    context = export_of_file(config, load_settings())
    name = context.config.name
    with connect(context.login, query_tag=names.query_tag(name)) as connection:
        cleaner = ExportCleaner(connection, context)
        found = cleaner.look()
        _show(found, as_json=as_json)
        if not found.removable:
            say(f"Export {name} left nothing to remove.")
            return
        if dry_run:
            say("Nothing was changed (--dry-run).")
            return
        cleaner.check(found)
        if not yes and not _confirmed(name):
            return
        cleaner.clean(found)
    say(f"Removed what export {name} made. Its name is free.")


def _show(found: ExportResidue, *, as_json: bool) -> None:
    """All findings, how to remove by hand what stays, and what the clean means."""
    from firn.operations.residue.finding import COLUMNS

    findings = found.findings()
    print_rows([each.row() for each in findings], columns=COLUMNS, as_json=as_json)
    if stays := [each for each in findings if each.by_hand]:
        say("What stays, and how to remove it by hand:")
        for each in stays:
            say(f"  {each.what} {each.name}: {each.by_hand}")
    if found.waiting:
        say(f"{counted(found.waiting, 'row')} in outboxes would NEVER BE PUBLISHED: run the export once before.")
    if found.removable:
        say("An export of this name would begin again with the rows that are there: consumers would get them TWICE.")


def _confirmed(name: str) -> bool:
    require_terminal("firn export clean", "Give --yes to remove all of this; --dry-run only shows it.")
    return confirm_name(f"Type the export's name ({name}) to remove this", name)
