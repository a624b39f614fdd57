"""`firn produce`: the produce flow, what each partition acknowledged as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.console import JsonOption, print_rows, say

if TYPE_CHECKING:
    from flows.produce import ProduceResult

_INTERRUPTED = 130


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    app.command("produce")(_produce)


def _produce(
    count: Annotated[int | None, typer.Option(min=0, help="How many events of sample orders (default: 1000).")] = None,
    rate: Annotated[float | None, typer.Option(help="Records per second at most (default: no limit).")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same orders, but for ids and times.")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic, made when absent (default: order-events).")] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="Rows of a .csv, .jsonl or .parquet file instead of sample orders.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(help="Avro schema (.avsc) of the file's rows.")] = None,
    key: Annotated[str | None, typer.Option(help="Field of the file that becomes the record key.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Produce sample orders, or the rows of a file, as Avro; fails when a record was not delivered."""
    if from_file is not None and (count is not None or seed is not None):
        raise typer.BadParameter("--count and --seed describe sample orders; leave them out with --from-file.")
    if rate is not None and rate <= 0:
        raise typer.BadParameter("--rate must be above 0.")

    from firn.produce.producer import RejectedError, UndeliveredError
    from flows.produce import DEFAULT_COUNT, produce, result_of

    wanted = DEFAULT_COUNT if count is None else count
    try:
        result = produce(wanted, rate, seed, topic, from_file, schema, key)
    except (RejectedError, UndeliveredError) as error:
        if error.report:
            _show(result_of(error.report), as_json)
        raise
    _show(result, as_json)
    if result.interrupted:
        say("Interrupted: what was under way has been delivered.")
        raise typer.Exit(_INTERRUPTED)


def _show(result: ProduceResult, as_json: bool) -> None:
    from flows.produce import COLUMNS

    print_rows([partition.model_dump() for partition in result.partitions], columns=COLUMNS, as_json=as_json)
