"""`firn provision`: the provision flow, its findings as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firn.settings import Compatibility
from flows.cli.console import JsonOption, print_rows


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    app.command("provision")(_provision)


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
        Path | None, typer.Option(help="Avro schema to register under <topic>-value (default: OrderEvent).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Make nothing; print what would be made.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Also change what exists with other values.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make or check topic, schema and Snowflake; what exists with other values is left alone without --apply."""
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
