"""The health of a job: a look at ledger, Kafka and FIRN_SINKS in, a diagnosis out.

It follows from signs of life and positions: a row that says running proves nothing. Not for figures (`status`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from firn.connector.config import SinkConfig
from firn.errors import FirnError
from firn.ledger.control_record import ControlRecord, DesiredState, Diagnosis, State
from firn.ledger.owner import spoken
from firn.operations.observation import Observation
from firn.operations.offsets import running_within
from firn.plural import counted

STALL_SECONDS = 45.0
STARTING_SECONDS = 180.0
"""So long after a supervisor reported that it starts a driver, that is believed without a sign of life."""


@dataclass(frozen=True)
class Pace:
    """What is normal for a job, in seconds. kind: its noun, in sentences and commands.

    alive_within: so long after its last sign of life a run counts as alive. Fewer than `company_records` records may
    wait for company for `company_seconds`.
    """

    kind: str
    alive_within: float
    company_records: int = 0
    company_seconds: float = 0.0

    def command(self, verb: str) -> str:
        """A command for a person, in backticks."""
        return f"`firn {self.kind} {verb} <config>`"

    @property
    def resume(self) -> str:
        """How it goes on."""
        return f"{self.command('resume')} lets it go on."

    @property
    def run(self) -> str:
        """How it starts."""
        return f"{self.command('run')} starts it; so does its deployment's schedule, where it has one."


def pace_of_sink(config: SinkConfig) -> Pace:
    """What is normal for a sink."""
    return Pace("sink", running_within(config), config.buffer.records, config.buffer.seconds)


def diagnose(config: SinkConfig, seen: Observation | None, fault: FirnError | None = None) -> Diagnosis:
    """The diagnosis of a sink, as `diagnose_job`."""
    return diagnose_job(pace_of_sink(config), seen, fault)


def diagnose_job(pace: Pace, seen: Observation | None, fault: FirnError | None = None) -> Diagnosis:
    """The diagnosis of a job. seen: None where Snowflake did not answer; fault: why the look is not complete."""
    if seen is None:
        return _unseen(pace, fault)
    record, owner = seen.record, seen.owner
    alive = owner is not None and owner.runs(pace.alive_within)
    if record and record.failed and not alive:
        return _as_reported(record)
    if not alive:
        return _at_rest(pace, seen)
    if record and record.state is State.STALLED and not _moved_since(seen, record.since):
        return _as_reported(record)
    if fault:
        return _unseen(pace, fault)
    return _at_work(pace, seen)


def _unseen(pace: Pace, fault: FirnError | None) -> Diagnosis:
    what = f"{fault.what}{f' ({fault.where})' if fault.where else ''}" if fault else "Nobody answered."
    reason = f"How the {pace.kind} is cannot be seen: {what}"
    return Diagnosis(State.UNKNOWN, None, reason, fault.next_step if fault else "")


def _as_reported(record: ControlRecord, more: str = "") -> Diagnosis:
    return Diagnosis(record.state, record.since, f"{record.reason} {more}".strip(), record.next_step)


def _at_work(pace: Pace, seen: Observation) -> Diagnosis:
    """A run holds the job and gives signs of life."""
    record = seen.record
    if record and record.state is State.STARTING and _reported_within(record, STARTING_SECONDS):
        return _as_reported(record)
    limit = STALL_SECONDS + (pace.company_seconds if seen.waiting < pace.company_records else 0)
    limit += float(record.stats.get("batch_seconds") or 0) if record else 0  # the next batch may take as long
    quiet = _quiet_seconds(seen)
    if seen.waiting and quiet >= limit:
        reason = f"No committed offset has moved for {spoken(quiet)}, with {counted(seen.waiting, 'record')} waiting."
        step = (
            f"Look at its log: {pace.command('logs')}. `firn {pace.kind} pause` and `resume` restart it; nothing is "
            "lost."
        )
        return Diagnosis(State.STALLED, seen.at - timedelta(seconds=quiet), reason, step)
    running = record is not None and record.state is State.RUNNING
    reason, step = _blocked(seen)
    return Diagnosis(State.RUNNING, record.since if running and record else None, _requested(seen) or reason, step)


def _blocked(seen: Observation) -> tuple[str, str]:
    """Why records are there and cannot be read, and the next step; empty where all can be."""
    blocked = [each for each in seen.partitions if each.state == "blocked"]
    if not blocked:
        return "", ""
    places = ", ".join(f"{each.topic}-{each.partition} from offset {each.next_offset}" for each in blocked[:3])
    more = f" and {len(blocked) - 3} more partitions" if len(blocked) > 3 else ""
    return (
        f"Blocked by an open transaction: {places}{more}.",
        "It ends by itself within its producer's transaction.timeout.ms. If it does not: kafka-transactions.sh "
        "find-hanging names the producer, and abort ends it.",
    )


def _requested(seen: Observation) -> str:
    """A request that the job has not followed yet."""
    if seen.desired is DesiredState.RUNNING or seen.record is None:
        return ""
    request = "Pause" if seen.desired is DesiredState.PAUSED else "Stop"
    by = f" by {seen.record.desired_by}" if seen.record.desired_by else ""
    return f"{request} requested{by}; the current batch is finishing."


def _quiet_seconds(seen: Observation) -> float:
    """For how long records have waited without any being committed."""
    since = [seen.last_commit] if seen.last_commit else []
    if seen.record and seen.record.since and seen.record.state in (State.RUNNING, State.STARTING):
        since.append(seen.record.since)
    still = (seen.at - max(since)).total_seconds() if since else 0.0
    return still if seen.lag_seconds is None else min(still, seen.lag_seconds)


def _at_rest(pace: Pace, seen: Observation) -> Diagnosis:
    """No run gives a sign of life."""
    record, owner = seen.record, seen.owner
    if record and seen.desired is not DesiredState.RUNNING:
        state = State.PAUSED if seen.desired is DesiredState.PAUSED else State.STOPPED
        since = record.since if record.state is state and record.updated_at else record.desired_at
        return Diagnosis(state, since, f"Requested by {record.desired_by}." if record.desired_by else "", pace.resume)
    if record and record.state is State.STARTING and _reported_within(record, STARTING_SECONDS):
        return _as_reported(record)
    if record and record.state is State.STALLED and not _moved_since(seen, record.since):
        return _as_reported(record, "No driver gives a sign of life.")
    if owner is None or not owner.claimed:
        return Diagnosis(State.STOPPED, None, "It never ran.", pace.run)
    silent = owner.silent_seconds
    since = seen.at - timedelta(seconds=silent)
    if not owner.run_id:
        return Diagnosis(State.STOPPED, since, f"Its last run ended in order {spoken(silent)} ago.", pace.run)
    reason = f"No sign of life for {spoken(silent)}: its run was killed, or cannot reach Snowflake."
    return Diagnosis(State.UNKNOWN, since, reason, f"Nothing is lost. {pace.run}")


def _reported_within(record: ControlRecord, seconds: float) -> bool:
    return record.silent_seconds is not None and record.silent_seconds < seconds


def _moved_since(seen: Observation, since: datetime | None) -> bool:
    return bool(seen.last_commit and since and seen.last_commit > since)
