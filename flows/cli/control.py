"""Pause, resume and stop for commands: the desired state of a job is requested, and waited for.

How a request is made, and what follows from it: `firn.operations.state_request`.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.console import say

if TYPE_CHECKING:
    from firn.operations.state_request import ControlledJob

WaitOption = Annotated[bool, typer.Option("--wait", help="Return when it has reached that state.")]
TimeoutOption = Annotated[float, typer.Option(min=1, help="Seconds that --wait waits at most.")]


def request(job: ControlledJob, action: str, config: Path, *, wait: float | None) -> None:
    """Request a state and say what follows. wait: seconds for which its arrival is awaited; None: not at all."""
    from firn.operations.state_request import request_state, wait_for_state

    file = quote(str(config))
    requested = request_state(job, action, file)
    say(str(requested))
    if wait is not None:
        wait_for_state(job, requested.desired_state, seconds=wait, file=file)
        say(f"{job.pace.kind.capitalize()} {job.name}: {requested.desired_state.value.capitalize()}.")
