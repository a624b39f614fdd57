"""The `firn` command: a thin way in, like the Prefect UI. What a command does lives in flows and the rooms below.

Exit codes (docs/commands.md): 0 done, 1 a bug of ours, 2 wrong usage, 3 a person has to act, 4 try again later,
5 fenced by a newer run of the same sink, 6 stopped in front of a bad record, 8 a sink or an
export is not well (`firn sink status`), 130 interrupted. Each family of commands is a module that imports nothing
heavy at its top, so that `firn --help` stays quick.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer
from pydantic import ValidationError

from firn.errors import ConfigError, FirnError
from firn.settings import load_settings
from flows.cli import dbt, deploy, export, flow_commands, sink, sql, stack
from flows.cli.console import configure_console, stderr

app = typer.Typer(
    name="firn",
    help="Load Kafka topics into Snowflake exactly once, type them with dbt, and publish changes back to Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show stack traces and verbose logs.")] = False,
) -> None:
    if debug:
        os.environ["FIRN_DEBUG"] = "1"
    configure_console(load_settings(), debug=debug)


for _family in (stack, flow_commands, dbt, sink, export, sql, deploy):
    _family.add(app)


def main() -> None:
    """Run one command; a FirnError becomes its message on stderr and its exit code."""
    try:
        app()
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        if os.environ.get("FIRN_DEBUG") == "1":
            traceback.print_exc()
        stderr.print("[bold red]Error:[/] ", end="")
        stderr.print(str(explained), markup=False, highlight=False, soft_wrap=True)
        sys.exit(explained.exit_code)


def explain(error: Exception) -> FirnError | None:
    """The error a person should see, or None where it is a bug of ours that keeps its stack trace."""
    if isinstance(error, FirnError):
        return error
    if isinstance(error, ValidationError) and error.title == "Settings":
        faults = "; ".join(f"FIRN_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors(include_input=False))
        return ConfigError(f"Settings are not valid: {faults}", next_step="Correct these environment variables.")
    return None
