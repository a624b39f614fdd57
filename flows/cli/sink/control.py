"""`firn sink pause`, `resume`, `stop`: set the desired state of a sink. Its supervisor follows it."""

from __future__ import annotations

from pathlib import Path

from flows.cli.control import TimeoutOption, WaitOption, request
from flows.cli.sink.arguments import ConfigArgument


def pause(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """Pause a sink.

    Its driver ends after the current batch. Its supervisor keeps running and reports the lag.
    """
    _request("pause", config, wait=timeout if wait else None)


def resume(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """Resume a paused, stopped or failed sink.

    It continues from its committed positions.
    """
    _request("resume", config, wait=timeout if wait else None)


def stop(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """Stop a sink.

    Its driver ends after the current batch, and its supervisor too. No schedule starts it before `firn sink resume`.
    """
    _request("stop", config, wait=timeout if wait else None)


def _request(action: str, config: Path, *, wait: float | None) -> None:
    from firn.operations.observer import Observer
    from firn.operations.selection import of_files
    from firn.operations.state_request import controlled_sink
    from firn.settings import load_settings

    (context,) = of_files([config], load_settings())
    observer = Observer(context)
    try:
        request(controlled_sink(context, observer), action, config, wait=wait)
    finally:
        observer.close()
