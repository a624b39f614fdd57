"""What a supervisor reports: its job's state in the control table, snapshots and events. Few, whatever happens.

Writes are for changes alone: a statement wakes a warehouse, and a job that commits to a stream needs none. A job that
commits each second emits twice a minute, with sums.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from firn.errors import FirnError, TransientError
from firn.ledger.control_record import DesiredState, Diagnosis, State
from firn.plural import counted
from firn.supervisor.job import SupervisedJob
from firn.supervisor.poller import Background, BackgroundCall
from firn.supervisor.ports import Clock, Publisher
from firn.supervisor.snapshot import Snapshot

REPORT_SECONDS = 60.0
LAST_REPORT_SECONDS = 10.0
AGGREGATE_SECONDS = 30.0
_AGGREGATED = ("committed", "dead_letters")
_NOT_ADDED = ("partition", "partitions", "epoch")
_IDS = 100
log = logging.getLogger(__name__)


class Reporter:
    """Reports one job. `silent`: nothing is written of a job that another run holds."""

    def __init__(self, job: SupervisedJob, publisher: Publisher, background: Background, clock: Clock) -> None:
        self._job, self._publisher, self._background, self._clock = job, publisher, background, clock
        self.diagnosis = Diagnosis(State.STARTING, clock.utc())
        self.silent = False
        self.terminal = False
        self._aggregator = EventAggregator()
        self._changed, self._reported_at = True, float("-inf")
        self._reported: State | None = None
        self._writing: BackgroundCall[None] | None = None
        self._request: Callable[[], None] = lambda: None
        self._requesting: BackgroundCall[None] | None = None
        self._refused = False

    def become(self, diagnosis: Diagnosis) -> bool:
        """Take over a diagnosis; whether the state is another one."""
        before = self.diagnosis
        changed = diagnosis.state is not before.state
        if changed or diagnosis.reason != before.reason:
            self.diagnosis = replace(diagnosis, since=self._clock.utc() if changed else before.since)
            self._changed = True
        return changed

    def emit(self, event: str, sentence: str, data: Mapping[str, Any] | None = None) -> None:
        """Emit that something happened."""
        about = {self._job.kind: self._job.name, "state": self.diagnosis.state.value, **(data or {})}
        self._publisher.emit(event, sentence, about)

    def pass_on(self, event: str, sentence: str, data: Mapping[str, Any]) -> None:
        """Emit an event of the driver, at once or summed up with those like it."""
        if not self._aggregator.add(event, data):
            self.emit(event, sentence, data)

    def emit_due(self, now: float, *, last: bool = False) -> None:
        """Emit the sums that are due, or at the `last` all that are left."""
        for event, sentence, data in self._aggregator.due(now, last=last):
            self.emit(event, sentence, data)

    def show(self, snapshot: Snapshot) -> None:
        """Show how the job is."""
        self._publisher.show(snapshot)

    def request(self, desired: DesiredState, by: str) -> None:
        """Write a desired state down, before anything else is read or written."""
        self._request = lambda: self._job.control.request(desired, by)
        self._requesting = self._background(self._request)

    def requested(self) -> bool:
        """Whether that was done, so that what is read from now on is newer. This call repeats what may pass."""
        if self._requesting is not None and self._requesting.done:
            again = isinstance(self._requesting.result, TransientError)
            self._requesting = self._background(self._request) if again else None
        return self._requesting is None

    def report(self, now: float, snapshot: Callable[[], Snapshot]) -> None:
        """Write the state down if it is time, with the figures of `snapshot`."""
        if self._writing is not None:
            if not self._writing.done:
                return
            self._written(self._writing.result)
        # A reason changes without the state too, for instance with each restart; a first refusal is repeated later.
        soon = self._changed and not self._refused and self.diagnosis.state is not self._reported
        if self.silent or not self._changed or (not soon and now - self._reported_at < REPORT_SECONDS):
            return
        self._changed = False
        self._reported_at, self._reported = now, self.diagnosis.state
        diagnosis, stats = self.diagnosis, {"terminal": self.terminal, **snapshot().stats}
        self._writing = self._background(lambda: self._job.control.report(diagnosis, stats))

    def report_last(self, now: float, snapshot: Callable[[], Snapshot]) -> None:
        """Write down how it ended, and wait a moment for that."""
        if self._writing is not None and not self._writing.wait(LAST_REPORT_SECONDS):
            return
        self._reported_at = float("-inf")
        self.report(now, snapshot)
        if self._writing is not None:
            self._writing.wait(LAST_REPORT_SECONDS)

    def _written(self, result: FirnError | None) -> None:
        self._writing = None
        if result is None:
            self._refused = False
            return
        self._changed = True
        if not self._refused:
            log.warning("The state of %s could not be written down: %s", self._job, result.what)
        self._refused = True


class EventAggregator:
    """The driver's events `committed` and `dead_letters`, summed up between two times that each is emitted.

    Nothing is lost but the single figures of a batch; what does not repeat (started, schema_changed) goes on at once.
    """

    def __init__(self, seconds: float = AGGREGATE_SECONDS) -> None:
        self._seconds = seconds
        self._sums: dict[str, dict[str, Any]] = {}
        self._emitted: dict[str, float] = {}

    def add(self, event: str, data: Mapping[str, Any]) -> bool:
        """Whether this event is one of those; then it is added."""
        if event not in _AGGREGATED:
            return False
        _add(self._sums.setdefault(event, {"events": 0}), data)
        return True

    def due(self, now: float, *, last: bool = False) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(event, sentence, data) of each that may be emitted again, or at the `last` of all that are left."""
        for event in [e for e in self._sums if last or now - self._emitted.get(e, float("-inf")) >= self._seconds]:
            data = self._sums.pop(event)
            self._emitted[event] = now
            yield event, _sentence(event, data), data


def _add(sums: dict[str, Any], data: Mapping[str, Any]) -> None:
    """Numbers add up, lists unite, mappings add up by their keys; of anything else the newest stays."""
    sums["events"] += 1
    for name, value in data.items():
        before = sums.get(name)
        if name in _NOT_ADDED or isinstance(value, bool | str) or value is None:
            sums[name] = value
        elif isinstance(value, int | float):
            sums[name] = round((before or 0) + value, 3)
        elif isinstance(value, list):
            sums[name] = [*dict.fromkeys([*(before or []), *value])][-_IDS:]
        elif isinstance(value, Mapping):
            counts = dict(before or {})
            for key, count in value.items():
                counts[key] = counts.get(key, 0) + count
            sums[name] = counts


def _sentence(event: str, data: Mapping[str, Any]) -> str:
    if event == "committed":
        return f"{counted(data.get('rows', 0), 'record')} committed in {counted(data['events'], 'batch', 'batches')}"
    left_out = counted(data.get("records", 0), "record")
    return f"{left_out} left out, {counted(data.get('letters', 0), 'dead letter')} published"
