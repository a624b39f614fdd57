"""`firn sink`: run a sink from its connector file. Looking at the file alone is `flows.commands.validate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.commands import dead_letters
from flows.commands.offsets import offsets
from flows.commands.validate import validate
from flows.console import JsonOption, print_rows, say

PARTITION_COLUMNS = ("topic", "partition", "table", "next_offset", "end_offset", "lag")


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    family = typer.Typer(name="sink", help="Kafka topics into Snowflake tables, exactly once.", no_args_is_help=True)
    family.command("validate")(validate)
    family.command("run")(_run)
    family.command("offsets")(offsets)
    family.add_typer(dead_letters.app)
    app.add_typer(family)


def _run(
    config: Annotated[Path, typer.Argument(help="Connector configuration, JSON or .properties.")],
    once: Annotated[bool, typer.Option("--once", help="Take all that is available now, then end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a sink until Ctrl-C, or once; prints where each partition stands at the end."""
    _check(config)  # before anything is started

    from flows.sink import sink

    report = sink(config=config, once=once)
    print_rows([asdict(p) for p in report.partitions], columns=PARTITION_COLUMNS, as_json=as_json)
    say(
        f"{report.sink}: {report.records} records committed in {report.batches} batches and {report.files} files, "
        f"{report.seconds:.1f} s (epoch {report.epoch})"
    )


def _check(file: Path) -> None:
    """Print the configuration's warnings. Raises ConfigError for its faults, and for what cannot be run yet."""
    from firn.connector.file import read_connector_file
    from firn.connector.parse import check_sink_config
    from firn.connector.references import Resolver
    from firn.settings import load_settings
    from spark_jobs.sink.context import check_runnable

    resolver = Resolver(load_settings())
    checked = check_sink_config(read_connector_file(file), where=str(file), resolver=resolver)
    config = checked.require()
    for warned in checked.warnings:
        say(f"Warning: {warned}")
    check_runnable(config)
