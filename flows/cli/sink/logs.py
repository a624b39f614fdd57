"""`firn sink logs`: the log of a sink's driver, or Spark's own, from the files of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.errors import FirnError, TerminalError
from flows.cli.log_lines import AsIsOption, FollowOption, LinesOption, name_in, print_log
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from firn.settings import Settings


def logs(
    config: ConfigArgument,
    follow: FollowOption = False,
    lines: LinesOption = 100,
    spark: Annotated[bool, typer.Option("--spark", help="Print Spark's own log instead of the sink's.")] = False,
    as_json: AsIsOption = False,
) -> None:
    """Print the newest lines of a sink's log."""
    from firn.operations.log_files import driver_log
    from firn.settings import load_settings
    from firn.sinks.context import spark_log

    settings, sink = load_settings(), name_in(config, "sink")
    file = spark_log(settings, sink) if spark else driver_log(settings, sink)
    if not file.is_file():
        raise _absent(config, sink, file, settings)
    print_log(file, follow=follow, lines=lines, as_json=as_json)


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
