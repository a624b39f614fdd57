"""`firn sql`: statements against the Snowflake that the settings name."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli.console import JsonOption, print_rows, say


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    app.command("sql")(_sql)


def _sql(
    statement: Annotated[str, typer.Argument(help="One statement, or several separated by semicolons.")],
    as_sink: Annotated[
        bool, typer.Option("--as-sink", help="With the sinks' login: make a table or pipe that a sink writes to.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run SQL in Snowflake with the login of FIRN_SQL_SECRET_ID (default: the sinks'), and print each result."""
    from firn.settings import load_settings
    from firn.snowflake.connection import connect
    from firn.snowflake.logins import sink_login, sql_login
    from firn.snowflake.statements import run_statements

    if not statement.strip().rstrip(";"):
        raise typer.BadParameter("The argument contains no statement.")
    login = sink_login if as_sink else sql_login
    with connect(login(load_settings()), query_tag="firn sql") as connection:
        for result in run_statements(connection, statement):
            print_rows(result.rows, columns=result.columns, as_json=as_json)
            say(f"{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}")
