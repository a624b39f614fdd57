"""`firn provision`, `produce`, `transform`, `pipeline`: each runs the flow of its name and prints the result.

What the flows do, and what their parameters mean: flows/<name>.py.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.plural import counted
from firn.produce.framing import FormatName
from firn.settings import Compatibility
from flows.cli.console import JsonOption, print_rows, say
from flows.cli.generate import generate

if TYPE_CHECKING:
    from flows.pipeline import PipelineResult
    from flows.produce import ProduceResult

_INTERRUPTED = 130
_EXAMPLE_QUERY = 'firn sql "SELECT ORDER_STATUS, COUNT(*) FROM FCT_ORDERS GROUP BY 1"'


def add(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("provision")(_provision)
    app.command("produce")(_produce)
    transform = typer.Typer(invoke_without_command=True, help=_transform.__doc__)
    transform.callback()(_transform)
    transform.command("generate")(generate)
    app.add_typer(transform, name="transform")
    app.command("pipeline")(_pipeline)


def _provision(
    topic: Annotated[str | None, typer.Option(help="Topic (default: order-events).")] = None,
    partitions: Annotated[int | None, typer.Option(min=1, help="Partitions of the topic (default: 3).")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(help="Replicas of the topic (default: -1, the broker's).")
    ] = None,
    retention_ms: Annotated[int | None, typer.Option(help="retention.ms (default: 604800000, 7 days).")] = None,
    compatibility: Annotated[
        Compatibility | None, typer.Option(help="Compatibility mode of the subject (default: BACKWARD).")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Avro schema to register as <topic>-value (default: OrderEvent).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Create nothing; list what would be created.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Also change what exists with other values.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create or check the topic, the schema and the Snowflake objects.

    What exists with other values stays as it is, unless you give --apply.
    """
    from firn.provision.findings import COLUMNS
    from flows.provision import ProvisionError, ProvisionUnreachableError, provision

    try:
        result = provision(
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            retention_ms=retention_ms,
            compatibility=compatibility,
            schema_file=schema,
            dry_run=dry_run,
            apply=apply,
        )
    except (ProvisionError, ProvisionUnreachableError) as error:
        if error.result:
            print_rows([f.row() for f in error.result.findings], columns=COLUMNS, as_json=as_json)
        raise
    print_rows([finding.row() for finding in result.findings], columns=COLUMNS, as_json=as_json)


