"""The flow run that this code belongs to, in Prefect: who started it, and whether it was cancelled."""

from __future__ import annotations

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

_ANSWER_SECONDS = 3.0


def flow_run() -> FlowRun | None:
    """The run of this context; None outside of a flow."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


def is_deployed() -> bool:
    """Whether a Prefect worker runs this: SIGTERM is then how it cancels the flow, which must end as cancelled."""
    run = flow_run()
    return bool(run and run.deployment_id)


def is_cancelled() -> bool:
    """Whether this run was cancelled in Prefect. Raises what its client raises if the server does not answer."""
    run = flow_run()
    if run is None:
        return False
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True, httpx_settings={"timeout": _ANSWER_SECONDS}) as client,
    ):
        state = client.read_flow_run(run.id).state
    return state is not None and (state.is_cancelling() or state.is_cancelled())
