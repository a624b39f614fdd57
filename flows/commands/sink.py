"""`firn sink`: run a sink from its connector file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.console import JsonOption, print_rows, say

PARTITION_COLUMNS = ("topic", "partition", "table", "next_offset", "end_offset", "lag")


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    family = typer.Typer(name="sink", help="Kafka topics into Snowflake tables, exactly once.", no_args_is_help=True)
    family.command("run")(_run)
    family.callback()(lambda: None)
    app.add_typer(family)


def _run(
    config: Annotated[Path, typer.Argument(help="Connector configuration, JSON or .properties.")],
    once: Annotated[bool, typer.Option("--once", help="Take all that is available now, then end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a sink until Ctrl-C, or once; prints where each partition stands at the end."""
    from firn.connector.parse import load_sink_config
    from firn.connector.references import Resolver
    from firn.settings import load_settings
    from flows.sink import sink

    load_sink_config(config, Resolver(load_settings()))  # faults before anything is started
    report = sink(config=config, once=once)
    print_rows([asdict(p) for p in report.partitions], columns=PARTITION_COLUMNS, as_json=as_json)
    say(
        f"{report.sink}: {report.records} records committed in {report.batches} batches and {report.files} files, "
        f"{report.seconds:.1f} s (epoch {report.epoch})"
    )
