"""`firn export history`, `costs`: published batches and where they are in Kafka; what statements cost in Snowflake."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli.console import JsonOption, print_rows, say
from flows.cli.sink.arguments import ConfigArgument

_COLUMNS = (
    *("source", "batch", "shard", "epoch", "row_count", "letters", "tombstones", "bytes"),
    *("moved_at", "published_at", "offsets"),
)


def history(
    config: ConfigArgument,
    source: Annotated[str | None, typer.Option("--source", help="Only the batches of this source.")] = None,
    newest: Annotated[int, typer.Option("--newest", min=1, help="Number of batches.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the newest published batches of an export: rows, letters, offsets by topic and partition.

    A message's headers `firn.source` and `firn.batch` lead here.
    """
    from firn.exports import names
    from firn.exports.history import read_history
    from firn.operations.exports.control import export_of_file
    from firn.settings import load_settings
    from firn.snowflake.connection import connect

    context = export_of_file(config, load_settings())
    with connect(context.login, query_tag=names.query_tag(context.config.name)) as connection:
        found = read_history(connection, context.namespace, context.config.name, source, newest)
    rows = [{name.lower(): value for name, value in row.items()} for row in found]
    print_rows(rows, columns=_COLUMNS, as_json=as_json)
    if not rows:
        say(f"Export {context.config.name} has published nothing yet.")


def costs(
    config: ConfigArgument,
    hours: Annotated[int, typer.Option("--hours", min=1, max=168, help="Hours to look back.")] = 24,
    as_json: JsonOption = False,
) -> None:
    """Show what the statements of an export cost: how many, how many of them in a warehouse, its seconds.

    The question itself runs in a warehouse.
    """
    from firn.operations.exports.control import export_of_file
    from firn.operations.exports.costs import COLUMNS, statement_costs
    from firn.settings import load_settings
    from firn.snowflake.connection import connect

    context = export_of_file(config, load_settings())
    with connect(context.login, query_tag=f"firn export costs {context.config.name}") as connection:
        found = statement_costs(connection, context.namespace, context.config.name, hours)
    print_rows([each.row() for each in found], columns=COLUMNS, as_json=as_json)
    seconds, woken = sum(each.warehouse_seconds for each in found), sum(each.in_warehouse for each in found)
    say(f"{woken} statements in a warehouse, {seconds:.1f} s of it, in {hours} h. docs/export.md says what that bills.")