def _produce(
    count: Annotated[int | None, typer.Option(min=0, help="Number of sample order events (default: 1000).")] = None,
    rate: Annotated[float | None, typer.Option(help="Maximum records per second (default: no limit).")] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same orders, except for ids and times.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic; created if it is absent (default: order-events).")] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="Send the rows of a .csv, .jsonl or .parquet file instead.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Schema of the file's rows: .avsc, JSON Schema or .proto.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Field of the file that becomes the record key.")] = None,
    value_format: Annotated[
        FormatName, typer.Option("--format", help="Format of the values; json has no schema.")
    ] = "avro",
    verbose: Annotated[bool, typer.Option("--verbose", help="Print a line for each delivery.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write sample orders, or the rows of a file, to a topic.

    Fails if a record was not delivered.
    """
    if from_file is not None and (count is not None or seed is not None):
        raise typer.BadParameter("--count and --seed apply to sample orders; omit them with --from-file.")
    if rate is not None and rate <= 0:
        raise typer.BadParameter("--rate must be above 0.")

    from firn.produce.producer import RejectedError, UndeliveredError
    from flows.produce import DEFAULT_COUNT, produce, result_of

    wanted = DEFAULT_COUNT if count is None else count
    try:
        result = produce(wanted, rate, seed, topic, from_file, schema, key, value_format, verbose)
    except (RejectedError, UndeliveredError) as error:
        if error.report:
            _show_produce(result_of(error.report), as_json)
        raise
    _show_produce(result, as_json)
    if result.interrupted:
        say("Interrupted. Every record sent so far was delivered.")
        raise typer.Exit(_INTERRUPTED)


def _show_produce(result: ProduceResult, as_json: bool) -> None:
    from flows.produce import COLUMNS

    print_rows([partition.model_dump() for partition in result.partitions], columns=COLUMNS, as_json=as_json)


def _transform(
    context: typer.Context,
    select: Annotated[
        str | None, typer.Option(help="dbt node selection, for example fct_order_events+ (default: all).")
    ] = None,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Rebuild incremental models from all rows.")
    ] = False,
    only_new: Annotated[
        bool, typer.Option("--only-new", help="Build what is below sources with newer rows than at the last good run.")
    ] = False,
    freshness: Annotated[
        bool, typer.Option("--freshness/--no-freshness", help="Fail if the newest row of a source is too old.")
    ] = True,
    variables: Annotated[
        str | None, typer.Option("--vars", help='dbt\'s vars as JSON: \'{"firn_backfill_from": "2026-03-01"}\'.')
    ] = None,
    project_dir: Annotated[Path | None, typer.Option(help="A dbt project (default: Firn's own).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Build the dbt models and run their tests.

    Fails if a model or a test fails, or a source is too old.
    """
    if context.invoked_subcommand:
        return
    from firn.dbt.results import COLUMNS, TransformError, TransformInterruptedError
    from flows.transform import transform

    try:
        result = transform(
            select=select,
            full_refresh=full_refresh,
            only_new=only_new,
            freshness=freshness,
            variables=_variables(variables),
            project_dir=project_dir,
        )
    except (TransformError, TransformInterruptedError) as error:
        if error.result:
            print_rows(error.result.rows(), columns=COLUMNS, as_json=as_json)
        raise
    print_rows(result.rows(), columns=COLUMNS, as_json=as_json)


def _variables(given: str | None) -> dict[str, Any] | None:
    if given is None:
        return None
    try:
        found = json.loads(given)
    except ValueError as error:
        raise typer.BadParameter(f"--vars is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise typer.BadParameter("--vars is a JSON object.")
    return found


def _pipeline(
    count: Annotated[int, typer.Option(min=0, help="Number of sample order events.")] = 1000,
    rate: Annotated[float | None, typer.Option(help="Maximum records per second (default: no limit).")] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same orders, except for ids and times.")
    ] = None,
    config: Annotated[Path, typer.Option(help="Connector file of the sink.")] = Path("connectors/order-events.json"),
    as_json: JsonOption = False,
) -> None:
    """Run the whole path once: provision, produce, sink, transform.

    All steps are one Prefect flow; the sink loads what is available and ends.
    """
    if rate is not None and rate <= 0:
        raise typer.BadParameter("--rate must be above 0.")

    from flows.pipeline import pipeline

    result = pipeline(count=count, rate=rate, seed=seed, config=config)
    if as_json:
        print_rows([result.model_dump(mode="json")], columns=(), as_json=True)
    else:
        _show_pipeline(result, config)


def _show_pipeline(result: PipelineResult, config: Path) -> None:
    """A few typed orders, then a line for each thing that a person asks next."""
    from firn.settings import load_settings
    from flows.pipeline import SAMPLE_COLUMNS, SAMPLE_TABLE

    orders = [
        {name: f"{value:%H:%M:%S}" if isinstance(value, datetime) else value for name, value in row.items()}
        for row in result.sample
    ]
    print_rows(orders, columns=SAMPLE_COLUMNS, title=f"Newest orders of each partition in {SAMPLE_TABLE}")
    api = load_settings().prefect_api_url
    lines = [
        ("Produced", f"{result.produce.delivered:,}, committed {result.sink.records:,} in {result.sink.seconds:.1f} s"),
        ("Rows", ", ".join(f"{count.table.rsplit('.', 1)[-1]} {count.rows:,}" for count in result.tables)),
        ("Lag", _lag_line(result)),
        ("dbt", ", ".join(f"{count} {status}" for status, count in _counts(result.dbt).items())),
        *([("Prefect", api.removesuffix("/api"))] if api else []),
    ]
    say("\n".join(f"{name + ':':10}{text}" for name, text in lines))
    file = shlex.quote(str(config))
    say("\nTry next:")
    for command in (_EXAMPLE_QUERY, f"firn sink run {file}    # until Ctrl-C", f"firn sink status {file}"):
        say(f"  {command}")


def _lag_line(result: PipelineResult) -> str:
    waiting, partitions = sum(each.lag for each in result.sink.partitions), len(result.sink.partitions)
    return f"{counted(waiting, 'record')} in {counted(partitions, 'partition')}"


def _counts(nodes: list[dict[str, Any]]) -> Counter[str]:
    return Counter(str(node["status"]) for node in nodes)
