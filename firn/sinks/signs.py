"""What a run, its tasks and people say of a sink in Kafka, so that nobody keeps a warehouse awake to hear it.

Three groups of a sink (`firn.kafka.group_documents`), each with one writer a row: the driver's sign, a report of each
partition's task, and a sign that somebody requested something. All of it is information: who may write, where each
partition goes on and what is desired stand in Snowflake. A higher epoch here means "ask the ledger", an absent row
means nothing at all. Not for what follows from a sign (`firn.operations.life`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from firn.errors import FirnError
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import KafkaAdmin
from firn.kafka.group_documents import LIMIT, GroupDocuments, read_documents
from firn.kafka.partitions import TopicPartition
from firn.kafka.transactional_producer import CommittedOffset

READ_SECONDS = 3.0
"""How long a driver waits for its own group: a broker that is slower counts as one that does not answer."""
_SAMPLE = 200
"""Characters of a sample's detail."""


class Rates(NamedTuple):
    """What became durable, a second: records, and bytes of their texts."""

    records: float
    bytes: float


@dataclass(frozen=True)
class Sign:
    """A driver's sign of life.

    epoch: of its claim. counter: rises with each sign of the run. moves: how often the run moved the ledger.
    idle: nothing is under way. ended: the run ended in order and has released the sink. at: when it was written by the
    clock of the driver's machine (UTC, whole seconds), a hint for people. rates: since the sign before.
    """

    epoch: int
    counter: int
    at: datetime
    moves: int = 0
    idle: bool = False
    ended: bool = False
    rates: Rates | None = None


@dataclass(frozen=True)
class TaskReport:
    """How far the task of a partition is, within one epoch of a continuous run.

    next_offset: the first offset that is not durable yet. token: of the channel, as the server has it. counter: rises
    with each report of the task. rows, text_bytes, bad_records, letters: since the task began, and durable. attempt: of
    the task, within the epoch. reasons: how many bad records a reason. samples: (offset, reason, detail) of some.
    """

    epoch: int
    counter: int
    next_offset: int
    token: str | None = None
    rows: int = 0
    text_bytes: int = 0
    bad_records: int = 0
    letters: int = 0
    attempt: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    samples: Sequence[tuple[int, str, str]] = ()


@dataclass(frozen=True)
class Signs:
    """All that was read of a sink. requested: what changes with each request of a person; None where none is known."""

    sign: Sign | None
    reports: Mapping[TopicPartition, TaskReport]
    requested: str | None = None


def sign_text(sign: Sign) -> str:
    """The text of a sign; `read_sign` reads it."""
    seconds = int(sign.at.timestamp())
    fields: dict[str, object] = {"e": sign.epoch, "n": sign.counter, "at": seconds, "m": sign.moves}
    if sign.rates:
        fields["r"] = [round(each, 1) for each in sign.rates]
    return _compact(fields | {name: True for name in ("idle", "ended") if getattr(sign, name)})


def read_sign(text: str) -> Sign | None:
    """The sign of a text; None for what is none of this version."""
    read = _object(text)
    try:
        rates = read.get("r")
        return Sign(
            int(read["e"]),
            int(read["n"]),
            datetime.fromtimestamp(int(read["at"]), UTC),
            int(read.get("m", 0)),
            idle=read.get("idle") is True,
            ended=read.get("ended") is True,
            rates=None if rates is None else Rates(*map(float, rates)),
        )
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def report_document(report: TaskReport) -> CommittedOffset:
    """A report as offset and text; `read_report` reads it."""
    fields: dict[str, object] = {
        "e": report.epoch,
        "n": report.counter,
        "t": report.token,
        "r": report.rows,
        "b": report.text_bytes,
        "x": report.bad_records,
        "l": report.letters,
        "a": report.attempt,
    }
    if report.reasons:
        fields |= {"q": dict(report.reasons)}
    samples = [[offset, reason, detail[:_SAMPLE]] for offset, reason, detail in report.samples]
    text = _compact(fields | {"s": samples}) if samples else ""
    return CommittedOffset(report.next_offset, text if 0 < len(text) <= LIMIT else _compact(fields))


def read_report(document: tuple[int, str]) -> TaskReport | None:
    """The report of offset and text; None for what is none of this version."""
    offset, read = document[0], _object(document[1])
    try:
        rows, size, bad, letters = (int(read[name]) for name in "rbxl")
        token = read.get("t")
        token = None if token is None else str(token)
        reasons = {str(reason): int(count) for reason, count in dict(read.get("q", {})).items()}
        samples = tuple((int(at), str(reason), str(detail)) for at, reason, detail in read.get("s", ()))
        of = TaskReport(int(read["e"]), int(read["n"]), offset, token, rows, size, bad, letters)
        return replace(of, attempt=int(read.get("a", 0)), reasons=reasons, samples=samples)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


class SignWriter:
    """Writes the signs of one run to the group, at one partition of the sink. For one thread."""

    def __init__(self, client: KafkaClient, group: str) -> None:
        self._documents = GroupDocuments(client, group)
        self._counter = 0

    @property
    def group(self) -> str:
        """The group that it writes to."""
        return self._documents.group

    @property
    def fault(self) -> FirnError | None:
        """Why Kafka refused the newest sign; None where it did not, or has not answered yet."""
        return self._documents.fault

    def write(
        self,
        where: TopicPartition,
        epoch: int,
        *,
        moves: int,
        idle: bool = False,
        ended: bool = False,
        rates: Rates | None = None,
    ) -> bool:
        """Write the next sign; whether Kafka has it within a moment. Never raises."""
        self._counter += 1
        sign = Sign(epoch, self._counter, datetime.now(UTC), moves, idle=idle, ended=ended, rates=rates)
        return self._documents.offer({where: (0, sign_text(sign))})

    def written(self) -> bool:
        """Whether Kafka has the newest sign by now. Never raises, and does not wait."""
        return self._documents.offer({}, 0)

    def newest_epoch(self) -> int:
        """The highest epoch of any sign in the group; 0 where there is none. Raises as `GroupDocuments.read`."""
        newest = _newest(self._documents.read(READ_SECONDS))
        return newest.epoch if newest else 0

    def close(self) -> bool:
        """Wait for what is under way, for seconds at most; whether Kafka has it."""
        return self._documents.close()


class SignReader:
    """Reads what is said of one sink, for one thread. sign, tasks, requests: the groups."""

    def __init__(self, admin: KafkaAdmin, sign: str, tasks: str, requests: str) -> None:
        self._admin, self._sign, self._tasks, self._requests = admin, sign, tasks, requests

    def read(self) -> Signs:
        """What is there now. Raises as `read_documents`: a login may lack the right to look."""
        reports = {where: read_report(each) for where, each in read_documents(self._admin, self._tasks).items()}
        requests = read_documents(self._admin, self._requests)
        return Signs(
            _newest(read_documents(self._admin, self._sign)),
            {where: report for where, report in reports.items() if report},
            "\n".join(f"{where} {requests[where]}" for where in sorted(requests)) or None,
        )


def say_requested(client: KafkaClient, group: str, where: TopicPartition) -> None:
    """Say at one partition of the sink that something was requested just now. Raises as `GroupDocuments.write`."""
    GroupDocuments(client, group).write({where: (0, _compact({"at": time.time_ns()}))})


def _newest(documents: Mapping[TopicPartition, tuple[int, str]]) -> Sign | None:
    """Of several (the sink's topics may have changed) the one of the highest epoch."""
    signs = [sign for _, text in documents.values() if (sign := read_sign(text))]
    return max(signs, key=lambda sign: (sign.epoch, sign.counter), default=None)


def _compact(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def _object(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
