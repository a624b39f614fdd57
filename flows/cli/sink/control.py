"""`firn sink pause`, `resume`, `stop`: set the desired state of a sink. Its supervisor follows it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.console import say
from flows.cli.sink.arguments import ConfigArgument

WaitOption = Annotated[bool, typer.Option("--wait", help="Return when the sink has reached that state.")]
TimeoutOption = Annotated[float, typer.Option(min=1, help="Seconds that --wait waits at most.")]


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
    from firn.operations.state_request import request_state, wait_for_state
    from firn.settings import load_settings

    (context,) = of_files([config], load_settings())
    observer, file = Observer(context), shlex.quote(str(config))
    try:
        request = request_state(context, observer, action, file)
        say(str(request))
        if wait is not None:
            wait_for_state(context.config, observer, request.desired_state, seconds=wait, file=file)
            say(f"Sink {request.sink}: {request.desired_state.value.capitalize()}.")
    finally:
        observer.close()
