"""The sink_control flow: pauses, resumes or stops a sink, on whichever machine it runs. Not for running it (`sink`)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

from prefect import flow, get_run_logger
from pydantic import Field

from firn.operations.observer import Observer
from firn.operations.selection import of_files
from firn.operations.state_request import StateRequest, controlled_sink, request_state
from firn.settings import load_settings
from flows.prefect_ui.forms import described
from flows.sink import DEFAULT_CONFIG


@flow(name="sink", description="Pause, resume or stop a sink, on whichever machine it runs.")
@described
def sink_control(
    config: Annotated[Path, Field(description="Connector file of the sink, on the worker's machine.")] = DEFAULT_CONFIG,
    action: Annotated[
        Literal["pause", "resume", "stop"],
        Field(description="pause and stop end the driver after its batch; resume continues from the ledger."),
    ] = "pause",
) -> StateRequest:
    """Set the desired state of a sink and return the request; the sink's supervisor follows it within 30 s.

    The flow is named `sink`, as the one that it controls: its deployment is `sink/sink-control`.
    """
    (context,) = of_files([config], load_settings())
    observer = Observer(context)
    try:
        request = request_state(controlled_sink(context, observer), action, shlex.quote(str(config)))
    finally:
        observer.close()
    get_run_logger().info("%s", request)
    return request
