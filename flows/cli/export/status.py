"""`firn export status`: the state of one export, its lag by source, and when its streams become stale."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from flows.cli.console import JsonOption, print_rows
from flows.cli.sink.arguments import ConfigArgument
from flows.cli.sink.status import NOT_WELL, say_diagnosis

if TYPE_CHECKING:
    from firn.exports.context import ExportContext
    from firn.operations.exports.observer import ExportObserver
    from firn.operations.exports.streams import Staleness
    from firn.operations.status import Status

_COLUMNS = ("source", "topic", "rows", "oldest", "first_waiting", "last_moved", "state")
_FIGURES = ("state", "records/s", "bytes/s", "lag", "oldest record", "errors", "measured")


def status(config: ConfigArgument, as_json: JsonOption = False) -> None:
    """Show the state of an export, what waits in its sources and outboxes, and when streams become stale.

    A warehouse runs none of it while nothing changes. The exit code is 8 if the export needs attention.
    """
    from firn.operations.exports.control import export_of_file
    from firn.operations.exports.observer import ExportObserver
    from firn.operations.exports.streams import now
    from firn.settings import load_settings

    context = export_of_file(config, load_settings())
    observer = ExportObserver(context)
    try:
        found, streams, at = _status(context, observer), _streams(context), now()
    finally:
        observer.close()
    if as_json:
        print_rows([{**found.row(), "streams": [each.row(at) for each in streams]}], columns=(), as_json=True)
    else:
        _show(found, streams, shlex.quote(str(config)))
    if found.needs_attention or any(each.needs_attention(at) for each in streams):
        raise typer.Exit(NOT_WELL)


def _status(context: ExportContext, observer: ExportObserver) -> Status:
    from firn.errors import FirnError
    from firn.operations.exports.observer import pace_of_export
    from firn.operations.status import Status

    pace, name, tasks = pace_of_export(context.config), context.config.name, context.config.tasks_max
    try:
        return Status.of_job(pace, name, observer.look(), tasks_max=tasks)
    except FirnError as fault:
        return Status.of_job(pace, name, observer.remembered(), fault, tasks_max=tasks)


def _streams(context: ExportContext) -> list[Staleness]:
    from firn.exports import names
    from firn.exports.sources import discover
    from firn.operations.exports.streams import staleness
    from firn.snowflake.connection import connect

    with connect(context.login, query_tag=names.query_tag(context.config.name)) as connection:
        return staleness(connection, discover(connection, context.config, context.namespace))


def _show(found: Status, streams: list[Staleness], file: str) -> None:
    from firn.operations.exports import streams as of_streams
    from firn.operations.status_lines import age, figures

    say_diagnosis(found, file)
    lines = [asdict(each) for each in figures(found) if each.figure in _FIGURES]
    print_rows(lines, columns=("figure", "value", "good", "mark"))
    waiting = [
        {
            "source": each.table,
            "topic": each.topic,
            "rows": each.lag,
            "oldest": age(each.lag_seconds),
            "first_waiting": each.next_offset,
            "last_moved": (each.end_offset or 1) - 1,
            "state": each.state,
        }
        for each in found.partitions
    ]
    print_rows(waiting, columns=_COLUMNS, title="Sources")
    at = of_streams.now()
    print_rows([each.row(at) for each in streams], columns=of_streams.COLUMNS, title="Streams")
