"""The ledger in Snowflake: who may write for a sink, and where each partition goes on. Table FIRN_OFFSETS.

One lock row (SINK = '') serialises claims and resets: keys are not enforced in Snowflake, and INSERTs do not wait for
each other. Nothing slow happens under it: a claim raises the epoch in one transaction, asks Kafka and opens channels
with no lock held, and writes what it found in a second one, which counts only while the epoch is its own. Not for the
statements (`rows`) and the steps that they make up (`steps`), nor for retiring a sink (`retirement`). Reasons:
docs/decisions/0001-commit-protocol.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from firn.channels.recorded import RecordedChannel
from firn.errors import ClaimAgainError, FencedError, TerminalError, TransientError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.folding import Fold, FoldedPosition, fold_positions
from firn.ledger.kafka_names import new_ledger_id
from firn.ledger.owner import Owner, Totals, check_not_cleaning, check_targets
from firn.ledger.positions import Ledger, Move, Position, Standing, check_positions, missing_positions
from firn.ledger.rows import TABLE, View
from firn.ledger.steps import LedgerSteps, expect, new_owner
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace
from firn.snowflake.tables import make_unless_there
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

log = logging.getLogger(__name__)


class LedgerTable(LedgerSteps):
    """FIRN_OFFSETS of one schema, as seen by one run of one sink; `run_id` is a name that no other run has.

    Holds no connection: each call is given one, which nobody else uses at that moment. `claim` belongs to one thread;
    `beat` may come from another, with a connection of its own.
    """

    def __init__(self, namespace: Namespace, sink: str, run_id: str = "") -> None:
        super().__init__(namespace, sink)
        self._run_id = run_id
        # The epoch that this run holds for certain, and the highest one it may hold: they differ while the answer to
        # a claim's COMMIT is lost.
        self._certain = self._highest = 0
        self._owner = Owner(0, run_id, 0.0)  # as this run wrote it last

    @property
    def held(self) -> int:
        """The epoch that this run holds for certain, also where its claim then failed; 0 before."""
        return self._certain

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the table with its lock row, both in one statement, unless it is there."""
        make_unless_there(connection, self._namespace, TABLE, lambda: self._rows.create(connection, new_ledger_id()))

    def claim(
        self,
        connection: SnowflakeConnection,
        observe: Callable[[], Mapping[TopicPartition, KafkaPartition]],
        first_offset: Literal["earliest", "latest"],
        table_of: Callable[[str], str],
        *,
        topics: Iterable[str] = (),
        share_target: bool = False,
        letters: bool = False,
        method: str = "",
        tokens_ahead: bool = False,
        fold: Fold | None = None,
    ) -> Ledger:
        """Become the one writer of this sink: every run before this one is fenced from the first transaction on.

        `observe` looks at Kafka and `fold` opens channels, both between the two transactions: no older run can move a
        position then, and no lock is held. `fold` is called where the sink's tokens are ahead of the ledger, and where
        those of `method` will be (`tokens_ahead`): the owner row says so before anything can be appended. `table_of`
        gives a topic's table, `topics` are those known before, `letters` says whether the sink has a dead-letter topic.
        A claim that ends between its transactions leaves a higher epoch, and a first claim stays to be made.

        Raises LostPositionError where Kafka or a channel cannot continue, SharedTargetError where another sink writes
        the same topic into the same table (unless `share_target`), FencedError where somebody else claimed meanwhile,
        CleaningError where the sink's name is being retired, ClaimAgainError where a lock or the answer to COMMIT did
        not come. SharedTargetError for one of `topics`, and CleaningError, leave the ledger as it was.
        """
        targets = {topic: table_of(topic) for topic in topics}
        taken = self._take(connection, targets, share_target=share_target)
        partitions = observe()
        positions, added = taken.start(partitions, first_offset)
        folded = self._fold(taken.owner, positions, partitions, fold, needed=tokens_ahead)
        positions_now = fold_positions(positions, folded)
        if any(positions_now[where].next_offset > seen.latest for where, seen in partitions.items()):
            partitions = self._observed_again(observe, partitions)
        check_positions(self._sink, positions_now, partitions)
        targets = {where.topic: table_of(where.topic) for where in partitions}
        claimed = replace(taken.owner, targets=targets, claimed=True, shared=share_target, method=method)
        claimed = replace(claimed, letters=letters or claimed.letters, tokens_ahead=tokens_ahead)
        with transaction(connection):
            seen = self._hold(connection, claimed)
            if not share_target:
                check_targets(self._sink, taken.owner, targets, seen.others)
            expect(self._rows.insert_positions(connection, added, ""), len(added))
            self._raise_positions(connection, f"{claimed.epoch}-claim", positions, folded)
        self._owner = claimed
        if tokens_ahead:
            self.standing(connection)  # tasks ask the same: Snowflake may answer them from this result
        return _ledger(self._sink, taken.ledger_id, claimed, positions_now, partitions)

    def _take(self, connection: SnowflakeConnection, targets: Mapping[str, str], *, share_target: bool) -> _Taken:
        """The first transaction of a claim: from its COMMIT on no older run can move a position."""
        with transaction(connection):
            self._lock(connection)
            seen = self._rows.read(connection)
            self._check_turn(seen.owner)
            check_not_cleaning(self._sink, seen.owner)
            if not share_target:
                check_targets(self._sink, seen.owner, targets, seen.others)
            owner = replace(seen.owner or new_owner(seen), run_id=self._run_id, silent_seconds=0.0)
            self._highest = owner.epoch  # from here on COMMIT may have happened, whatever its answer
            self._sign(connection, seen, owner)
        self._certain, self._owner = owner.epoch, owner
        return _Taken(owner, seen.positions, seen.ledger_id)

    def _observed_again(
        self, observe: Callable[[], Mapping[TopicPartition, KafkaPartition]], before: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, KafkaPartition]:
        """Kafka once more: tasks of an older run append what comes until their channels are opened."""
        now = observe()
        if now.keys() != set(before):
            raise ClaimAgainError("Topics or partitions appeared, or went, while the sink claimed.")
        return now

    def move(
        self,
        connection: SnowflakeConnection,
        epoch: int,
        batch_id: str,
        moves: Sequence[Move],
        loaded: Totals = Totals(),  # noqa: B008 - a value
        channels: Mapping[TopicPartition, RecordedChannel] = MappingProxyType({}),
    ) -> None:
        """The last statements of a batch's transaction: prove ownership, then move every partition.

        loaded: what the batch adds to the sink's totals. channels: what is recorded of channels from now on; a token
        and a baseline of row errors move with the positions that they belong to.

        Raises FencedError when this run does not own the sink any more and ClaimAgainError when a position is not
        where this batch started; both leave it to the caller to roll back.
        """
        self._rewrite(connection, epoch, replace(self._owner, totals=self._owner.totals + loaded))
        moved = self._rows.move(connection, batch_id, moves)
        if moved != len(moves):
            raise ClaimAgainError(f"{moved} of {len(moves)} partitions stood where this batch began.")
        self._record(connection, channels)

    def seal(self, connection: SnowflakeConnection, epoch: int) -> int:
        """Let no task of this epoch append again, before its channels are opened for the last time.

        A task that was cancelled may live on; when its channel is taken it opens it again, and asks who may write.
        Returns the epoch that this run, and no task, holds from here on. Raises FencedError as `beat` does.
        """
        self._highest = epoch + 1  # whatever becomes of the answer
        if self._rows.update_owner(connection, epoch, self._run_id, new_epoch=epoch + 1) != 1:
            raise self._fenced()
        self._certain = epoch + 1
        return self._certain

    def settle(
        self,
        connection: SnowflakeConnection,
        epoch: int,
        folded: Mapping[TopicPartition, FoldedPosition],
        loaded: Totals = Totals(),  # noqa: B008 - a value
    ) -> None:
        """The orderly end of a streaming run, once its channels were opened: no token is ahead of the ledger any more.

        epoch: that of `seal`. folded: of all partitions that have a channel. loaded: what is added to the sink's
        totals. One transaction of its own. Raises as `move` does.
        """
        with transaction(connection):
            owner = replace(self._owner, totals=self._owner.totals + loaded, tokens_ahead=False)
            self._rewrite(connection, epoch, owner)
            positions = self._rows.read(connection).positions
            if unknown := sorted(str(where) for where in folded.keys() - positions.keys()):
                raise ClaimAgainError(f"The ledger has no row of {', '.join(unknown)}.")
            self._raise_positions(connection, f"{epoch}-end", positions, folded)

    def beat(self, connection: SnowflakeConnection, epoch: int) -> None:
        """A sign of life. Raises FencedError when this run does not own the sink any more."""
        if self._rows.update_owner(connection, epoch, self._run_id) != 1:
            raise self._fenced()

    def check_epoch(self, connection: SnowflakeConnection, epoch: int) -> None:
        """Raise FencedError unless `epoch` is still the sink's: a look, for tasks, which have no run id."""
        if self.standing(connection).epoch != epoch:
            raise self._fenced()

    def standing(self, connection: SnowflakeConnection) -> Standing:
        """Who may write and where each partition goes on, for tasks: the same fixed text from all of them.

        Snowflake may answer it from its result cache, without a warehouse, while the table stays as it is. Raises
        MissingObjectError where there is no ledger.
        """
        return self._rows.standing(connection)

    def view(self, connection: SnowflakeConnection) -> View | None:
        """What an observer sees, by one fixed text that `standing` explains; None where there is no ledger."""
        try:
            return self._rows.view(connection)
        except MissingObjectError:
            return None

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
        if self._rows.update_owner(connection, epoch, self._run_id, document=owner.document) != 1:
            raise self._fenced()
        self._owner = owner

    def release(self, connection: SnowflakeConnection, epoch: int) -> None:
        """Say that nobody runs the sink, at an orderly end. Without it, silence has to tell.

        Never raises where another run owns the sink by now, nor where Snowflake does not answer: the run has ended.
        """
        try:
            held = max(epoch, self._certain)  # `seal` may have raised it
            released = self._rows.update_owner(connection, held, self._run_id, new_run_id="")
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

    def ledger_id(self, connection: SnowflakeConnection) -> str | None:
        """The id of the schema's ledger; None where there is none yet. As cheap as `standing`."""
        try:
            return self._rows.ledger_id(connection)
        except MissingObjectError:
            return None

    def reset(
        self,
        connection: SnowflakeConnection,
        positions: Mapping[TopicPartition, Position],
        *,
        running_within: float,
        expected: Mapping[TopicPartition, Position | None] | None = None,
        fold: Fold | None = None,
    ) -> int:
        """Set where these partitions go on (offset and topic id), leave the others; returns the new epoch.

        Whoever still runs is fenced by it, and offset tokens of before say nothing any more. Where such tokens are
        ahead of the ledger, `fold` opens the channels between two transactions, and the other partitions go on behind
        their tokens. Works before the first claim too, after `ensure`.

        Raises SinkRunsError when a run gave a sign of life within `running_within` seconds, TerminalError where a
        partition does not stand as `expected` says (None: it has no row) or somebody claimed while channels were
        opened, what `fold` raises, and ClaimAgainError when the lock or the answer to COMMIT did not
        come: the same reset may then be given again.
        """
        with transaction(connection):
            self._lock(connection)
            seen = self._rows.read(connection)
            self.check_silent(seen.owner, running_within)
            check_not_cleaning(self._sink, seen.owner)
            self._check_unmoved(seen.positions, expected or {})
            taken = replace(seen.owner or new_owner(seen), run_id="")
            settled = replace(taken, generation=taken.epoch, tokens_ahead=False)
            self._sign(connection, seen, taken if taken.tokens_ahead else settled)
            if not taken.tokens_ahead:
                self._place(connection, taken.epoch, seen, positions)
        if taken.tokens_ahead:
            self._reset_folded(connection, taken, settled, seen.positions, positions, fold)
        return taken.epoch

    def _reset_folded(
        self,
        connection: SnowflakeConnection,
        taken: Owner,
        settled: Owner,
        before: Mapping[TopicPartition, Position],
        chosen: Mapping[TopicPartition, Position],
        fold: Fold | None,
    ) -> None:
        """Open the channels, then set the chosen positions, and raise the others behind their tokens."""
        folded = self._fold(taken, before, {}, fold, replaced=chosen)
        others = {where: each for where, each in folded.items() if where not in chosen}
        try:
            with transaction(connection):
                seen = self._hold(connection, settled)
                self._raise_positions(connection, f"{taken.epoch}-reset", seen.positions, others)
                self._place(connection, taken.epoch, seen, chosen)
        except FencedError as error:
            raise TerminalError(
                f"Sink {self._sink} was started, or reset, while its channels were opened. No position was set.",
                where=self._name,
                next_step="Stop the sink, then run the command again: it shows the new state.",
            ) from error

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


@dataclass(frozen=True)
class _Taken:
    """What the first transaction of a claim left: the owner row, and positions that no other run can move."""

    owner: Owner
    positions: Mapping[TopicPartition, Position]
    ledger_id: str

    def start(
        self, partitions: Mapping[TopicPartition, KafkaPartition], first_offset: Literal["earliest", "latest"]
    ) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, Position]]:
        """(all positions, those of them that have no row yet), before channels say more."""
        first = not self.owner.claimed
        added = missing_positions(self.positions, partitions, first_claim=first, first_offset=first_offset)
        return {**self.positions, **added}, added


def _ledger(
    sink: str,
    ledger_id: str,
    owner: Owner,
    positions: Mapping[TopicPartition, Position],
    partitions: Collection[TopicPartition],
) -> Ledger:
    claimed = {where: at for where, at in positions.items() if where in partitions}
    return Ledger(
        sink,
        owner.epoch,
        {where: at.next_offset for where, at in claimed.items()},
        ledger_id,
        owner.generation,
        {where: at.channel for where, at in claimed.items() if at.channel is not None},
    )
