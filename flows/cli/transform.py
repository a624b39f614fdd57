"""`firn transform`: the transform flow, its results as a table."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli.console import JsonOption, print_rows


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    app.command("transform")(_transform)


def _transform(
    select: Annotated[str | None, typer.Option(help="dbt's node selection, for example fct_order_events+.")] = None,
    full_refresh: Annotated[bool, typer.Option("--full-refresh", help="Build incremental models anew.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build the dbt models and run their tests; fails when a model or test does."""
    from firn.dbt.results import COLUMNS, TransformError, TransformInterruptedError
    from flows.transform import transform

    try:
        result = transform(select=select, full_refresh=full_refresh)
    except (TransformError, TransformInterruptedError) as error:
        if error.result:
            print_rows(error.result.rows(), columns=COLUMNS, as_json=as_json)
        raise
    print_rows(result.rows(), columns=COLUMNS, as_json=as_json)
