"""`firn sink status`: the state of sinks, with figures. How the state is found: `firn.operations.health`."""

from __future__ import annotations

import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.console import JsonOption, print_rows, say, stdout

if TYPE_CHECKING:
    from firn.connector.config import SinkConfig
    from firn.operations.observer import Observer
    from firn.operations.status import Status

NOT_WELL = 8
"""Exit code where a sink is failed, stalled or unknown, or its ledger is past Kafka's end."""
_AT_ONCE = 8


def status(
    config: Annotated[
        list[Path] | None,
        typer.Argument(help="Connector files; without any, all sinks of the schema in the settings."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=1, help="Seconds between two looks with --watch.")] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Show the state, lag, rates and errors of sinks.

    The exit code is 8 if a sink needs attention.
    """
    found = _look(config or [], watch=watch, every=every, as_json=as_json)
    if any(each.needs_attention for each in found):
        raise typer.Exit(NOT_WELL)


def _look(files: list[Path], *, watch: bool, every: float, as_json: bool) -> list[Status]:
    """The last statuses that were shown."""
    from firn.operations.observer import Observer
    from firn.operations.selection import of_files, of_schema
    from firn.settings import load_settings

    settings = load_settings()
    contexts = of_files(files, settings) if files else of_schema(settings)
    if not contexts:
        schema = f"{settings.snowflake_database}.{settings.snowflake_schema}"
        say(f"Schema {schema} has no supervised sink yet. For another sink give its file: firn sink status <config>.")
        return []
    looks = [(context.config, Observer(context)) for context in contexts]
    found: list[Status] = []
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while True:
                found = list(pool.map(lambda look: _status(*look), looks))
                _show(found, files=files, clear=watch, as_json=as_json)
                if not watch:
                    return found
                time.sleep(every)
    except KeyboardInterrupt:
        if not watch:
            raise
        return found
    finally:
        for _, observer in looks:
            observer.close()


def _status(config: SinkConfig, observer: Observer) -> Status:
    from firn.errors import FirnError
    from firn.operations.status import Status

    try:
        return Status.of(config, observer.look())
    except FirnError as fault:
        return Status.of(config, observer.remembered(), fault)


def _show(found: list[Status], *, files: list[Path], clear: bool, as_json: bool) -> None:
    from firn.operations.status_lines import SINK_COLUMNS, sink_row

    if as_json:
        print_rows([each.row() for each in found], columns=(), as_json=True)
        return
    if clear:
        stdout.clear()
    if len(files) != 1:
        print_rows([sink_row(each) for each in found], columns=SINK_COLUMNS)
    for number, each in enumerate(found):
        say_diagnosis(each, shlex.quote(str(files[number])) if files else "<config>")
        if files:
            _print_details(each)
    if not files:
        say("For figures and partitions of one sink: firn sink status <config>.")


def say_diagnosis(found: Status, file: str) -> None:
    """The state, and what to do: on stdout, for it is the result."""
    from firn.operations.status import iso

    diagnosis = found.diagnosis
    since = f" since {iso(diagnosis.since)}" if diagnosis.since else ""
    lines = [f"{found.kind.capitalize()} {found.name}: {diagnosis.state.word}{since}"]
    if diagnosis.reason:
        lines.append(f"  Why: {diagnosis.reason}")
    if diagnosis.next_step:
        lines.append(f"  Next: {diagnosis.next_step.replace('<config>', file)}")
    if found.absent:
        lines.append(f"  Not in Kafka: {', '.join(found.absent)}")
    stdout.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _print_details(found: Status) -> None:
    from firn.operations.status_lines import PARTITION_COLUMNS, figures, partition_row

    lines = [asdict(each) for each in figures(found)]
    print_rows(lines, columns=("figure", "value", "good", "mark"))
    if found.partitions:
        print_rows([partition_row(each, found.limits) for each in found.partitions], columns=PARTITION_COLUMNS)
