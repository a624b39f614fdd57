"""The ledger in Snowflake: who may write for a sink, and where each partition goes on. Table FIRN_OFFSETS.

One lock row (SINK = '') serialises claims and resets: keys are not enforced in Snowflake, and INSERTs do not wait for
each other. Not for the statements themselves (`rows`), nor for retiring a sink (`retirement`). Reasons:
docs/decisions/0001-commit-protocol.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from firn.errors import ClaimAgainError, FencedError, TerminalError, TransientError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Owner, SinkRunsError, Totals, check_not_cleaning, check_targets, spoken
from firn.ledger.positions import Ledger, Move, Position, check_positions, missing_positions
from firn.ledger.rows import LedgerRows, Snapshot
from firn.snowflake.identifiers import Namespace
from firn.snowflake.tables import make_unless_there
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

TABLE = "FIRN_OFFSETS"
log = logging.getLogger(__name__)


class LedgerTable:
    """FIRN_OFFSETS of one schema, as seen by one run of one sink; `run_id` is a name that no other run has.

    Holds no connection: each call is given one, which nobody else uses at that moment. `claim` belongs to one thread;
    `beat` may come from another, with a connection of its own.
    """

    def __init__(self, namespace: Namespace, sink: str, run_id: str = "") -> None:
        self._namespace = namespace
        self._name = namespace.qualified(TABLE)
        self._rows = LedgerRows(self._name, sink)
        self._sink, self._run_id = sink, run_id
        # The epoch that this run holds for certain, and the highest one it may hold: they differ while the answer to
        # a claim's COMMIT is lost.
        self._certain = self._highest = 0
        self._owner = Owner(0, run_id, 0.0)  # as this run wrote it last

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the table with its lock row, both in one statement, unless it is there."""
        make_unless_there(connection, self._namespace, TABLE, lambda: self._rows.create(connection))

    def claim(
        self,
        connection: SnowflakeConnection,
        observe: Callable[[], Mapping[TopicPartition, KafkaPartition]],
        first_offset: Literal["earliest", "latest"],
        table_of: Callable[[str], str],
        *,
        share_target: bool = False,
        letters: bool = False,
    ) -> Ledger:
        """Become the one writer of this sink: every run before this one is fenced once this returns.

        `observe` looks at Kafka; it is called when no older run can commit any more, or positions might pass what it
        saw. `table_of` gives a topic's table, `letters` whether the sink has a dead-letter topic.

        Raises LostPositionError where Kafka cannot continue, SharedTargetError where another sink writes the same topic
        into the same table (unless `share_target`), FencedError where this run claimed before and somebody else has
        since, CleaningError where the sink's name is being retired, ClaimAgainError where the lock or the answer to
        COMMIT did not come. All but the last leave the ledger as it was.
        """
        with transaction(connection):
            self._lock(connection)
            partitions = observe()
            seen = self._rows.read(connection)
            self._check_turn(seen.owner)
            check_not_cleaning(self._sink, seen.owner)
            check_positions(self._sink, seen.positions, partitions)
            targets = {where.topic: table_of(where.topic) for where in partitions}
            if not share_target:
                check_targets(self._sink, seen.owner, targets, seen.others)
            first = seen.owner is None or not seen.owner.claimed
            added = missing_positions(seen.positions, partitions, first_claim=first, first_offset=first_offset)
            state = seen.owner.method_state if seen.owner else {}
            letters = letters or bool(seen.owner and seen.owner.letters)
            totals = seen.owner.totals if seen.owner else Totals()
            owner = Owner(
                _epoch(seen), self._run_id, 0.0, targets, state, shared=share_target, letters=letters, totals=totals
            )
            self._highest = owner.epoch  # from here on COMMIT may have happened, whatever its answer
            self._sign(connection, seen, owner)
            _expect(self._rows.insert_positions(connection, added, ""), len(added))
        self._certain, self._owner = owner.epoch, owner
        positions = {**seen.positions, **added}
        return Ledger(self._sink, owner.epoch, {w: p.next_offset for w, p in positions.items() if w in partitions})

    def move(
        self,
        connection: SnowflakeConnection,
        epoch: int,
        batch_id: str,
        moves: Sequence[Move],
        loaded: Totals = Totals(),  # noqa: B008 - a value
    ) -> None:
        """The last statements of a batch's transaction: prove ownership, then move every partition.

        loaded: what the batch adds to the sink's totals.

        Raises FencedError when this run does not own the sink any more and ClaimAgainError when a position is not
        where this batch started; both leave it to the caller to roll back.
        """
        self._rewrite(connection, epoch, replace(self._owner, totals=self._owner.totals + loaded))
        moved = self._rows.move(connection, batch_id, moves)
        if moved != len(moves):
            raise ClaimAgainError(f"{moved} of {len(moves)} partitions stood where this batch began.")

    def beat(self, connection: SnowflakeConnection, epoch: int) -> None:
        """A sign of life. Raises FencedError when this run does not own the sink any more."""
        if self._rows.update_owner(connection, epoch, self._run_id) != 1:
            raise self._fenced()

    def check_epoch(self, connection: SnowflakeConnection, epoch: int) -> None:
        """Raise FencedError unless `epoch` is still the sink's: a look, for tasks, which have no run id."""
        owner = self.owner(connection)
        if owner is None or owner.epoch != epoch:
            raise self._fenced()

    def update_method_state(
        self,
        connection: SnowflakeConnection,
        epoch: int,
        change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        """Change what the method remembers in the owner row (`Owner.method_state`). Raises FencedError as `beat` does.

        Outside a batch's transaction: that one may be rolled back, and this must stay.
        """
        owner = self.owner(connection)
        if owner is None:
            raise self._fenced()
        self._rewrite(connection, epoch, replace(owner, method_state=change(owner.method_state)))

    def _rewrite(self, connection: SnowflakeConnection, epoch: int, owner: Owner) -> None:
        """Write the owner row's document. Where this is rolled back, the run claims again, and reads it again."""
        if self._rows.update_owner(connection, epoch, self._run_id, BATCH_ID=owner.document) != 1:
            raise self._fenced()
        self._owner = owner

    def release(self, connection: SnowflakeConnection, epoch: int) -> None:
        """Say that nobody runs the sink, at an orderly end. Without it, silence has to tell.

        Never raises where another run owns the sink by now, nor where Snowflake does not answer: the run has ended.
        """
        try:
            released = self._rows.update_owner(connection, epoch, self._run_id, TOPIC_ID="")
        except TransientError as error:
            log.warning("The sink could not be released, it looks as if it ran until it is silent: %s", error.what)
        else:
            if released != 1:
                log.info("sink %s was not held by this run any more", self._sink)

    def owner(self, connection: SnowflakeConnection) -> Owner | None:
        """Who holds the sink; None before its first claim. Raises MissingObjectError where there is no ledger."""
        return self._rows.read(connection).owner

    def positions(self, connection: SnowflakeConnection) -> dict[TopicPartition, Position]:
        """The committed positions of this sink; empty before its first claim. Errors: as `owner`."""
        return self._rows.read(connection).positions

    def reset(
        self,
        connection: SnowflakeConnection,
        positions: Mapping[TopicPartition, Position],
        *,
        running_within: float,
        expected: Mapping[TopicPartition, Position | None] | None = None,
    ) -> int:
        """Set where these partitions go on (offset and topic id), leave the others; returns the new epoch.

        Whoever still runs is fenced by it. Works before the first claim too, after `ensure`. Raises SinkRunsError when
        a run gave a sign of life within `running_within` seconds, TerminalError where a partition does not stand as
        `expected` says (None: it has no row), and ClaimAgainError when the lock or the answer to COMMIT did not come:
        the same reset may then be given again.
        """
        with transaction(connection):
            self._lock(connection)
            seen = self._rows.read(connection)
            self.check_silent(seen.owner, running_within)
            check_not_cleaning(self._sink, seen.owner)
            self._check_unmoved(seen.positions, expected or {})
            epoch = _epoch(seen)
            owner = replace(seen.owner or Owner(epoch, "", 0.0, claimed=False), run_id="")
            self._sign(connection, seen, owner)
            there = {where: position for where, position in positions.items() if where in seen.positions}
            fresh = {where: position for where, position in positions.items() if where not in seen.positions}
            _expect(self._rows.place(connection, f"{epoch}-reset", there), len(there))
            _expect(self._rows.insert_positions(connection, fresh, f"{epoch}-reset"), len(fresh))
        return epoch

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

    def _lock(self, connection: SnowflakeConnection, *, above: int = 0) -> None:
        """Make other claims wait, and then every batch: what is read after this stands still until COMMIT.

        The epoch is raised, above `above`.
        """
        if self._rows.lock(connection) != 1:
            raise TerminalError(
                f"Table {self._name} has no lock row, or several.",
                where=f"sink {self._sink}",
                next_step="The ledger was edited by hand: it must hold exactly one row with SINK = ''.",
            )
        self._rows.raise_epoch(connection, above)

    def _sign(self, connection: SnowflakeConnection, seen: Snapshot, owner: Owner) -> None:
        if seen.owner is None:
            _expect(self._rows.insert_owner(connection, owner), 1)
        else:
            changes = {"TOPIC_ID": owner.run_id, "BATCH_ID": owner.document}
            _expect(self._rows.update_owner(connection, owner.epoch, seen.owner.run_id, **changes), 1)

    def _check_turn(self, owner: Owner | None) -> None:
        """A run that claimed before may claim again only while nobody else has, and only on the same ledger."""
        before = owner.epoch - 1 if owner else 0
        if self._highest and before > self._highest:
            raise self._fenced()
        if before < self._certain:
            raise TerminalError(
                f"The ledger was set back while the sink ran: its epoch is {before}, this run holds {self._certain}.",
                where=self._name,
                next_step="Somebody dropped, emptied or restored it, or cleaned the sink: set the positions to what "
                "the tables hold with `firn sink offsets <config> --reset ...`, then start the sink again.",
            )

    def _fenced(self) -> FencedError:
        return FencedError(
            f"Sink {self._sink} belongs to a newer run, or its offsets were reset: this run has stopped for good.",
            where=self._name,
            next_step="Nothing is lost. Check why, if two runs of one sink were not intended.",
        )


def _epoch(seen: Snapshot) -> int:
    """The epoch that this transaction brings: `_lock` has raised it where there is one."""
    return seen.owner.epoch if seen.owner else seen.floor + 1


def _expect(changed: int, wanted: int) -> None:
    """Under the lock nobody else changes these rows; if it happens all the same, roll back and look again."""
    if changed != wanted:
        raise ClaimAgainError(f"The ledger changed in the middle of a claim: {changed} rows instead of {wanted}.")
