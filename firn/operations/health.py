"""A sink's state in one word, with why and the next step: a look at ledger, Kafka and FIRN_SINKS in, a verdict out.

It follows from signs of life and positions: a row that says running proves nothing. Not for figures (`status`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from firn.connector.config import SinkConfig
from firn.errors import FirnError
from firn.ledger.control import SinkRecord, State, Wanted
from firn.ledger.owner import spoken
from firn.operations.observation import Observation
from firn.operations.offsets import running_within
from firn.plural import counted

STALL_SECONDS = 45.0
STARTING_SECONDS = 180.0
"""So long after a supervisor said that it starts a driver, that is believed without a sign of life."""
RESUME = "`firn sink resume <config>` lets it go on."
RUN = "`firn sink run <config>` starts it; so does its deployment's schedule, where it has one."


class Word(StrEnum):
    """A sink's state in one word."""

    RUNNING = "Running"
    STARTING = "Starting"
    PAUSED = "Paused"
    STALLED = "Stalled"
    FAILED = "Failed"
    STOPPED = "Stopped"
    UNKNOWN = "Unknown"


@dataclass(frozen=True)
class Verdict:
    """The word, since when (UTC; None: not known), why, and what to do."""

    word: Word
    since: datetime | None = None
    why: str = ""
    next_step: str = ""

    @property
    def well(self) -> bool:
        """Whether nobody has to look: what was paused or stopped is as somebody wanted it."""
        return self.word not in (Word.FAILED, Word.STALLED, Word.UNKNOWN)


def judge(config: SinkConfig, seen: Observation | None, fault: FirnError | None = None) -> Verdict:
    """The state of a sink. seen: None where Snowflake did not answer; fault: why there was no (whole) look."""
    if seen is None:
        return _unseen(fault)
    record, owner = seen.record, seen.owner
    alive = owner is not None and owner.runs(running_within(config))
    if record and record.failed and not alive:
        return _as_noted(Word.FAILED, record)
    if not alive:
        return _at_rest(seen)
    if record and record.state is State.STALLED and not _moved_since(seen, record.since):
        return _as_noted(Word.STALLED, record)
    if fault:
        return _unseen(fault)
    return _at_work(config, seen)


def _unseen(fault: FirnError | None) -> Verdict:
    what = f"{fault.what}{f' ({fault.where})' if fault.where else ''}" if fault else "Nobody answered."
    return Verdict(Word.UNKNOWN, None, f"How the sink is cannot be seen: {what}", fault.next_step if fault else "")


def _as_noted(word: Word, record: SinkRecord, more: str = "") -> Verdict:
    return Verdict(word, record.since, f"{record.why} {more}".strip(), record.next_step)


def _at_work(config: SinkConfig, seen: Observation) -> Verdict:
    """A run holds the sink and gives signs of life."""
    record = seen.record
    if record and record.state is State.STARTING and _within(record, STARTING_SECONDS):
        return _as_noted(Word.STARTING, record)
    limit = STALL_SECONDS + (config.buffer.seconds if seen.waiting < config.buffer.records else 0)
    limit += float(record.stats.get("batch_seconds") or 0) if record else 0  # the next batch may take as long
    quiet = _quiet_seconds(seen)
    if seen.waiting and quiet >= limit:
        why = f"No committed offset has moved for {spoken(quiet)}, with {counted(seen.waiting, 'record')} waiting."
        step = "Look at its log: `firn sink logs <config>`. `firn sink pause` and `resume` start it anew; none is lost."
        return Verdict(Word.STALLED, seen.at - timedelta(seconds=quiet), why, step)
    running = record is not None and record.state is State.RUNNING
    why, step = _blocked(seen)
    return Verdict(Word.RUNNING, record.since if running and record else None, _asked(seen) or why, step)


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


def _asked(seen: Observation) -> str:
    """What a person wants of a sink that does not do so yet."""
    if seen.wanted is Wanted.RUNNING or seen.record is None:
        return ""
    by = f" by {seen.record.wanted_by}" if seen.record.wanted_by else ""
    return f"It is to be {seen.wanted.value}{by}, and works still."


def _quiet_seconds(seen: Observation) -> float:
    """For how long records have waited without any being committed."""
    since = [seen.last_commit] if seen.last_commit else []
    if seen.record and seen.record.since and seen.record.state in (State.RUNNING, State.STARTING):
        since.append(seen.record.since)
    still = (seen.at - max(since)).total_seconds() if since else 0.0
    return still if seen.lag_seconds is None else min(still, seen.lag_seconds)


def _at_rest(seen: Observation) -> Verdict:
    """Nobody gives a sign of life."""
    record, owner = seen.record, seen.owner
    if record and seen.wanted is Wanted.PAUSED:
        return Verdict(Word.PAUSED, _since(record, State.PAUSED), _by(record), RESUME)
    if record and seen.wanted is Wanted.STOPPED:
        return Verdict(Word.STOPPED, _since(record, State.STOPPED), _by(record), RESUME)
    if record and record.state is State.STARTING and _within(record, STARTING_SECONDS):
        return _as_noted(Word.STARTING, record)
    if record and record.state is State.STALLED and not _moved_since(seen, record.since):
        return _as_noted(Word.STALLED, record, "No driver gives a sign of life.")
    if owner is None or not owner.claimed:
        return Verdict(Word.STOPPED, None, "It never ran.", RUN)
    silent = owner.silent_seconds
    since = seen.at - timedelta(seconds=silent)
    if not owner.run_id:
        return Verdict(Word.STOPPED, since, f"Its last run ended in order {spoken(silent)} ago.", RUN)
    why = f"No sign of life for {spoken(silent)}: its run was killed, or cannot reach Snowflake."
    return Verdict(Word.UNKNOWN, since, why, f"Nothing is lost. {RUN}")


def _by(record: SinkRecord) -> str:
    return f"Asked for by {record.wanted_by}." if record.wanted_by else ""


def _since(record: SinkRecord, state: State) -> datetime | None:
    return record.since if record.state is state and record.updated_at else record.wanted_at


def _within(record: SinkRecord, seconds: float) -> bool:
    return record.silent_seconds is not None and record.silent_seconds < seconds


def _moved_since(seen: Observation, since: datetime | None) -> bool:
    return bool(seen.last_commit and since and seen.last_commit > since)
