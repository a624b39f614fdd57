"""`firn export pause`, `resume`, `stop`: set the desired state of an export. Its supervisor follows it."""

from __future__ import annotations

from pathlib import Path

from flows.cli.control import TimeoutOption, WaitOption, request
from flows.cli.sink.arguments import ConfigArgument


def pause(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """Pause an export.

    Its driver ends after the current batch; changes wait in streams and outboxes. A stream becomes stale if nothing
    consumes it for longer than its table's retention: `firn export status` shows when.
    """
    _request("pause", config, wait=timeout if wait else None)


def resume(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """Resume a paused, stopped or failed export.

    It continues with the changes since then.
    """
    _request("resume", config, wait=timeout if wait else None)


def stop(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """Stop an export.

    Its driver ends after the current batch, and its supervisor too. No schedule starts it before `firn export resume`.
    """
    _request("stop", config, wait=timeout if wait else None)


def _request(action: str, config: Path, *, wait: float | None) -> None:
    from firn.operations.exports.control import controlled_export, export_of_file
    from firn.operations.exports.observer import ExportObserver
    from firn.settings import load_settings

    context = export_of_file(config, load_settings())
    observer = ExportObserver(context)
    try:
        request(controlled_export(context, observer), action, config, wait=wait)
    finally:
        observer.close()
