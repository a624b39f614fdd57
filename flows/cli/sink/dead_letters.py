"""`firn sink dead-letters`: what a sink left out of its table, looked at and sent back to its topic."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.plural import counted
from flows.cli.console import JsonOption, confirm, print_rows, say
from flows.cli.dead_letters import (
    AllOption,
    NewestOption,
    OffsetArgument,
    OneJsonOption,
    PartitionArgument,
    print_letter,
)
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from firn.connector.config import SinkConfig
    from firn.dead_letters.queue import DeadLetterQueue
    from firn.kafka.client import KafkaClient
    from firn.settings import Settings

app = typer.Typer(name="dead-letters", help="List, show and replay records that a sink left out.", no_args_is_help=True)

_REPLAYED = ("topic", "partition", "letters")


@app.command("list")
def _list(
    config: ConfigArgument,
    newest: NewestOption = 50,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the newest dead letters of a sink."""
    from firn.dead_letters.reader import COLUMNS, DeadLetterReader, Summary

    letters = _letters(config)
    found = DeadLetterReader(letters.client, letters.topic, letters.sink.name).newest(None if everything else newest)
    print_rows((asdict(Summary.of(each)) for each in found), columns=COLUMNS, as_json=as_json)
    say(f"{counted(len(found), 'letter')} of sink {letters.sink.name} in topic {letters.topic}")


@app.command("show")
def _show(
    config: ConfigArgument,
    partition: PartitionArgument,
    offset: OffsetArgument,
    as_json: OneJsonOption = False,
) -> None:
    """Show one dead letter: its origin and reason, headers, key and value."""
    from firn.dead_letters.reader import COLUMNS, DeadLetterReader, document

    letters = _letters(config)
    found = DeadLetterReader(letters.client, letters.topic, letters.sink.name).one(partition, offset)
    print_letter(document(found), COLUMNS, as_json=as_json)


@app.command("replay")
def _replay(
    config: ConfigArgument,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Replay only the letter at --partition and --offset.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, help="Replay only the letter at --partition and --offset.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Send the records of dead letters back to their topics, each once.

    A second replay sends nothing again.
    """
    if (partition is None) != (offset is None):
        raise typer.BadParameter("Give --partition and --offset together: they name one letter.")

    from firn.dead_letters.replay import Replay

    sink = _letters(config)
    replay = Replay(_queue(sink), sink.sink, None if partition is None or offset is None else (partition, offset))
    rows = replay.count()
    letters = sum(row.letters for row in rows)
    if letters and not dry_run:
        if not yes:
            for row in rows:
                place = "by key" if row.partition < 0 else f"partition {row.partition}"
                say(f"{row.letters} to {row.topic}, {place}")
            if not confirm(f"Send {counted(letters, 'record')} back to their topics?"):
                return
        rows = replay.send()
        letters = sum(row.letters for row in rows)
    print_rows([asdict(row) for row in rows], columns=_REPLAYED, as_json=as_json)
    if letters:
        say(f"{counted(letters, 'record')} {'would be sent' if dry_run else 'sent'} back")
    else:
        say("There is nothing to replay.")


@dataclass(frozen=True)
class _Letters:
    """Where the dead letters of a sink are."""

    settings: Settings
    sink: SinkConfig
    topic: str
    client: KafkaClient


def _letters(file: Path) -> _Letters:
    """The dead letters of a connector file's sink. Raises ConfigError where it has none."""
    from firn.connector.parse import load_sink_config
    from firn.connector.references import Resolver
    from firn.dead_letters.queue import dead_letter_topic
    from firn.errors import ConfigError
    from firn.secrets import secret_reader
    from firn.settings import load_settings
    from firn.sinks.context import kafka_login

    settings = load_settings()
    config = load_sink_config(file, Resolver(secret_reader(settings)))
    topic = dead_letter_topic(config)
    if topic is None:
        raise ConfigError(
            "The sink publishes no dead letters.",
            where=str(file),
            next_step="Set errors.tolerance=all and errors.deadletterqueue.topic.name to keep bad records.",
        )
    return _Letters(settings, config, topic, kafka_login(config, settings))


def _queue(letters: _Letters) -> DeadLetterQueue:
    """What a replay needs beside: under which names Kafka remembers what was replayed. Asks the sink's ledger.

    Raises ConfigError where there is none, so that nobody could tell what was replayed before.
    """
    from firn.dead_letters.queue import queue_of
    from firn.errors import ConfigError
    from firn.ledger.rows import TABLE
    from firn.ledger.table import LedgerTable
    from firn.sinks.context import snowflake_login
    from firn.snowflake.connection import connect
    from firn.snowflake.identifiers import Namespace

    login = snowflake_login(letters.sink, letters.settings)
    namespace = Namespace(login.database, login.schema)
    with connect(login, query_tag=f"firn sink dead-letters {letters.sink.name}") as connection:
        ledger_id = LedgerTable(namespace, letters.sink.name).ledger_id(connection)
    queue = queue_of(letters.sink, letters.client, ledger_id) if ledger_id else None
    if queue is None:
        raise ConfigError(
            f"There is no ledger {namespace.qualified(TABLE)}, under whose id Kafka remembers what was replayed.",
            where=f"sink {letters.sink.name}",
            next_step="Name the sink's database and schema in the connector, as it runs with them. A sink that never "
            "ran has left out no record.",
        )
    return queue
