"""The steps of which transactions on FIRN_OFFSETS are made: the lock, the owner row signed, positions set.

Under the lock nobody else changes a sink's rows, so each step changes exactly the rows that were read before, or the
transaction ends. Not for which steps follow each other, and why (`table`, `retirement`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from firn.channels.recorded import RecordedChannel
from firn.errors import ClaimAgainError, FencedError, TerminalError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.folding import Fold, FoldedPosition, fold_positions
from firn.ledger.owner import Owner, SinkRunsError, spoken
from firn.ledger.positions import Move, Position
from firn.ledger.rows import TABLE, LedgerRows, Snapshot
from firn.snowflake.identifiers import Namespace

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection


class LedgerSteps:
    """FIRN_OFFSETS of one schema, as one sink changes it; a step belongs into a transaction that its caller opened."""

    def __init__(self, namespace: Namespace, sink: str) -> None:
        self._namespace, self._sink = namespace, sink
        self._name = namespace.qualified(TABLE)
        self._rows = LedgerRows(self._name, sink)

    def check_silent(self, owner: Owner | None, running_within: float) -> None:
        """Raise SinkRunsError where a run gave a sign of life within `running_within` seconds."""
        if owner and owner.runs(running_within):
            raise SinkRunsError(
                f"Sink {self._sink} runs: {owner.sign_of_life}.",
                where=self._name,
                next_step="Stop it first: `firn sink stop`, or cancel its flow run. If it was killed, it counts as "
                f"dead after {spoken(running_within)} without a sign of life, that is in "
                f"{spoken(running_within - owner.silent_seconds)}.",
            )

    def _lock(self, connection: SnowflakeConnection, *, above: int = 0) -> None:
        """Make other claims wait, and then every batch: what is read after this stands still until COMMIT.

        The epoch is raised, above `above`.
        """
        self._lock_row(connection)
        self._rows.raise_epoch(connection, above)

    def _lock_row(self, connection: SnowflakeConnection) -> None:
        if self._rows.lock(connection) != 1:
            raise TerminalError(
                f"Table {self._name} has no lock row, or several.",
                where=f"sink {self._sink}",
                next_step="The ledger was edited by hand: it must hold exactly one row with SINK = ''.",
            )

    def _sign(self, connection: SnowflakeConnection, seen: Snapshot, owner: Owner) -> None:
        if seen.owner is None:
            expect(self._rows.insert_owner(connection, owner), 1)
        else:
            changed = self._rows.update_owner(
                connection, owner.epoch, seen.owner.run_id, new_run_id=owner.run_id, document=owner.document
            )
            expect(changed, 1)

    def _hold(self, connection: SnowflakeConnection, owner: Owner) -> Snapshot:
        """The beginning of a second transaction: the lock, the new owner row, and what stands there now.

        Raises FencedError where the epoch is another one by now.
        """
        self._lock_row(connection)
        seen = self._rows.read(connection)
        if self._rows.update_owner(connection, owner.epoch, owner.run_id, document=owner.document) != 1:
            raise self._fenced()
        return seen

    def _raise_positions(
        self,
        connection: SnowflakeConnection,
        batch_id: str,
        positions: Mapping[TopicPartition, Position],
        folded: Mapping[TopicPartition, FoldedPosition],
    ) -> None:
        """Store what was folded into these positions, where anything of it is new."""
        now = fold_positions(positions, folded)
        moves = [
            Move(where, before.next_offset, now[where].next_offset)
            for where, before in positions.items()
            if now[where].next_offset > before.next_offset
        ]
        expect(self._rows.move(connection, batch_id, moves), len(moves))
        self._record(
            connection, {w: channel for w, at in now.items() if (channel := at.channel) != positions[w].channel}
        )

    def _record(
        self, connection: SnowflakeConnection, channels: Mapping[TopicPartition, RecordedChannel | None]
    ) -> None:
        known = {where: channel for where, channel in channels.items() if channel is not None}
        expect(self._rows.record(connection, known), len(known))

    def _place(
        self, connection: SnowflakeConnection, epoch: int, seen: Snapshot, positions: Mapping[TopicPartition, Position]
    ) -> None:
        there = {where: position for where, position in positions.items() if where in seen.positions}
        fresh = {where: position for where, position in positions.items() if where not in seen.positions}
        expect(self._rows.place(connection, f"{epoch}-reset", there), len(there))
        expect(self._rows.insert_positions(connection, fresh, f"{epoch}-reset"), len(fresh))

    def _check_unmoved(
        self, seen: Mapping[TopicPartition, Position], expected: Mapping[TopicPartition, Position | None]
    ) -> None:
        if moved := [str(where) for where, position in expected.items() if seen.get(where) != position]:
            raise TerminalError(
                f"The ledger has moved since the plan was made ({', '.join(moved)}): the sink ran, or somebody else "
                "reset it. Nothing was changed.",
                where=f"{self._name}, sink {self._sink}",
                next_step="Run the command again: it shows the new state.",
            )

    def _fold(
        self,
        owner: Owner,
        positions: Mapping[TopicPartition, Position],
        partitions: Mapping[TopicPartition, KafkaPartition],
        fold: Fold | None,
        *,
        needed: bool = False,
        replaced: Collection[TopicPartition] = (),
    ) -> Mapping[TopicPartition, FoldedPosition]:
        """What the channels know beyond the ledger; nothing where they know nothing and `needed` is not said."""
        if not (owner.tokens_ahead or needed):
            return {}
        if fold is None:
            raise TerminalError(
                f"The channels of sink {self._sink} may hold rows that its positions do not count yet, and nobody "
                "opens them.",
                where=self._name,
                next_step="Report this: whoever takes a streaming sink must be able to open its channels.",
            )
        return fold(owner, positions, partitions, replaced=replaced)

    def _fenced(self) -> FencedError:
        return FencedError(
            f"Sink {self._sink} belongs to a newer run, or its offsets were reset: this run has stopped for good.",
            where=self._name,
            next_step="Nothing is lost. Check why, if two runs of one sink were not intended.",
        )


def new_owner(seen: Snapshot) -> Owner:
    """The owner row of a sink that has none. Its epoch is above all that a sink of the name had, and so its generation:
    a token in a channel that outlived a clean says nothing."""
    return Owner(seen.floor + 1, "", 0.0, claimed=False, generation=seen.floor + 1)


def expect(changed: int, wanted: int) -> None:
    """Under the lock nobody else changes these rows; if it happens all the same, roll back and look again."""
    if changed != wanted:
        raise ClaimAgainError(f"The ledger changed in the middle of a claim: {changed} rows instead of {wanted}.")
