"""`firn sink logs`: the log of a sink's driver, or Spark's own, from the files of this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.errors import ConfigError, FirnError, TerminalError
from flows.cli.console import say
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from firn.settings import Settings

_POLL_SECONDS = 0.5


def logs(
    config: ConfigArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of the newest lines to print.")] = 100,
    spark: Annotated[bool, typer.Option("--spark", help="Print Spark's own log instead of the sink's.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as they are in the file.")] = False,
) -> None:
    """Print the newest lines of a sink's log."""
    from firn.operations.log_files import LogReader, driver_log, readable
    from firn.settings import load_settings
    from firn.sinks.context import spark_log

    settings, sink = load_settings(), _name(config)
    file = spark_log(settings, sink) if spark else driver_log(settings, sink)
    if not file.is_file():
        raise _absent(config, sink, file, settings)
    shown = (lambda line: line) if as_json else readable
    say(f"From {file}")
    reader = LogReader(file)
    try:
        _print(map(shown, reader.newest(lines)))
        while follow:
            time.sleep(_POLL_SECONDS)
            _print(map(shown, reader.more()))
    except KeyboardInterrupt:
        if not follow:
            raise
    finally:
        reader.close()


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _name(file: Path) -> str:
    """The sink's name, also from a file with faults or missing secrets: they do not hide a log."""
    from firn.connector.file import read_connector_file

    name = read_connector_file(file).get("name")
    if not name:
        raise ConfigError("The file has no sink name.", where=str(file), next_step='Add "name".')
    return name


def _absent(file: Path, sink: str, log: Path, settings: Settings) -> FirnError:
    """The error about a log that is not here: it says where the supervisor reported last, if that is known."""
    seen = _seen_on(file, settings)
    elsewhere = f"Its supervisor last reported from {seen}: run the command there, with its FIRN_HOME. " if seen else ""
    return TerminalError(
        f"Sink {sink} has no log on this machine.",
        where=str(log),
        next_step=f"{elsewhere}The machine that runs the sink writes it, in logs/ of FIRN_HOME ({settings.home}), "
        "from the first start of its driver on.",
    )


def _seen_on(file: Path, settings: Settings) -> str:
    """Where the sink's supervisor reported last; empty if that is not known."""
    from firn.ledger.owner import spoken
    from firn.operations.observer import Observer
    from firn.operations.selection import of_files

    try:
        (context,) = of_files([file], settings)
        observer = Observer(context)
        try:
            record = observer.ask_snowflake().record
        finally:
            observer.close()
    except FirnError:
        return ""
    if record is None or record.silent_seconds is None:
        return ""
    return f"{record.supervisor}, {spoken(record.silent_seconds)} ago"
