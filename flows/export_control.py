"""The export_control flow: pauses, resumes or stops an export, wherever it runs. Not for running it (`export`)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

from prefect import flow, get_run_logger
from pydantic import Field

from firn.operations.exports.control import controlled_export, export_of_file
from firn.operations.exports.observer import ExportObserver
from firn.operations.state_request import StateRequest, request_state
from firn.settings import load_settings
from flows.export import DEFAULT_CONFIG
from flows.prefect_ui.forms import described


@flow(name="export", description="Pause, resume or stop an export, on whichever machine it runs.")
@described
def export_control(
    config: Annotated[
        Path, Field(description="Connector file of the export, on the worker's machine.")
    ] = DEFAULT_CONFIG,
    action: Annotated[
        Literal["pause", "resume", "stop"],
        Field(
            description="pause and stop end the driver after its batch; resume continues with the changes since then."
        ),
    ] = "pause",
) -> StateRequest:
    """Set the desired state of an export and return the request; its supervisor follows it within 30 s.

    The flow is named `export`, as the one that it controls: its deployment is `export/export-control`.
    """
    context = export_of_file(config, load_settings())
    observer = ExportObserver(context)
    try:
        request = request_state(controlled_export(context, observer), action, shlex.quote(str(config)))
    finally:
        observer.close()
    get_run_logger().info("%s", request)
    return request
