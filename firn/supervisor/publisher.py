"""What a supervisor says: the state of its sink in FIRN_SINKS, snapshots, events. Few, whatever happens.

Writes are for changes of state, and one a minute while records flow: a statement keeps a warehouse awake.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from firn.errors import FirnError, TransientError
from firn.ledger.control_record import DesiredState, State
from firn.supervisor.background import Errand, Running
from firn.supervisor.ports import Noting, Telling
from firn.supervisor.snapshot import Snapshot
from firn.supervisor.stall_detector import Words

NOTE_SECONDS = 60.0
LAST_NOTE_SECONDS = 10.0
log = logging.getLogger(__name__)


class Voice:
    """The state of one sink as it is told. `silent`: of a sink that another run holds nothing is written."""

    def __init__(self, sink: str, notes: Noting, telling: Telling, errands: Running, at: datetime) -> None:
        self._sink, self._notes, self._telling, self._errands = sink, notes, telling, errands
        self.state, self.since, self.words = State.STARTING, at, Words("", "")
        self.silent = False
        self.terminal = False
        self._dirty, self._flowed, self._noted = True, False, float("-inf")
        self._noted_state: State | None = None
        self._writing: Errand[None] | None = None
        self._wish: Callable[[], None] = lambda: None
        self._wishing: Errand[None] | None = None
        self._refused = False

    def become(self, at: datetime, state: State, words: Words | None = None) -> bool:
        """Take over a state and why it is so; whether it is another one."""
        words = words or Words("", "")
        changed = state is not self.state
        if changed:
            self.state, self.since = state, at
        if changed or words.reason != self.words.reason:
            self.words, self._dirty = words, True
        return changed

    def event(self, event: str, sentence: str, data: Mapping[str, Any] | None = None) -> None:
        """Tell of something that happened."""
        self._telling.event(event, sentence, {"sink": self._sink, "state": self.state.value, **(data or {})})

    def show(self, snapshot: Snapshot) -> None:
        """Show how the sink stands."""
        self._telling.show(snapshot)

    def flows(self) -> None:
        """A look saw that records were committed: figures have changed, and are known."""
        self._flowed = True

    def request(self, desired: DesiredState, by: str) -> None:
        """Write down what is wanted, before anything else is read or written."""
        self._wish = lambda: self._notes.request(desired, by)
        self._wishing = self._errands(self._wish)

    def wished(self) -> bool:
        """Whether that was done, so that what FIRN_SINKS wants is newer. What may pass is tried again, by this call."""
        if self._wishing is not None and self._wishing.done:
            again = isinstance(self._wishing.result, TransientError)
            self._wishing = self._errands(self._wish) if again else None
        return self._wishing is None

    def note(self, now: float, snapshot: Callable[[], Snapshot]) -> None:
        """Write the state down if it is time; what its figures are, `snapshot` tells."""
        if self._writing is not None:
            if not self._writing.done:
                return
            self._written(self._writing.result)
        due = self._dirty or self._flowed
        # Words change without the state too, for instance with each restart; a first refusal is tried again later.
        soon = self._dirty and not self._refused and self.state is not self._noted_state
        if self.silent or not due or (not soon and now - self._noted < NOTE_SECONDS):
            return
        self._dirty = self._flowed = False
        self._noted, self._noted_state = now, self.state
        state, words, stats = self.state, self.words, {"terminal": self.terminal, **snapshot().stats}
        self._writing = self._errands(
            lambda: self._notes.report(state, reason=words.reason, next_step=words.next_step, stats=stats)
        )

    def last(self, now: float, snapshot: Callable[[], Snapshot]) -> None:
        """Write down how it ended, and wait a moment for that."""
        if self._writing is not None and not self._writing.wait(LAST_NOTE_SECONDS):
            return
        self._noted = float("-inf")
        self.note(now, snapshot)
        if self._writing is not None:
            self._writing.wait(LAST_NOTE_SECONDS)

    def _written(self, result: FirnError | None) -> None:
        self._writing = None
        if result is None:
            self._refused = False
            return
        self._dirty = True
        if not self._refused:
            log.warning("The state of sink %s could not be written down: %s", self._sink, result.what)
        self._refused = True
