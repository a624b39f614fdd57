"""Pause, resume or stop a sink: set its desired state in FIRN_REQUESTS, say what follows, and wait for it.

Works from any machine: the sink's supervisor reads the table and follows it (`firn.supervisor`). A sign in Kafka makes
it look at once; without that it finds the request within half a minute.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from firn.connector.config import SinkConfig
from firn.errors import FirnError, TerminalError, TransientError
from firn.ledger.control import ControlTable, requester
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.ledger.owner import spoken
from firn.operations.health import diagnose
from firn.operations.observation import Observation
from firn.operations.observer import Observer
from firn.operations.offsets import running_within
from firn.sinks.context import SinkContext
from firn.snowflake.connection import connect

ACTIONS = {"pause": DesiredState.PAUSED, "resume": DesiredState.RUNNING, "stop": DesiredState.STOPPED}
_LOOK_SECONDS = 2.0
_RECENT_SECONDS = 180.0
"""A supervisor that reported within this time counts as alive; an idle one may be silent for longer."""
_START = "start the sink with `firn sink run <config>`, or wait for the schedule of its deployment."
_READS = "its supervisor reads the request within 30 s; the driver ends after its current batch."
_UNSEEN = {
    DesiredState.RUNNING: f"If no supervisor runs, {_START}",
    DesiredState.PAUSED: f"If it runs, {_READS}",
    DesiredState.STOPPED: f"If it runs, {_READS} Nothing starts it again before `firn sink resume <config>`.",
}
"""What follows from a request of a sink that cannot be seen."""


@dataclass(frozen=True)
class StateRequest:
    """A request that stands in FIRN_REQUESTS. state_before: of the sink when it was made; consequence: what follows.

    A look that fails does not hold the request up: the state before it is unknown then.
    """

    sink: str
    action: str
    desired_state: DesiredState
    requested_by: str
    state_before: State
    consequence: str

    def __str__(self) -> str:
        return f"{self.action.capitalize()} of sink {self.sink} requested. {self.consequence}"


def request_state(context: SinkContext, observer: Observer, action: str, file: str) -> StateRequest:
    """Set the desired state of a sink. action: one of ACTIONS; file: the connector file as a command names it.

    Raises what Snowflake and Secrets Manager raise.
    """
    sink, desired, by = context.config, ACTIONS[action], requester()
    before, fault = _look(observer)
    with connect(context.login, query_tag=f"firn sink {sink.name}") as connection:
        table = ControlTable(context.namespace, sink.name)
        table.ensure(connection)
        table.request(connection, desired, by)
    observer.announce_request()
    diagnosis = diagnose(sink, before, fault)
    follows = _consequence(sink, desired, before) if before else f"{diagnosis.reason} {_UNSEEN[desired]}"
    return StateRequest(sink.name, action, desired, by, diagnosis.state, follows.replace("<config>", file))


def wait_for_state(sink: SinkConfig, observer: Observer, desired: DesiredState, *, seconds: float, file: str) -> None:
    """Return when the sink has the state. Raises TerminalError if it fails, TransientError after `seconds`."""
    deadline, where = time.monotonic() + seconds, f"sink {sink.name}"
    while True:
        diagnosis = diagnose(sink, observer.ask_snowflake())
        if diagnosis.state is State(desired.value):
            return
        if diagnosis.state is State.FAILED:
            raise TerminalError(diagnosis.reason, where=where, next_step=diagnosis.next_step)
        if time.monotonic() > deadline:
            found = f"{diagnosis.state.word}. {diagnosis.reason}".strip()
            raise TransientError(
                f"The sink is not {desired.value} after {seconds:.0f} s: {found}",
                where=where,
                next_step=f"The request stands. See `firn sink status {file}` and `firn sink logs {file}`.",
            )
        time.sleep(_LOOK_SECONDS)


def _look(observer: Observer) -> tuple[Observation | None, FirnError | None]:
    """What Snowflake says of the sink, or why it says nothing: a slow warehouse, a ledger that may not be read."""
    try:
        return observer.ask_snowflake(), None
    except FirnError as fault:
        return None, fault


def _consequence(sink: SinkConfig, desired: DesiredState, before: Observation) -> str:
    """What happens next, and who does it; or that nobody is there to do it."""
    record, runs = before.record, before.owner is not None and before.owner.runs(running_within(sink))
    if desired is DesiredState.RUNNING:
        if runs:
            return "A run owns the sink already, and is alive."
        return f"{_last_report(record)} If no supervisor runs, {_START}"
    if runs and (record is None or record.updated_at is None):
        return (
            "The run that owns the sink has no supervisor, so nothing ends it. Send it SIGTERM, or cancel its run. "
            "Nothing starts the sink again before `firn sink resume <config>`."
        )
    if runs:
        return f"{_last_report(record)} It reads the request within 30 s; the driver ends after its current batch."
    return "No run owns the sink now, and no schedule starts it before `firn sink resume <config>`."


def _last_report(record: ControlRecord | None) -> str:
    if record is None or record.silent_seconds is None:
        return "No supervisor has ever reported."
    rare = "" if record.silent_seconds < _RECENT_SECONDS else "; it reports only when something changes"
    return f"Its supervisor ({record.supervisor}) last reported {spoken(record.silent_seconds)} ago{rare}."
