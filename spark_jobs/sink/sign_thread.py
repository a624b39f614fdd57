"""The thread in which a run writes its signs of life: none of them waits for what the driver's main thread does.

That thread opens channels, changes tables and accounts for refused rows, for minutes at times, and whoever looks at the
sink meanwhile (`firn sink clean`, a supervisor) must see that it lives. A main thread that hangs is not spoken for:
once it has said nothing for VOUCH_SECONDS the signs pause. Not for what a sign says, or where it goes (`life_signs`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context

from firn.errors import FirnError, unexpected
from firn.kafka.partitions import TopicPartition
from spark_jobs.sink.life_signs import LifeSigns

VOUCH_SECONDS = 300.0
"""How long one step of the main thread may take, as far as the signs go. A supervisor's patience comes on top."""
JOIN_SECONDS = 10.0
"""How long the end of an epoch waits for a sign that is under way."""
_TICK_SECONDS = 0.5
log = logging.getLogger(__name__)


class SignThread:
    """Writes the signs of one run while an epoch is claimed and runs. For the driver's main thread.

    clock: seconds that only grow; tick: between two looks whether a sign is due.
    """

    def __init__(
        self, signs: LifeSigns, *, clock: Callable[[], float] = time.monotonic, tick: float = _TICK_SECONDS
    ) -> None:
        self._signs, self._clock, self._tick = signs, clock, tick
        self._heard, self._idle = clock(), False
        self._fault: FirnError | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, ledger_id: str, where: TopicPartition | None) -> None:
        """As `LifeSigns.begin`: the run has raised the epoch, and signs are written until `close`.

        Said again within an epoch it changes nothing. Where a sign of the epoch before is still under way, as in a
        session that does not answer, this epoch has none.
        """
        if (self._thread is not None and not self._stop.is_set()) or not self.close():
            return
        self._heard, self._idle, self._fault = self._clock(), False, None
        self._signs.begin(ledger_id, where)
        self._stop = threading.Event()
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._write, self._stop), name="firn-signs", daemon=True)
        self._thread.start()

    def moved(self) -> None:
        """As `LifeSigns.moved`."""
        self._signs.moved()

    def loaded(self, records: int, size: int) -> None:
        """As `LifeSigns.loaded`."""
        self._signs.loaded(records, size)

    def alive(self, *, idle: bool) -> FirnError | None:
        """The main thread lives, and nothing is under way (`idle`); gives what ends the run, as `send_if_due` does."""
        self._heard, self._idle = self._clock(), idle
        return self._fault

    def ended(self) -> None:
        """As `LifeSigns.ended`: the last sign. Never raises."""
        if self.close():
            self._signs.ended()

    def close(self) -> bool:
        """Write no more signs until the next `begin`; whether none is under way. Never raises."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)
            self._thread = self._thread if self._thread.is_alive() else None
        return self._thread is None

    def _write(self, stop: threading.Event) -> None:
        try:
            while self._fault is None:
                if self._clock() - self._heard < VOUCH_SECONDS:
                    self._fault = self._signs.send_if_due(idle=self._idle)
                if stop.wait(self._tick):
                    break
        except Exception as error:
            log.exception("signs of life cannot be written")
            self._fault = unexpected(error)
        finally:
            self._signs.close()
