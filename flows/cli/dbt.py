"""`firn dbt ...`: dbt itself, with Firn's profile, login and target. What flows run of it: `firn transform`."""

from __future__ import annotations

import getpass
import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}
"""Options in front of dbt's command are ours; the rest is dbt's."""


def add(app: typer.Typer) -> None:
    """Add this command."""
    app.command("dbt", context_settings=PASSED_ON, no_args_is_help=True)(_dbt)


def _dbt(
    command: Annotated[list[str], typer.Argument(help="dbt's command and its options.", show_default=False)],
    schema: Annotated[
        str | None, typer.Option(help="Schema of the models (default: FIRN_DBT_SCHEMA, else that of the tables).")
    ] = None,
    dev: Annotated[bool, typer.Option("--dev", help="A schema of your own: DEV_ and your user name.")] = False,
    project_dir: Annotated[Path | None, typer.Option(help="A dbt project (default: Firn's own).")] = None,
) -> None:
    """Run any command of dbt with the login of FIRN_DBT_SECRET_ID (default: the sinks').

    Options of Firn stand in front: firn dbt --dev build -s +fct_orders; firn dbt docs generate; firn dbt test --help.
    The exit code is dbt's: 0 done, 1 a model or test failed, 2 anything else.
    """
    if dev and schema:
        raise typer.BadParameter("--dev and --schema both name a schema; give one.")
    from dataclasses import replace

    from firn.dbt.process import dbt_process
    from firn.settings import load_settings
    from firn.snowflake.logins import dbt_login

    settings = load_settings()
    login = dbt_login(settings)
    login = replace(login, schema=own_schema(getpass.getuser()) if dev else schema or login.schema)
    source = settings.snowflake_database, settings.snowflake_schema
    dbt = dbt_process(settings, login, source, project_dir)
    sys.stdout.flush()
    # The terminal, and its signals, are dbt's from here on.
    os.execve(sys.executable, [sys.executable, "-m", "firn.dbt.shell", *command], dbt.shell_environment())  # noqa: S606


def own_schema(user: str) -> str:
    """The schema of a person: letters, digits and underscores."""
    return f"DEV_{re.sub(r'[^A-Z0-9]+', '_', user.upper())}"
