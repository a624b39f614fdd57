"""`firn pipeline`: the whole way from Kafka to typed tables, summed up on the screen."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.console import JsonOption, print_rows, say

if TYPE_CHECKING:
    from flows.pipeline import PipelineResult


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    app.command("pipeline")(_pipeline)


def _pipeline(
    count: Annotated[int, typer.Option(min=0, help="Sample order events to produce.")] = 1000,
    rate: Annotated[float | None, typer.Option(help="Records per second at most (default: no limit).")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same orders, but for ids and times.")] = None,
    config: Annotated[Path, typer.Option(help="Connector file of the sink.")] = Path("connectors/order-events.json"),
    as_json: JsonOption = False,
) -> None:
    """Provision, produce, sink all that is available and build the dbt models, as one Prefect flow."""
    if rate is not None and rate <= 0:
        raise typer.BadParameter("--rate must be above 0.")

    from flows.pipeline import pipeline

    result = pipeline(count=count, rate=rate, seed=seed, config=config)
    if as_json:
        print_rows([result.model_dump(mode="json")], columns=(), as_json=True)
    else:
        _show(result)


def _show(result: PipelineResult) -> None:
    from firn.settings import load_settings
    from flows.pipeline import LAG_COLUMNS, NODE_COLUMNS, SAMPLE_TABLE, TABLE_COLUMNS

    print_rows(
        result.sample, columns=list(result.sample[0]) if result.sample else (), title=f"Newest of {SAMPLE_TABLE}"
    )
    print_rows([count.as_row() for count in result.tables], columns=TABLE_COLUMNS, title="Rows per table")
    print_rows([asdict(p) for p in result.sink.partitions], columns=LAG_COLUMNS, title="Lag per partition")
    print_rows(result.dbt, columns=NODE_COLUMNS[:-1], title="dbt")
    say(f"{result.produce.delivered} produced, {result.sink.records} committed in {result.sink.seconds:.1f} s.")
    api = load_settings().prefect_api_url
    if api:
        say(f"Prefect UI: {api.removesuffix('/api')}")
