"""`firn sink report`: a zip file for a bug report, with no secret in it. See firn.operations.report_bundle."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.console import JsonOption, print_rows, say
from flows.cli.sink.arguments import ConfigArgument


def report(
    config: ConfigArgument,
    output: Annotated[
        Path | None, typer.Option(help="File to write (default: firn-report-<sink>-<time>.zip in this folder).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a zip file for a bug report.

    It contains the configuration, status and logs of the sink. Secrets are masked.
    """
    from firn.operations.report_bundle import Bundle
    from firn.settings import load_settings

    say("Collecting ...")
    bundle = Bundle(config, load_settings())
    target = output or Path(f"firn-report-{_plain(bundle.sink)}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.zip")
    parts = bundle.write(target)
    rows = [asdict(part) for part in parts]
    print_rows(rows, columns=("name", "state", "detail"), as_json=as_json)
    missing = sum(part.state == "missing" for part in parts)
    left_out = f" {missing} of {len(parts)} parts are missing; contents.json says why." if missing else ""
    say(f"Written to {target}.{left_out} Read through it before you send it.")


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)
