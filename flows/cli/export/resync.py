"""`firn export resync`: all rows of a source are published once more. What is missed: firn.exports.resync."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from firn.plural import counted
from flows.cli.console import JsonOption, confirm, print_rows, require_terminal, say
from flows.cli.sink.arguments import ConfigArgument


def resync(
    config: ConfigArgument,
    source: Annotated[
        list[str] | None, typer.Option("--source", help="Only this source; may be given several times.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let the next run publish all rows of a source once more, then its changes.

    For topics that were deleted, dead letters whose cause is corrected, and stale streams. The export must not run.
    Consumers get each row again, changes that wait come first, and deletes are told of.
    """
    from firn.exports import names
    from firn.operations.exports.control import export_of_file
    from firn.operations.exports.resync import COLUMNS, Resync
    from firn.settings import load_settings
    from firn.snowflake.connection import connect

    context = export_of_file(config, load_settings())
    name = context.config.name
    with connect(context.login, query_tag=names.query_tag(name)) as connection:
        asked = Resync(connection, context, source or ())
        plan = asked.plan()
        print_rows([each.row() for each in plan], columns=COLUMNS, as_json=as_json)
        if dry_run:
            say("Nothing was changed (--dry-run).")
            return
        asked.check()
        if not yes:
            require_terminal("firn export resync", "Give --yes to do it; --dry-run only shows it.")
            if not confirm(f"Publish all rows of {counted(len(plan), 'source')} once more?"):
                return
        asked.run()
    say(
        f"The next run publishes them: `firn export run {shlex.quote(str(config))}`, or the schedule of its deployment."
    )
