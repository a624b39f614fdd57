"""The end of a sink's name in the ledger: begun and ended under the ledger's lock, and nobody can claim in between.

The owner row says that a clean has begun (`Owner.cleaning`): claims and resets are refused then, so nothing that is
removed meanwhile is missed by anybody. The rows go last: a clean that was killed goes on from them. Not for what else
is removed (`firn.operations.clean`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from snowflake.connector import SnowflakeConnection

from firn.errors import TerminalError
from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Owner
from firn.ledger.positions import Position
from firn.ledger.rows import Snapshot
from firn.ledger.table import LedgerTable
from firn.snowflake.transactions import transaction


class LedgerRetirement(LedgerTable):
    """FIRN_OFFSETS as seen by somebody who retires a sink's name."""

    def look(self, connection: SnowflakeConnection) -> Snapshot:
        """What the ledger says of the sink. Raises MissingObjectError where there is no ledger."""
        return self._rows.read(connection)

    def begin(
        self,
        connection: SnowflakeConnection,
        *,
        running_within: float,
        seen: Owner | None,
        positions: Mapping[TopicPartition, Position],
        above: int = 0,
    ) -> int:
        """Take the sink from whoever has it, and let nobody claim it; returns the new epoch, which is above `above`.

        Everything of an epoch below it is of the past: no run can commit it. Works before the first claim too, after
        `ensure`, and again where a clean was killed. Raises SinkRunsError when a run gave a sign of life within
        `running_within` seconds, TerminalError where the ledger is not as it was `seen` with its `positions`, and
        ClaimAgainError when the lock or the answer to COMMIT did not come; the first two change nothing.
        """
        with transaction(connection):
            self._lock(connection, above=above)
            now = self._rows.read(connection)
            self.check_silent(now.owner, running_within)
            self._check_unmoved(now.positions, dict.fromkeys(now.positions) | dict(positions))
            self._check_owner(now.owner, seen, above)
            epoch = now.owner.epoch if now.owner else max(now.floor, above) + 1
            new = Owner(epoch, "", 0.0, claimed=False, generation=epoch)
            owner = replace(now.owner or new, run_id="", cleaning=True)
            self._sign(connection, now, owner)
        return epoch

    def end(self, connection: SnowflakeConnection, epoch: int, last: Callable[[], None]) -> None:
        """Delete the sink's rows, if the clean that began with `epoch` is still the one; before that call `last`.

        `last` removes what a run would miss: whoever claims, or cleans, waits for the lock meanwhile. What it raises
        leaves the rows. Later sinks of the name begin above `epoch`, so that what was forgotten somewhere is never
        taken for theirs. Raises TerminalError where another clean has begun, or ended, since.
        """
        with transaction(connection):
            if self._rows.lock(connection) == 0 or not _is_begun(self._rows.read(connection).owner, epoch):
                raise TerminalError(
                    f"Another clean of sink {self._sink} has begun since this one began.",
                    where=self._name,
                    next_step="`firn sink clean <config>` shows what is left.",
                )
            last()
            self._rows.delete(connection, epoch)

    def _check_owner(self, now: Owner | None, seen: Owner | None, above: int) -> None:
        """Under the lock the epoch was raised already."""
        if (now and now.epoch) != (seen and max(seen.epoch, above) + 1):
            raise TerminalError(
                f"Sink {self._sink} was started or reset since it was looked at. Nothing was changed.",
                where=self._name,
                next_step="Run the command again: it shows the new state.",
            )


def _is_begun(owner: Owner | None, epoch: int) -> bool:
    return owner is not None and owner.cleaning and owner.epoch == epoch
