"""`firn sink`: the commands about one sink, a module each."""

from __future__ import annotations

from collections.abc import Callable

import typer

from flows.cli.sink import clean, control, dead_letters, logs, offsets, report, run, status, validate


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    family = typer.Typer(
        name="sink", help="Run, watch and control the sinks that load Kafka topics into tables.", no_args_is_help=True
    )
    commands: tuple[Callable[..., None], ...] = (
        validate.validate,
        run.run,
        status.status,
        control.pause,
        control.resume,
        control.stop,
        logs.logs,
        report.report,
        offsets.offsets,
        clean.clean,
    )
    for command in commands:
        family.command()(command)
    family.add_typer(dead_letters.app)
    app.add_typer(family)
