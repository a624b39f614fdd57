"""A sink's status as lines for a person: each figure with its good value, and a mark that says whether it is good.

Good is what the course on this pipeline calls good (running, a task at least, records increasing, fewer than 1000
records waiting, no errors); for lag it is the limits that the sink's supervisor was given, if any. Not for what the
figures are (`status`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from firn.ledger.control_record import State
from firn.ledger.owner import spoken
from firn.operations.observation import PartitionLag
from firn.operations.status import FRESH_SECONDS, LagLimits, Status, iso
from firn.plural import counted

GOOD, LOOK = "good", "look"
PARTITION_COLUMNS = ("topic", "partition", "table", "next_offset", "end_offset", "lag", "oldest", "state", "mark")
SINK_COLUMNS = ("sink", "state", "since", "records/s", "lag", "oldest", "mark")
_ILL = ("recreated", "expired", "gone", "blocked")


@dataclass(frozen=True)
class Figure:
    """One line of a status: `good` is its good value, `mark` says good or look; empty where neither applies."""

    figure: str
    value: str
    good: str = ""
    mark: str = ""


def figures(status: Status) -> list[Figure]:
    """All figures of one sink."""
    row = status.row()
    return [
        Figure("state", row["state"], State.RUNNING.word, _state_mark(status)),
        Figure("tasks", _tasks(status), "1 or more", _mark(status, bool(status.tasks))),
        Figure("records", f"{status.totals.records:,}", "increasing", _mark(status, _increasing(status))),
        Figure("records/s", _number(row["records_per_second"])),
        Figure("bytes/s", _number(row["bytes_per_second"])),
        Figure("batch seconds", _number(row["batch_seconds"])),
        Figure("credits a day", _credits(status)),
        *_lags(status),
        Figure("last commit", _last_commit(status)),
        Figure("error rate", _error_rate(status), "0%", GOOD if not status.totals.bad_records else LOOK),
        Figure("dead letters", f"{status.totals.dead_letters:,}"),
        Figure("errors", _errors(row), "0", LOOK if row["errors"] else GOOD),
        Figure("schema ids seen", ", ".join(map(str, row["schema_ids"]))),
        Figure("measured", _measured(status)),
    ]


def partition_row(each: PartitionLag, limits: LagLimits) -> dict[str, Any]:
    """One partition by the names of PARTITION_COLUMNS."""
    bad = each.ahead or each.state in _ILL or limits.too_many(each.lag or 0) or limits.too_old(each.lag_seconds)
    shown = {name: getattr(each, name) for name in PARTITION_COLUMNS[:6]}
    return {**shown, "oldest": age(each.lag_seconds), "state": each.state, "mark": LOOK if bad else GOOD}


def sink_row(status: Status) -> dict[str, Any]:
    """One sink by the names of SINK_COLUMNS."""
    row = status.row()
    marks = {each.figure for each in figures(status) if each.mark == LOOK}
    values = (
        status.name,
        row["state"],
        short_time(status.diagnosis.since, status.at),
        _number(row["records_per_second"]),
        row["lag"],
        age(row["lag_seconds"]),
        f"{LOOK}: {', '.join(sorted(marks))}" if marks else GOOD,
    )
    return dict(zip(SINK_COLUMNS, values, strict=True))


def age(seconds: float | None) -> str:
    """A duration for a cell; empty where it is not known."""
    return "" if seconds is None else spoken(seconds)


def short_time(moment: datetime | None, now: datetime) -> str:
    """A moment in UTC for a cell: its time today, and its day before; empty where there is none."""
    if moment is None:
        return ""
    moment, now = moment.astimezone(UTC), now.astimezone(UTC)
    if moment.date() == now.date():
        return f"{moment:%H:%M:%S}"
    return f"{moment:%b %d}" if moment.year == now.year else f"{moment:%Y-%m-%d}"


def _state_mark(status: Status) -> str:
    if status.diagnosis.needs_attention:
        return LOOK
    return GOOD if status.diagnosis.state is State.RUNNING else ""


def _mark(status: Status, good: bool) -> str:
    """Nothing is expected of a sink that rests on request, and nothing is said that Kafka must tell."""
    if not status.complete or (not status.diagnosis.needs_attention and not status.active):
        return ""
    return GOOD if good else LOOK


def _tasks(status: Status) -> str:
    tasks = "" if status.tasks is None else str(status.tasks)
    return f"{tasks} (tasks.max {status.tasks_max})" if status.tasks_max else tasks


def _increasing(status: Status) -> bool:
    """Records are committed, or none waits."""
    if not status.lag:
        return True
    recent = status.last_commit is not None and (status.at - status.last_commit).total_seconds() < FRESH_SECONDS
    return recent or bool(status.rate("records_per_second"))


def _lags(status: Status) -> list[Figure]:
    lag, limits, worst = status.lag, status.limits, status.worst
    few = f"< {limits.records}"
    if lag is None:
        return [Figure("lag", "not known", few, LOOK)]
    waiting = f"{lag:,} {'record' if lag == 1 else 'records'}"
    lines = [Figure("lag", waiting, few, LOOK if limits.too_many(lag) else GOOD)]
    if worst:
        lines.append(Figure("worst partition", f"{worst.lag:,} in {worst.topic}-{worst.partition}"))
    lines.append(_oldest(status))
    ahead = ", ".join(f"{each.topic}-{each.partition}" for each in status.partitions if each.ahead)
    if ahead:
        lines.append(Figure("ledger past Kafka's end", ahead, "none", LOOK))
    return lines


def _oldest(status: Status) -> Figure:
    oldest, limits = status.lag_seconds, status.limits
    if limits.seconds is None:
        return Figure("oldest record", age(oldest))
    mark = _mark(status, not limits.too_old(oldest))
    return Figure("oldest record", age(oldest), f"< {spoken(limits.seconds)}", mark)


def _last_commit(status: Status) -> str:
    last = status.last_commit
    return f"{iso(last)}, {spoken((status.at - last).total_seconds())} ago" if last else "none"


def _error_rate(status: Status) -> str:
    bad = status.totals.bad_records
    return f"{status.error_percent:.3g}% ({bad:,} bad records)" if bad else "0%"


def _errors(row: dict[str, Any]) -> str:
    """Ends of the driver that were not in order, since its supervisor began."""
    text = f"{row['errors']} ({counted(row['restarts'], 'restart')})" if row["restarts"] else str(row["errors"])
    return f"{text}; the last: {row['last_error']}" if row["last_error"] else text


def _measured(status: Status) -> str:
    if status.stats_age is None:
        return "never: no supervisor has reported it"
    return f"{spoken(status.stats_age)} ago by {status.supervisor or 'its supervisor'}"


def _credits(status: Status) -> str:
    cost = status.cost
    return f"{cost.credits:.2f}{' or more' if cost.at_least else ''} (estimate for an X-Small)" if cost else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"
