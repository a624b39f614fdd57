"""Pause, resume or stop a job: set its desired state in FIRN_REQUESTS, say what follows, and wait for it.

Works from any machine: the job's supervisor reads the table and follows it (`firn.supervisor`). A sign in Kafka makes
it look at once; without that it finds the request within half a minute.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from firn.errors import FirnError, TerminalError, TransientError
from firn.ledger.control import ControlTable, requester
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.ledger.owner import spoken
from firn.operations.health import Pace, diagnose_job, pace_of_sink
from firn.operations.observation import Observation
from firn.sinks.context import SinkContext
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.identifiers import Namespace

ACTIONS = {"pause": DesiredState.PAUSED, "resume": DesiredState.RUNNING, "stop": DesiredState.STOPPED}
_LOOK_SECONDS = 2.0
_RECENT_SECONDS = 180.0
"""A supervisor that reported within this time counts as alive; an idle one may be silent for longer."""
_READS = "its supervisor reads the request within 30 s; the driver ends after its current batch."


class Looks(Protocol):
    """What a request needs of an observer."""

    def ask_snowflake(self) -> Observation:
        """What Snowflake alone says."""
        ...

    def announce_request(self) -> None:
        """Say in Kafka that something is wanted. Never raises."""
        ...


@dataclass(frozen=True)
class ControlledJob:
    """A job that people pause, resume and stop. control_name: its name in FIRN_REQUESTS."""

    name: str
    control_name: str
    pace: Pace
    login: SnowflakeLogin
    namespace: Namespace
    observer: Looks

    def __str__(self) -> str:
        return f"{self.pace.kind} {self.name}"


def controlled_sink(context: SinkContext, observer: Looks) -> ControlledJob:
    """A sink as such a job."""
    name, pace = context.config.name, pace_of_sink(context.config)
    return ControlledJob(name, name, pace, context.login, context.namespace, observer)


@dataclass(frozen=True)
class StateRequest:
    """A request that stands in FIRN_REQUESTS. state_before: of the job when it was made; consequence: what follows.

    kind: `sink` or `export`. A look that fails does not hold the request up: the state before it is unknown then.
    """

    kind: str
    name: str
    action: str
    desired_state: DesiredState
    requested_by: str
    state_before: State
    consequence: str

    def __str__(self) -> str:
        return f"{self.action.capitalize()} of {self.kind} {self.name} requested. {self.consequence}"


def request_state(job: ControlledJob, action: str, file: str) -> StateRequest:
    """Set the desired state of a job. action: one of ACTIONS; file: the connector file as a command names it.

    Raises what Snowflake and Secrets Manager raise.
    """
    desired, by = ACTIONS[action], requester()
    before, fault = _look(job.observer)
    with connect(job.login, query_tag=f"firn {job}") as connection:
        table = ControlTable(job.namespace, job.control_name)
        table.ensure(connection)
        table.request(connection, desired, by)
    job.observer.announce_request()
    diagnosis = diagnose_job(job.pace, before, fault)
    follows = _consequence(job.pace, desired, before) if before else f"{diagnosis.reason} {_unseen(job.pace, desired)}"
    kind, follows = job.pace.kind, follows.replace("<config>", file)
    return StateRequest(kind, job.name, action, desired, by, diagnosis.state, follows)


def wait_for_state(job: ControlledJob, desired: DesiredState, *, seconds: float, file: str) -> None:
    """Return when the job has the state. Raises TerminalError if it fails, TransientError after `seconds`."""
    deadline, kind = time.monotonic() + seconds, job.pace.kind
    while True:
        diagnosis = diagnose_job(job.pace, job.observer.ask_snowflake())
        if diagnosis.state is State(desired.value):
            return
        if diagnosis.state is State.FAILED:
            raise TerminalError(diagnosis.reason, where=str(job), next_step=diagnosis.next_step)
        if time.monotonic() > deadline:
            found = f"{diagnosis.state.word}. {diagnosis.reason}".strip()
            raise TransientError(
                f"The {kind} is not {desired.value} after {seconds:.0f} s: {found}",
                where=str(job),
                next_step=f"The request stands. See `firn {kind} status {file}` and `firn {kind} logs {file}`.",
            )
        time.sleep(_LOOK_SECONDS)


def _look(observer: Looks) -> tuple[Observation | None, FirnError | None]:
    """What Snowflake says of the job, or why it says nothing: a slow warehouse, a ledger that may not be read."""
    try:
        return observer.ask_snowflake(), None
    except FirnError as fault:
        return None, fault


def _unseen(pace: Pace, desired: DesiredState) -> str:
    """What follows from a request of a job that cannot be seen."""
    if desired is DesiredState.RUNNING:
        return f"If no supervisor runs, {_start(pace)}"
    again = f" Nothing starts it again before {pace.command('resume')}." if desired is DesiredState.STOPPED else ""
    return f"If it runs, {_READS}{again}"


def _start(pace: Pace) -> str:
    return f"start the {pace.kind} with {pace.command('run')}, or wait for the schedule of its deployment."


def _consequence(pace: Pace, desired: DesiredState, before: Observation) -> str:
    """What happens next, and who does it; or that nobody is there to do it."""
    kind, resume = pace.kind, pace.command("resume")
    record, runs = before.record, before.owner is not None and before.owner.runs(pace.alive_within)
    if desired is DesiredState.RUNNING:
        if runs:
            return f"A run owns the {kind} already, and is alive."
        return f"{_last_report(record)} If no supervisor runs, {_start(pace)}"
    if runs and (record is None or record.updated_at is None):
        return (
            f"The run that owns the {kind} has no supervisor, so nothing ends it. Send it SIGTERM, or cancel its run. "
            f"Nothing starts the {kind} again before {resume}."
        )
    if runs:
        return f"{_last_report(record)} It reads the request within 30 s; the driver ends after its current batch."
    return f"No run owns the {kind} now, and no schedule starts it before {resume}."


def _last_report(record: ControlRecord | None) -> str:
    if record is None or record.silent_seconds is None:
        return "No supervisor has ever reported."
    rare = "" if record.silent_seconds < _RECENT_SECONDS else "; it reports only when something changes"
    return f"Its supervisor ({record.supervisor}) last reported {spoken(record.silent_seconds)} ago{rare}."
