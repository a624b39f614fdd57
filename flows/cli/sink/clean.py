"""`firn sink clean`: what a sink left behind, shown and removed. Order of the steps: firn.operations.clean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.console import JsonOption, confirm_name, print_rows, require_terminal, say
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

    from firn.connector.config import SinkConfig
    from firn.operations.clean import Cleaner, Residue


def clean(
    config: ConfigArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and change nothing.")] = False,
    skip_kafka: Annotated[
        bool, typer.Option("--skip-kafka", help="Leave consumer groups and replay positions in Kafka.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove also where nobody can say whether a run lives.")
    ] = False,
    connector: Annotated[
        bool,
        typer.Option("--connector", help="Remove stages and pipes of the official connector of this name instead."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove what a sink left behind, and retire its name.

    It shows everything and asks first. Tables and topics stay.
    """
    from firn.connector.parse import load_sink_config
    from firn.connector.references import Resolver
    from firn.operations.clean import Cleaner
    from firn.operations.offsets import running_within
    from firn.operations.stillness import await_stillness
    from firn.secrets import secret_reader
    from firn.settings import load_settings
    from firn.sinks.context import kafka_login, snowflake_login
    from firn.snowflake.connection import connect
    from spark_jobs.sink.methods import registry
    from spark_jobs.sink.tables.pipes import target_of_pipe

    settings = load_settings()
    sink = load_sink_config(config, Resolver(secret_reader(settings)))
    login = snowflake_login(sink, settings)
    with connect(login, query_tag=f"firn sink clean {sink.name}") as connection:
        leftovers = [method.leftovers for method in registry.known()]
        cleaner = Cleaner(sink, settings, login, connection, leftovers, target_of_pipe)
        if connector:
            _clean_connector(connection, sink.name, cleaner, yes=yes, dry_run=dry_run, as_json=as_json)
            return
        found = cleaner.look(kafka=not skip_kafka)
        _show(sink, found, as_json=as_json)
        _check_seen(found)
        if not found.removable:
            say(f"Sink {sink.name} left nothing to remove.")
            return
        if dry_run:
            say("Nothing was changed (--dry-run).")
            return
        owner, ledger_id = found.ledger.owner, found.ledger.ledger_id
        cleaner.ledger.check_silent(owner, running_within(sink))
        if not yes and not _confirmed(sink.name):
            return
        client = None if skip_kafka else kafka_login(sink, settings)
        within = await_stillness(sink, owner, ledger_id, client, force=force, say=say)
        cleaner.clean(found, within)
        say(f"Removed what sink {sink.name} left behind. Its name is free.")


def _clean_connector(
    connection: SnowflakeConnection, name: str, cleaner: Cleaner, *, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Show and remove what the connector that the sink replaced left; the sink itself stays, and may run."""
    from firn.operations.residue.finding import COLUMNS

    found = cleaner.replaced_connector()
    print_rows([each.row() for each in found.findings()], columns=COLUMNS, as_json=as_json)
    if not found.objects:
        say(f"Connector {name} left no stage and no pipe that this role sees.")
    elif dry_run:
        say("Nothing was changed (--dry-run).")
    elif yes or _confirmed(name):
        found.remove(connection)
        say(f"Removed the stages and pipes of connector {name}. The sink was not touched.")


def _show(config: SinkConfig, found: Residue, *, as_json: bool) -> None:
    """All findings, how to remove by hand what stays, and what the clean means."""
    from firn.operations.clean import consequences
    from firn.operations.residue.finding import COLUMNS

    findings = found.findings()
    print_rows([each.row() for each in findings], columns=COLUMNS, as_json=as_json)
    if stays := [each for each in findings if each.by_hand]:
        say("What stays, and how to remove it by hand:")
        for each in stays:
            say(f"  {each.what} {each.name}: {each.by_hand}")
    for sentence in consequences(config, found) if found.removable else ():
        say(sentence)


def _check_seen(found: Residue) -> None:
    """Raise the fault of a place that cannot be read: what is not seen is removed only if a person says so."""
    for place, fault in found.faults.items():
        raise type(fault)(
            f"Nothing was removed, because {place.capitalize()} could not be read: {fault.what}",
            where=fault.where,
            next_step=f"{fault.next_step} To remove the rest, give --skip-{place}.",
        ) from fault


def _confirmed(name: str) -> bool:
    require_terminal("firn sink clean", "Give --yes to remove all of this; --dry-run only shows it.")
    return confirm_name(f"Type the sink's name ({name}) to remove this", name)
