"""A world for a supervisor that a test controls: a clock that jumps, drivers, a ledger, a publisher."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from firn.errors import FirnError, TransientError
from firn.ledger.control_record import ControlRecord, DesiredState, Diagnosis, State
from firn.ledger.owner import Owner, Totals
from firn.operations.observation import Depth, Observation, PartitionLag
from firn.supervisor.driver import read_result
from firn.supervisor.job import Policy, Result, SupervisedJob
from firn.supervisor.poller import Background, BackgroundCall
from firn.supervisor.snapshot import Snapshot
from firn.supervisor.supervisor import Supervisor

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
SILENT = TransientError("Kafka does not answer.", where="broker:9092", next_step="Look at the broker.")


@dataclass
class FakeDriver:
    """A driver that lives until `code` is set; asked or told to stop it ends as `at_end` says."""

    on_line: Callable[[str], None]
    code: int | None = None
    answer: Sequence[str] = ()
    ends_when_asked: bool = True
    asked: bool = False
    stopped: list[float] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.code

    def ask(self) -> None:
        self.asked = True
        if self.ends_when_asked and self.code is None:
            self.end(0, report={"sink": "s"})

    def stop(self, seconds: float) -> int:
        self.stopped.append(seconds)
        if self.code is None:
            self.code = -9 if seconds == 0 or not self.ends_when_asked else 0
        return self.code

    def end(self, code: int, **answer: object) -> None:
        self.answer = [json.dumps(answer)]
        self.code = code

    def tells(self, event: str, **data: object) -> None:
        self.on_line(json.dumps({"level": "info", "event": event, "firn_event": event, "firn_data": data}))


def error(code: int, what: str = "It broke.") -> dict[str, object]:
    return {"what": what, "where": "there", "next": "Mend it with `firn x <config>`.", "exit_code": code}


class World:
    """Everything outside a supervisor. `script[second]` is called when the clock gets there."""

    def __init__(self, *, background: Background | None = None, kind: str = "sink", **policy: Any) -> None:
        self.now = 0.0
        self.policy = Policy(**policy)
        self.drivers: list[FakeDriver] = []
        self.begin: Callable[[FakeDriver], None] = lambda driver: driver.tells("started", epoch=len(self.drivers))
        self.end_offset = self.next_offset = 0
        self.fault: FirnError | None = None
        self.kafka_fault: FirnError | None = None
        self.owner: Owner | None = None
        self.committed_at: datetime | None = None
        self.beats = True
        self.silent = 0.0
        self.record = ControlRecord("s")
        self.looks: list[Depth] = []
        self.deeper = Depth.KAFKA
        """How deep every look asks at least, for what it heard in Kafka."""
        self.notes: list[tuple[float, State, str]] = []
        self.note_fault: FirnError | None = None
        self.events: list[tuple[float, str, Mapping[str, Any]]] = []
        self.sentences: list[str] = []
        self.shown = 0
        self.snapshot: Snapshot | None = None
        self.script: dict[float, Callable[[], None]] = {}
        self.each_second: Callable[[], None] = lambda: None
        job = SupervisedJob(
            kind,
            "s",
            launch=self.launch,
            read_result=lambda code, answer: read_result(
                code, answer, module="spark_jobs.sink.job", config="s.json", logs="logs"
            ),
            observer=self,
            control=self,
        )
        self.supervisor = Supervisor(job, self.policy, self, clock=self, background=background or self.background)

    # What the supervisor asks for

    def launch(self, on_line: Callable[[str], None]) -> FakeDriver:
        self.drivers.append(FakeDriver(on_line))
        self.begin(self.drivers[-1])
        return self.drivers[-1]

    def look(self, depth: Depth = Depth.LEDGER) -> Observation:
        self.looks.append(depth)
        return replace(self._looked(), depth=max(depth, self.deeper))

    def _looked(self) -> Observation:
        if self.fault:
            raise self.fault.with_traceback(None)  # one error again and again would collect its tracebacks
        alive = any(driver.code is None for driver in self.drivers) and self.beats
        if self.owner is None:
            self.silent = 0.0 if alive else self.silent + 1
        owner = self.owner or Owner(len(self.drivers), "run", self.silent, totals=Totals(self.next_offset, 10, 1, 0, 0))
        if self.kafka_fault:
            at = BEGUN + timedelta(seconds=self.now)
            return Observation(at, (), owner, self.record.desired, self.record, unseen=self.kafka_fault)
        lag = self.end_offset - self.next_offset
        partition = PartitionLag("t", 0, "T", self.next_offset, self.end_offset, lag, 1.0 if lag > 0 else None, lag < 0)
        at = BEGUN + timedelta(seconds=self.now)
        return Observation(at, (partition,), owner, self.record.desired, self.record, self.committed_at)

    def close(self) -> None:
        pass

    def report(self, diagnosis: Diagnosis, stats: Mapping[str, Any]) -> None:
        if self.note_fault:
            raise self.note_fault.with_traceback(None)
        json.dumps(dict(stats))
        self.notes.append((self.now, diagnosis.state, diagnosis.reason))
        self.stats = dict(stats)

    def request(self, desired: DesiredState, by: str) -> None:
        self.record = ControlRecord("s", desired, by)

    def emit(self, event: str, sentence: str, data: Mapping[str, Any]) -> None:
        self.events.append((self.now, event, data))
        self.sentences.append(sentence)

    def show(self, snapshot: Snapshot) -> None:
        self.shown += 1
        self.snapshot = snapshot

    @staticmethod
    def background(call: Callable[[], Any]) -> BackgroundCall[Any]:
        done: BackgroundCall[Any] = BackgroundCall(call)
        done.run()
        return done

    # The clock

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> datetime:
        return BEGUN + timedelta(seconds=self.now)

    def wake(self) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.each_second()
        if (due := self.script.pop(self.now, None)) is not None:
            due()

    # What a test says

    @property
    def driver(self) -> FakeDriver:
        return self.drivers[-1]

    def commit(self, rows: int = 10) -> None:
        """Records come and are committed by the driver."""
        self.end_offset += rows
        self.next_offset = self.end_offset
        self.driver.tells("committed", rows=rows, bytes=10 * rows, ship_seconds=1.0, commit_seconds=0.5, schema_ids=[7])

    def run(self, **until: Callable[[], None]) -> Result:
        return self.supervisor.run()

    def emitted(self, *names: str) -> list[str]:
        """The events that were emitted, in order; of `names` only, if any."""
        return [event for _, event, _ in self.events if not names or event in names]

    def when(self, event: str) -> float:
        return next(at for at, name, _ in self.events if name == event)

    def states(self) -> list[str]:
        """The states that were written down, without repetitions."""
        states = [state.value for _, state, _ in self.notes]
        return [state for n, state in enumerate(states) if n == 0 or state != states[n - 1]]
