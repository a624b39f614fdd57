"""`firn sink pause`, `resume`, `stop`: set the desired state in FIRN_SINKS. The sink's supervisor follows it."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.errors import TerminalError, TransientError
from flows.cli.console import say

if TYPE_CHECKING:
    from firn.connector.config import SinkConfig
    from firn.ledger.control_record import ControlRecord, DesiredState
    from firn.operations.observation import Observation
    from firn.operations.observer import Observer

ConfigArgument = Annotated[Path, typer.Argument(help="Connector configuration, JSON or .properties.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Return when the sink has that state.")]
TimeoutOption = Annotated[float, typer.Option(min=1, help="Seconds that --wait waits.")]
_LOOK_SECONDS = 2.0
_RECENT_SECONDS = 180.0
"""A supervisor that wrote within this time is taken for alive; an idle one may be silent for longer."""


def pause(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """End the sink's driver after its batch; the supervisor stays, and reports the lag."""
    from firn.ledger.control_record import DesiredState

    _ask(config, DesiredState.PAUSED, wait=timeout if wait else None)


def resume(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """Let a paused, stopped or failed sink go on where the ledger stands."""
    from firn.ledger.control_record import DesiredState

    _ask(config, DesiredState.RUNNING, wait=timeout if wait else None)


def stop(config: ConfigArgument, wait: WaitOption = False, timeout: TimeoutOption = 180.0) -> None:
    """End the sink's driver after its batch, and its supervisor: nothing starts it again before `resume`."""
    from firn.ledger.control_record import DesiredState

    _ask(config, DesiredState.STOPPED, wait=timeout if wait else None)


def _ask(file: Path, desired: DesiredState, *, wait: float | None) -> None:
    from firn.ledger.control import ControlTable, requester
    from firn.operations.observer import Observer
    from firn.operations.selection import of_files
    from firn.settings import load_settings
    from firn.snowflake.connection import connect

    (context,) = of_files([file], load_settings())
    sink = context.config
    observer = Observer(context)
    try:
        before = observer.ask_ledger()
        with connect(context.login, query_tag=f"firn sink {sink.name}") as connection:
            records = ControlTable(context.namespace, sink.name)
            records.ensure(connection)
            records.request(connection, desired, requester())
        say(f"Sink {sink.name} is to be {desired.value}. {_consequence(sink, desired, before, file)}")
        if wait is not None:
            _wait(sink, desired, observer, wait, file)
    finally:
        observer.close()


def _consequence(sink: SinkConfig, desired: DesiredState, before: Observation, file: Path) -> str:
    """What will happen, when, and who does it; or that nobody is there to do it."""
    from firn.ledger.control_record import DesiredState
    from firn.operations.offsets import running_within

    record, runs = before.record, before.owner is not None and before.owner.runs(running_within(sink))
    if desired is DesiredState.RUNNING:
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


def _supervisor(record: ControlRecord | None) -> str:
    from firn.ledger.owner import spoken

    if record is None or record.silent_seconds is None:
        return "No supervisor was ever seen."
    ago = f"{spoken(record.silent_seconds)} ago"
    if record.silent_seconds < _RECENT_SECONDS:
        return f"Its supervisor ({record.supervisor}) was seen {ago}."
    return f"Its supervisor ({record.supervisor}) was seen {ago}; it writes only when something changes."


def _wait(sink: SinkConfig, desired: DesiredState, observer: Observer, seconds: float, file: Path) -> None:
    """Until it is so. Raises TerminalError where the sink fails, TransientError where it lasts for too long."""
    from firn.ledger.control_record import State
    from firn.operations.health import diagnose

    goal = State(desired.value)
    deadline = time.monotonic() + seconds
    while True:
        diagnosis = diagnose(sink, observer.ask_ledger())
        word = diagnosis.state.word
        if diagnosis.state is goal:
            say(f"Sink {sink.name}: {word}.")
            return
        if diagnosis.state is State.FAILED:
            raise TerminalError(diagnosis.reason, where=f"sink {sink.name}", next_step=diagnosis.next_step)
        if time.monotonic() > deadline:
            raise TransientError(
                f"The sink is not {desired.value} after {seconds:.0f} s: {word}. {diagnosis.reason}".strip(),
                where=f"sink {sink.name}",
                next_step=f"The request stands. Look at `firn sink status {_pasted(file)}` and at `firn "
                f"sink logs {_pasted(file)}`.",
            )
        time.sleep(_LOOK_SECONDS)


def _pasted(file: Path) -> str:
    return shlex.quote(str(file))
