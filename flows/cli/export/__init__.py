"""`firn export`: the commands about one export, a module each."""

from __future__ import annotations

from collections.abc import Callable

import typer

from flows.cli.export import clean, control, dead_letters, history, logs, resync, run, status, validate


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    family = typer.Typer(
        name="export",
        help="Run, watch and control the exports that publish changes in Snowflake to Kafka topics.",
        no_args_is_help=True,
    )
    commands: tuple[Callable[..., None], ...] = (
        validate.validate,
        run.run,
        status.status,
        control.pause,
        control.resume,
        control.stop,
        history.history,
        history.costs,
        logs.logs,
        resync.resync,
        clean.clean,
    )
    for command in commands:
        family.command()(command)
    family.add_typer(dead_letters.app)
    app.add_typer(family)
