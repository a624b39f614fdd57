"""`firn export run`: one export from its connector file, and what it published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.plural import counted
from flows.cli.console import JsonOption, print_rows, say
from flows.cli.sink.arguments import ConfigArgument
from flows.cli.sink.run import terminated_as_interrupted

if TYPE_CHECKING:
    from firn.connector.export.config import ExportConfig
    from firn.operations.exports.run_report import ExportReport
    from firn.settings import Settings
    from firn.supervisor.job import Policy

COLUMNS = ("source", "topic", "batches", "rows", "letters", "last_batch")


def run(
    config: ConfigArgument,
    once: Annotated[bool, typer.Option("--once", help="Publish what has changed by now, then end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run an export until Ctrl-C or SIGTERM.

    At the end it prints what it published of each source.
    """
    try:
        with terminated_as_interrupted():
            _warn(config)  # before anything is started
            say("Starting Spark ...")
            report = run_export(config, once=once)
    except KeyboardInterrupt:
        if once:
            raise  # not all that had changed is published
        say("The export has stopped, and no change is lost. `firn export status` shows what waits.")
        return
    rows = [asdict(each) for each in report.sources]
    print_rows([*rows, _totals(report)] if as_json else rows, columns=COLUMNS, as_json=as_json)
    say(summary(report))


def run_export(config: Path, *, once: bool) -> ExportReport:
    """Run an export, as a flow if a Prefect server answers. Raises the error that it failed with."""
    from firn.operations.exports.run_report import ExportReport
    from flows.cli.with_prefect import RunnableJob, run_job
    from flows.supervision.driver import EXPORT

    return run_job(RunnableJob(EXPORT, ExportReport, _name, _flow, _policy), config, once=once)


def summary(report: ExportReport) -> str:
    """A run as one sentence: what was published, and what it took."""
    text = f"{report.export}: {counted(report.rows, 'row')} published in {counted(report.batches, 'batch', 'batches')}"
    if report.letters:
        text += f", {counted(report.letters, 'dead letter')} among them"
    return f"{text}; {counted(report.moves, 'move')}, {report.seconds:.1f} s (epoch {report.epoch})"


def _totals(report: ExportReport) -> dict[str, object]:
    return {name: value for name, value in asdict(report).items() if name != "sources"}


def _warn(file: Path) -> None:
    """Print the configuration's warnings. Raises ConfigError for its faults."""
    from firn.connector.export.parse import check_export_config
    from firn.connector.file import read_connector_file
    from firn.connector.references import Resolver
    from firn.secrets import secret_reader
    from firn.settings import load_settings

    resolver = Resolver(secret_reader(load_settings()))
    checked = check_export_config(read_connector_file(file, "export"), where=str(file), resolver=resolver)
    checked.require()
    for warned in checked.warnings:
        say(f"Warning: {warned}")


def _load(config: Path, settings: Settings) -> ExportConfig:
    from firn.connector.export.parse import load_export_config
    from firn.connector.references import Resolver
    from firn.secrets import secret_reader

    return load_export_config(config, Resolver(secret_reader(settings)))


def _name(config: Path, settings: Settings) -> str:
    return _load(config, settings).name


def _flow() -> Callable[..., ExportReport]:
    from flows.export import export

    return export


def _policy(config: Path, settings: Settings) -> Policy:
    from firn.ledger.control import requester
    from firn.supervisor.export_job import export_policy

    return export_policy(_load(config, settings), by=requester())
