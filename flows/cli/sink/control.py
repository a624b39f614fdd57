"""`firn sink pause`, `resume`, `stop`: say what a sink shall do. It is its supervisor that does it (FIRN_SINKS)."""

from __future__ import annotations

import getpass
import shlex
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.errors import TerminalError, TransientError
from flows.cli.console import say

if TYPE_CHECKING:
    from firn.connector.config import SinkConfig
    from firn.ledger.control import SinkRecord, Wanted
    from firn.operations.observation import Observation, Observer

ConfigArgument = Annotated[Path, typer.Argument(help="Connector configuration, JSON or .properties.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Return when it is so.")]
TimeoutOption = Annotated[float, typer.Option(min=1, help="Seconds that --wait waits.")]
_LOOK_SECONDS = 2.0
_RECENT_SECONDS = 180.0
"""A supervisor that wrote within this time is taken for alive; an idle one may be silent for longer."""


def pause(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """End the sink's driver after its batch; the supervisor stays, and reports the lag."""
    from firn.ledger.control import Wanted

    _ask(config, Wanted.PAUSED, wait=timeout if wait else None)


def resume(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """Let a paused, stopped or failed sink go on where the ledger stands."""
    from firn.ledger.control import Wanted

    _ask(config, Wanted.RUNNING, wait=timeout if wait else None)


def stop(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """End the sink's driver after its batch, and its supervisor: nothing starts it again before `resume`."""
    from firn.ledger.control import Wanted

    _ask(config, Wanted.STOPPED, wait=timeout if wait else None)


def _ask(file: Path, wanted: Wanted, *, wait: float | None) -> None:
    from firn.ledger.control import SinkRecords
    from firn.operations.observation import Observer
    from firn.operations.selection import of_files
    from firn.settings import load_settings
    from firn.snowflake.connection import connect

    (context,) = of_files([file], load_settings())
    sink = context.config
    observer = Observer(context)
    try:
        before = observer.ask_ledger()
        with connect(context.login, query_tag=f"firn sink {sink.name}") as connection:
            records = SinkRecords(context.namespace, sink.name)
            records.ensure(connection)
            records.want(connection, wanted, f"{getpass.getuser()}@{socket.gethostname()}")
        say(f"Sink {sink.name} is to be {wanted.value}. {_consequence(sink, wanted, before, file)}")
        if wait is not None:
            _wait(sink, wanted, observer, wait, file)
    finally:
        observer.close()


def _consequence(sink: SinkConfig, wanted: Wanted, before: Observation, file: Path) -> str:
    """What will happen, when, and who does it; or that nobody is there to do it."""
    from firn.ledger.control import Wanted
    from firn.operations.offsets import running_within

    record, runs = before.record, before.owner is not None and before.owner.runs(running_within(sink))
    if wanted is Wanted.RUNNING:
        if runs:
            return "A run holds it already, and gives signs of life."
        return (
            f"{_supervisor(record)} Where there is none: `firn sink run {_pasted(file)}`, or its deployment's schedule."
        )
    if runs and (record is None or record.updated_at is None):
        return (
            "A run holds it that has no supervisor, so that nobody ends it: send it SIGTERM, or cancel its flow run. "
            "It is not started again before `firn sink resume`."
        )
    if runs:
        within = "It asks within 30 s, and the driver ends after the batch that runs."
        return f"{_supervisor(record)} {within}"
    return f"Nobody runs it now, and no schedule starts it before `firn sink resume {_pasted(file)}`."


def _supervisor(record: SinkRecord | None) -> str:
    from firn.ledger.owner import spoken

    if record is None or record.silent_seconds is None:
        return "No supervisor was ever seen."
    ago = f"{spoken(record.silent_seconds)} ago"
    if record.silent_seconds < _RECENT_SECONDS:
        return f"Its supervisor ({record.seen_on}) was seen {ago}."
    return f"Its supervisor ({record.seen_on}) was seen {ago}; it writes only when something changes."


def _wait(sink: SinkConfig, wanted: Wanted, observer: Observer, seconds: float, file: Path) -> None:
    """Until it is so. Raises TerminalError where the sink fails, TransientError where it lasts for too long."""
    from firn.ledger.control import Wanted
    from firn.operations.health import Word, judge

    goal = {Wanted.PAUSED: Word.PAUSED, Wanted.RUNNING: Word.RUNNING, Wanted.STOPPED: Word.STOPPED}[wanted]
    deadline = time.monotonic() + seconds
    while True:
        verdict = judge(sink, observer.ask_ledger())
        if verdict.word is goal:
            say(f"Sink {sink.name}: {verdict.word}.")
            return
        if verdict.word is Word.FAILED:
            raise TerminalError(verdict.why, where=f"sink {sink.name}", next_step=verdict.next_step)
        if time.monotonic() > deadline:
            raise TransientError(
                f"The sink is not {wanted.value} after {seconds:.0f} s: {verdict.word}. {verdict.why}".strip(),
                where=f"sink {sink.name}",
                next_step=f"What is wanted stays written down. Look at `firn sink status {_pasted(file)}` and at `firn "
                f"sink logs {_pasted(file)}`.",
            )
        time.sleep(_LOOK_SECONDS)


def _pasted(file: Path) -> str:
    return shlex.quote(str(file))
