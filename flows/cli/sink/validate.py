"""`firn sink validate`: what is wrong with a connector file, what takes effect; with --live what is wrong outside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firn.errors import TransientError
from flows.cli.sink.arguments import ConfigArgument
from flows.cli.validation import EffectiveOption, Outcome, show


def validate(
    config: ConfigArgument,
    live: Annotated[
        bool, typer.Option("--live", help="Also check secrets, network, TLS, logins, privileges, topics and subjects.")
    ] = False,
    effective: EffectiveOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Check a connector file.

    It lists all faults at once. Nothing is started or changed.
    """
    show(
        _look(config, live=live),
        config,
        kind="sink",
        page="docs/configuration.md",
        effective=effective,
        as_json=as_json,
    )


def _look(file: Path, *, live: bool) -> Outcome:
    from firn.connector.file import read_connector_file
    from firn.connector.parse import check_sink_config
    from firn.connector.references import Resolver
    from firn.operations.validation.live_check import failed, impatient
    from firn.secrets import secret_reader
    from firn.settings import load_settings

    raw, where = read_connector_file(file), str(file)
    if not live:
        return Outcome(check_sink_config(raw, where=where), None)
    settings = impatient(load_settings())
    try:
        checked = check_sink_config(raw, where=where, resolver=Resolver(secret_reader(settings)))
    except TransientError as error:
        return Outcome(check_sink_config(raw, where=where), [failed("secret references", error)])
    if checked.config is None:
        return Outcome(checked, None)

    from spark_jobs.sink.validation import live_checks

    return Outcome(checked, live_checks(checked.config, settings))
