"""`firn sink run`: one sink from its connector file, and what it did. Checking the file: `flows.cli.sink.validate`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.plural import counted
from flows.cli.console import JsonOption, print_rows, say
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from firn.connector.config import SinkConfig
    from firn.operations.run_report import RunReport
    from firn.settings import Settings
    from firn.supervisor.job import Policy

PARTITION_COLUMNS = ("topic", "partition", "table", "next_offset", "end_offset", "lag")


def run(
    config: ConfigArgument,
    once: Annotated[bool, typer.Option("--once", help="Load what is available now, then end.")] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Replace a parameter of the file; repeatable. No credentials."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a sink until Ctrl-C or SIGTERM.

    At the end it prints the position of each partition.
    """
    try:
        with terminated_as_interrupted():
            report = _report(_with_overrides(config, overrides or []), once=once)
    except KeyboardInterrupt:
        if once:
            raise  # not all that was available is in the table
        say("The sink has stopped, and no record is lost. `firn sink offsets` shows its positions.")
        return
    rows = [asdict(p) for p in report.partitions]
    print_rows([*rows, totals(report)] if as_json else rows, columns=PARTITION_COLUMNS, as_json=as_json)
    say(summary(report))


def _with_overrides(config: Path, overrides: list[str]) -> Path:
    from firn.connector.overrides import overlay, parse_overrides
    from firn.settings import load_settings

    return overlay(load_settings().home, config, parse_overrides(overrides)) if overrides else config


def _report(config: Path, *, once: bool) -> RunReport:
    _check(config)  # before anything is started

    say("Starting Spark ...")
    return run_sink(config, once=once)


def run_sink(config: Path, *, once: bool) -> RunReport:
    """Run a sink, as a flow if a Prefect server answers. Raises the error that it failed with."""
    from firn.operations.run_report import RunReport
    from flows.cli.with_prefect import RunnableJob, run_job
    from flows.supervision.driver import SINK

    return run_job(RunnableJob(SINK, RunReport, _name, _flow, _policy), config, once=once)


def _load(config: Path, settings: Settings) -> SinkConfig:
    from firn.connector.parse import load_sink_config
    from firn.connector.references import Resolver
    from firn.secrets import secret_reader

    return load_sink_config(config, Resolver(secret_reader(settings)))


def _name(config: Path, settings: Settings) -> str:
    return _load(config, settings).name


def _flow() -> Callable[..., RunReport]:
    from flows.sink import sink

    return sink


def _policy(config: Path, settings: Settings) -> Policy:
    from firn.ledger.control import requester
    from firn.supervisor.sink_job import policy_of

    return policy_of(_load(config, settings), by=requester(), patience_seconds=settings.sink_patience_seconds)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM is a Ctrl-C, wherever the command is. Prefect's own handler, in a flow, gives it back to this one."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def totals(report: RunReport) -> dict[str, object]:
    """A run as one row, without its partitions."""
    return {name: value for name, value in asdict(report).items() if name not in ("partitions", "tables")}


def summary(report: RunReport) -> str:
    """A run as one sentence: records committed and left out, and what it took."""
    text = f"{report.sink}: {counted(report.records, 'record')} committed"
    if report.bad_records:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(report.reasons.items()))
        text += f", {report.bad_records} left out ({reasons}), {report.dead_letters} of them dead letters"
    work = counted(report.batches, "batch", "batches")
    if report.files:
        work += f" and {counted(report.files, 'file')}"
    return f"{text}; {work} in {report.seconds:.1f} s (epoch {report.epoch})"


def _check(file: Path) -> None:
    """Print the configuration's warnings. Raises ConfigError for its faults."""
    from firn.connector.file import read_connector_file
    from firn.connector.parse import check_sink_config
    from firn.connector.references import Resolver
    from firn.secrets import secret_reader
    from firn.settings import load_settings

    resolver = Resolver(secret_reader(load_settings()))
    checked = check_sink_config(read_connector_file(file), where=str(file), resolver=resolver)
    checked.require()
    for warned in checked.warnings:
        say(f"Warning: {warned}")
