"""`firn up`, `firn down`, `firn status`: the embedded stack on this machine (docs/local-stack.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.settings import load_settings
from flows.cli.console import JsonOption, print_rows, say

if TYPE_CHECKING:
    from firn_local.stack.lifecycle import ServerStatus

_COLUMNS = ("server", "state", "pid", "address")


def add(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(up)
    app.command()(down)
    app.command()(status)


def up(
    new_ports: Annotated[
        bool, typer.Option("--new-ports", help="Stop the servers, choose other ports, and start again.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start the local stack, or what is missing of it.

    Its servers are Kafka, a schema registry, Secrets Manager, Snowflake and Prefect, all on this machine.
    """
    from firn_local.stack import lifecycle

    servers = lifecycle.up(load_settings().home, say, new_ports=new_ports)
    _print(servers, as_json)
    say(f"Prefect UI: {next(s.address for s in servers if s.name == 'prefect')}\nStop the stack: firn down")


def down(
    purge: Annotated[
        bool, typer.Option("--purge", help="Also delete all topics, tables, secrets and flow runs.")
    ] = False,
) -> None:
    """Stop the local stack.

    Its data stays, unless you give --purge.
    """
    from firn_local.stack import lifecycle

    lifecycle.down(load_settings().home, say, purge=purge)


def status(as_json: JsonOption = False) -> None:
    """Show the state, process, address and log of each server.

    The exit code is 0 if all servers run, else 1.
    """
    from firn_local.stack import lifecycle

    servers = lifecycle.status(load_settings().home)
    _print(servers, as_json)
    for server in servers:
        if server.reason or server.also:
            say(f"{server.name}: {server.reason or server.also}")
    if any(server.state != "running" for server in servers):
        raise typer.Exit(1)


def _print(servers: list[ServerStatus], as_json: bool) -> None:
    rows = (
        {"server": s.name, "state": s.state, "pid": s.pid, "address": s.address, "log": s.log, "reason": s.reason}
        for s in servers
    )
    print_rows(rows, columns=_COLUMNS, as_json=as_json)
    if not as_json and servers:
        say(f"Logs: {Path(servers[0].log).parent}")
