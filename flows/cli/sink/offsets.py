"""`firn sink offsets`: the positions of a sink, shown and reset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flows.cli.console import JsonOption, confirm, print_rows, require_terminal, say
from flows.cli.sink.arguments import ConfigArgument

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

    from firn.connector.config import SinkConfig
    from firn.kafka.cluster import KafkaAdmin
    from firn.ledger.table import LedgerTable
    from firn.operations.offset_reset import Step, Target
    from firn.operations.offsets import SinkOffsets
    from firn.operations.table_positions import TablePositions
    from firn.sinks.context import SinkContext


def offsets(
    config: ConfigArgument,
    reset: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Set the next offset: earliest, latest, table (behind its newest row), an offset, +n or -n from the "
            "current one, a time (2026-11-21T10:00:00Z), or @<Unix milliseconds>.",
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition of the topic.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Reset without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan of a reset, and change nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Reset also where nobody can say whether a run lives.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show or reset the position of each partition.

    It shows the lag too. A reset shows its plan and asks first.
    """
    target = _target(reset, given=yes or dry_run or force)

    from firn.operations.offset_reset import plan
    from firn.operations.offsets import COLUMNS, look, running_within, select
    from firn.operations.table_positions import TablePositions
    from spark_jobs.sink.tables.pipes import target_of_pipe

    with _opened(config) as sink:
        found = look(sink.config, sink.table, sink.connection, sink.admin, reports=target is None)
        chosen = select(found, topic, partition)
        _say_state(found, running_within(sink.config))
        if target is None:
            print_rows([each.row() for each in chosen], columns=COLUMNS, as_json=as_json)
            return
        # What the file does not name is reset by name alone.
        held = TablePositions(sink.connection, sink.context.namespace, sink.config, target_of_pipe)
        steps = plan([each for each in chosen if topic or each.state != "unread"], target, sink.admin, held)
        _show(found, target, steps, as_json=as_json)
        if dry_run:
            say("Nothing was changed (--dry-run).")
            return
        sink.table.check_silent(found.owner, running_within(sink.config))
        if yes or _confirmed():
            _reset(sink, found, steps, held, force=force)


class _Sink(NamedTuple):
    """A sink, and the sessions in which its positions are looked at and set."""

    config: SinkConfig
    context: SinkContext
    admin: KafkaAdmin
    table: LedgerTable
    connection: SnowflakeConnection


@contextmanager
def _opened(file: Path) -> Iterator[_Sink]:
    from firn.connector.parse import load_sink_config
    from firn.connector.references import Resolver
    from firn.kafka import cluster
    from firn.ledger.table import LedgerTable
    from firn.secrets import secret_reader
    from firn.settings import load_settings
    from firn.sinks.context import SinkContext, kafka_login, snowflake_login
    from firn.snowflake.connection import connect

    settings = load_settings()
    config = load_sink_config(file, Resolver(secret_reader(settings)))
    client, login = kafka_login(config, settings), snowflake_login(config, settings)
    context = SinkContext(config, settings, client, None, None, login)
    table = LedgerTable(context.namespace, config.name)
    with connect(login, query_tag=f"firn sink offsets {config.name}") as connection:
        yield _Sink(config, context, cluster.admin_client(client), table, connection)


def _reset(sink: _Sink, found: SinkOffsets, steps: list[Step], held: TablePositions, *, force: bool) -> None:
    """Wait until no run holds the sink, and set its positions."""
    from firn.operations.offset_reset import reset
    from firn.operations.stillness import await_stillness
    from firn.sinks.channel_folding import ChannelFolder

    config, client = sink.config, sink.context.kafka
    ledger_id = sink.table.ledger_id(sink.connection)
    fold = ChannelFolder(sink.context, ledger_id) if ledger_id else None
    within = await_stillness(config, found.owner, ledger_id, client, force=force, say=say)
    epoch = reset(config, sink.table, sink.connection, client, steps, within, fold=fold, held=held)
    say(f"The positions are reset (epoch {epoch}). The sink continues from them when it starts.")


def _target(text: str | None, *, given: bool) -> Target | None:
    """What is asked for; bad ones are wrong usage. given: whether there is any option of a reset."""
    if text is None:
        if given:
            raise typer.BadParameter("--yes, --dry-run and --force need --reset.")
        return None

    from firn.operations.offset_reset import parse_target

    try:
        return parse_target(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--reset") from None


def _say_state(found: SinkOffsets, running_within: float) -> None:
    say(found.spoken_owner(running_within))
    if found.owner and found.owner.tokens_ahead:
        say(
            "Its channels may be ahead of these positions: a streaming run moves them rarely, and in any case when it "
            "ends in order. A start or a reset opens the channels first; --reset table goes on behind the newest rows."
        )
    if found.absent:
        say(f"Not in Kafka: {', '.join(found.absent)}.")


def _show(found: SinkOffsets, target: Target, steps: list[Step], *, as_json: bool) -> None:
    """The plan and what it means."""
    from firn.operations.offset_reset import COLUMNS, consequences

    print_rows([step.row() for step in steps], columns=COLUMNS, as_json=as_json)
    if target.spoken:
        say(
            f"Each partition continues at its first record of {target.spoken} or later, or at its end if there is none."
        )
    planned = {step.where for step in steps}
    if left := [f"{each.where} ({each.state})" for each in found.partitions if each.where not in planned]:
        say(f"Unchanged: {', '.join(left)}.")
    for sentence in consequences(steps):
        say(sentence)


def _confirmed() -> bool:
    require_terminal("firn sink offsets --reset", "Give --yes if the plan above is right; --dry-run only shows it.")
    return confirm("Reset these positions?")
