"""`firn deploy`: the deployments of prefect.yaml and the automations of infra/prefect, into a Prefect server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from flows.cli.console import JsonOption, print_rows, say

COLUMNS = ("kind", "name", "what", "runs", "notifies")


def add(app: typer.Typer) -> None:
    """Add this family's commands."""
    app.command("deploy")(_deploy)


def _deploy(
    paused: Annotated[
        bool, typer.Option("--paused", help="Keep schedules and triggers off until you switch them on in the UI.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Deploy all flows and automations to the Prefect server.

    Run it again after each change of prefect.yaml or infra/prefect.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    from firn.errors import ConfigError
    from flows.prefect_ui.automations import apply_automations
    from flows.prefect_ui.deployments import deploy_all, deployed

    if not PREFECT_API_URL.value():
        raise ConfigError(
            "No Prefect server is configured.",
            where="PREFECT_API_URL",
            next_step="Set it, or FIRN_PREFECT_API_URL. `firn up` starts a server on this machine.",
        )
    say("Deploying ...")
    deploy_all(paused=paused)
    with get_client(sync_client=True) as client:
        deployments, applied = deployed(client), list(apply_automations(client))
    rows: list[Mapping[str, object]] = [
        *({"kind": "deployment", "name": each.name, "what": "deployed", "runs": each.schedule} for each in deployments),
        *(
            {"kind": "automation", **each._asdict(), "runs": "on its event" if each.enabled else "off"}
            for each in applied
        ),
    ]
    print_rows(({column: row.get(column) for column in COLUMNS} for row in rows), columns=COLUMNS, as_json=as_json)
    if any(each.silent for each in applied):
        say("No alerts are sent yet: save a notification block named firn-alerts in the UI, then `firn deploy` again.")
