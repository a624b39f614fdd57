"""Tokens ahead of the ledger: whoever takes the sink opens its channels first, and may be killed at any point."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from unittest.mock import patch

import pytest
from snowflake.connector import SnowflakeConnection

from firn.channels.recorded import RecordedChannel
from firn.channels.tokens import Token, next_offset
from firn.errors import ClaimAgainError, FencedError, TerminalError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger import rows
from firn.ledger.folding import FoldedPosition
from firn.ledger.owner import Owner, Totals
from firn.ledger.positions import Ledger, LostPositionError, Move, Position, Standing
from firn.ledger.retirement import LedgerRetirement
from firn.ledger.table import LedgerTable
from firn.sinks.channel_folding import FoldedChannel
from firn.snowflake.connection import SnowflakeLogin, connect, execute, query
from firn.snowflake.transactions import transaction
from tests.firn.ledger.test_table import KAFKA, P0, P1, P2, Seen, claim, offsets, own_table

pytestmark = pytest.mark.stack

NewRun = Callable[..., LedgerTable]
CREATED, PIPE, STREAMING = 1_700_000_000_000, "T-STREAMING", "SNOWPIPE_STREAMING"
REST = {P1: KafkaPartition("id", 0, 100)}


class KilledError(BaseException):
    """The process ends here."""


@dataclass
class Service:
    """Channels as the service keeps them: the offset that each one's token covers. It is a `Fold`.

    then: what happens once the channels are open.
    """

    covered: dict[TopicPartition, int] = field(default_factory=dict)
    then: Callable[[], object] = lambda: None
    generation: int = 1
    opened: list[tuple[Owner, dict[TopicPartition, int], set[TopicPartition]]] = field(default_factory=list)

    def __call__(
        self,
        owner: Owner,
        positions: Mapping[TopicPartition, Position],
        partitions: Mapping[TopicPartition, KafkaPartition],
        *,
        replaced: Collection[TopicPartition] = (),
    ) -> Mapping[TopicPartition, FoldedPosition]:
        recorded = {where for where, at in positions.items() if at.channel}
        self.opened.append((owner, {w: at.next_offset for w, at in positions.items()}, {*recorded, *partitions}))
        self.then()
        return {
            where: FoldedChannel(self._next(where, positions[where], owner), self.channel(where))
            for where in {*recorded, *partitions} - {*replaced}
        }

    def channel(self, where: TopicPartition, row_errors: int = 0) -> RecordedChannel:
        covered = self.covered.get(where)
        token = None if covered is None else str(Token(self.generation, covered))
        return RecordedChannel(PIPE, CREATED + where.partition, token, row_errors)

    def _next(self, where: TopicPartition, at: Position, owner: Owner) -> int:
        return max(at.next_offset, next_offset(self.channel(where).token, owner.generation) or 0)


def stream(run: LedgerTable, connection: SnowflakeConnection, service: Service, seen: Seen = KAFKA) -> Ledger:
    """A claim of the streaming method."""
    return claim(run, connection, seen, fold=service, method=STREAMING, tokens_ahead=True)


def killed() -> None:
    raise KilledError


def test_a_streaming_claim_says_that_tokens_are_ahead_before_anything_can_be_appended(connection, new_run) -> None:
    run, service = new_run(), Service()
    ledger = stream(run, connection, service)
    owner = run.owner(connection)
    assert (owner.method, owner.generation, owner.tokens_ahead) == (STREAMING, ledger.generation, True)
    ((asked, starts, opened),) = service.opened
    assert (asked.tokens_ahead, starts, opened) == (False, {P0: 0, P1: 5}, {P0, P1})
    recorded = {where: service.channel(where) for where in KAFKA}
    assert ledger.channels == recorded
    assert {where: at.channel for where, at in run.positions(connection).items()} == recorded
    assert run.standing(connection) == Standing(ledger.epoch, ledger.generation, {P0: 0, P1: 5})


def test_channels_are_opened_while_no_lock_is_held(login: SnowflakeLogin, connection, namespace, new_run) -> None:
    """It takes minutes where rows are on their way, and other sinks claim and commit meanwhile."""

    def another_sink_claims() -> None:
        with connect(login) as own:
            execute(own, "ALTER SESSION SET LOCK_TIMEOUT = 0")
            claim(new_run(f"other_{run._sink}"), own)

    run = new_run()
    assert stream(run, connection, Service(then=another_sink_claims)).committed == {P0: 0, P1: 5}


STEPS = ["while Kafka is asked", "while channels are opened"]


def die(
    run: LedgerTable,
    connection: SnowflakeConnection,
    step: str,
    service: Service,
    first: Literal["earliest", "latest"] = "earliest",
) -> None:
    """A claim whose process is killed between its transactions."""

    def observe() -> Seen:
        if step == "while Kafka is asked":
            raise KilledError
        return KAFKA

    opening = replace(service, then=killed)
    with pytest.raises(KilledError):
        run.claim(connection, observe, first, own_table, method=STREAMING, tokens_ahead=True, fold=opening)


@pytest.mark.parametrize("step", STEPS)
def test_a_first_claim_that_was_killed_in_between_is_still_to_be_made(connection, new_run, step: str) -> None:
    """`latest` stays `latest` for all that is there, and does not become a start at the earliest record."""
    die(new_run(), connection, step, Service(), "latest")
    run = new_run()
    assert (run.owner(connection).claimed, run.positions(connection)) == (False, {})
    grown = {P0: KafkaPartition("id", 0, 120), P1: KAFKA[P1]}
    assert claim(run, connection, grown, first="latest").committed == {P0: 120, P1: 100}
    found_later = {**grown, P2: KafkaPartition("id", 3, 9)}
    assert claim(new_run(), connection, found_later, first="latest").committed[P2] == 3


@pytest.mark.parametrize("step", STEPS)
def test_a_claim_that_was_killed_in_between_leaves_all_but_the_epoch_as_it_was(connection, new_run, step: str) -> None:
    streaming, service = new_run(), Service()
    epoch = stream(streaming, connection, service).epoch
    before, owner = streaming.positions(connection), streaming.owner(connection)
    service.covered = {P0: 6}
    die(new_run(), connection, step, service)
    left = streaming.owner(connection)
    assert (left.epoch, left.method, left.tokens_ahead) == (epoch + 1, STREAMING, True)
    assert (left.targets, streaming.positions(connection)) == (owner.targets, before)
    with pytest.raises(FencedError), transaction(connection):
        streaming.move(connection, epoch, "1-0", [Move(P0, 0, 7)])
    assert claim(new_run(), connection, method="SNOWPIPE", fold=service).committed == {P0: 7, P1: 5}


def test_another_method_folds_what_channels_know_and_goes_on_behind_it(connection, new_run) -> None:
    service = Service()
    stream(new_run(), connection, service)
    service.covered = {P0: 41, P1: 2}  # the second lies in front of its position
    run = new_run()
    ledger = claim(run, connection, method="SNOWPIPE", fold=service)
    assert ledger.committed == {P0: 42, P1: 5}
    owner, positions = run.owner(connection), run.positions(connection)
    assert (owner.method, owner.tokens_ahead) == ("SNOWPIPE", False)
    assert positions[P0].channel == service.channel(P0), "remembered: a clean must find it"
    times = len(service.opened)
    assert claim(new_run(), connection, method="SNOWPIPE", fold=service).committed == ledger.committed
    assert len(service.opened) == times, "there is nothing to open any more"
    assert stream(new_run(), connection, service).committed == ledger.committed


def test_tokens_of_topics_that_the_sink_reads_no_more_are_folded_too(connection, new_run) -> None:
    service = Service()
    stream(new_run(), connection, service)
    service.covered = {P0: 41, P1: 50}
    run = new_run()
    assert claim(run, connection, REST, method="SNOWPIPE", fold=service).committed == {P1: 51}
    assert offsets(run, connection) == {P0: 42, P1: 51}


def test_nobody_goes_on_without_opening_channels_whose_tokens_are_ahead(connection, new_run) -> None:
    service = Service()
    stream(new_run(), connection, service)
    with pytest.raises(TerminalError, match="nobody opens them"):
        claim(new_run(), connection, method="SNOWPIPE")
    with pytest.raises(TerminalError, match="nobody opens them"):
        new_run().reset(connection, {P0: Position(0, "id")}, running_within=0)
    assert offsets(new_run(), connection) == {P0: 0, P1: 5}


def test_positions_are_held_against_kafka_once_they_are_folded(connection, new_run) -> None:
    service = Service()
    stream(new_run(), connection, service)
    service.covered = {P0: 41}
    expired = {P0: KafkaPartition("id", 40, 100), P1: KAFKA[P1]}
    assert stream(new_run(), connection, service, expired).committed[P0] == 42, "what expired was durable"
    service.covered = {P0: 100}
    with pytest.raises(LostPositionError, match="its end is 100, below the committed position 101"):
        stream(new_run(), connection, service)
    service.covered = {P0: 41}
    recreated = {P0: KafkaPartition("another", 0, 100), P1: KAFKA[P1]}
    with pytest.raises(LostPositionError, match="deleted and made again"):
        stream(new_run(), connection, service, recreated)


def test_a_run_that_wrote_on_until_its_channels_were_taken_is_no_lost_position(connection, new_run) -> None:
    """Its tasks append records that came after Kafka was asked: Kafka is asked again before it counts as too short."""
    service = Service()
    stream(new_run(), connection, service)
    service.covered = {P0: 104}
    grown = {P0: KafkaPartition("id", 0, 110), P1: KAFKA[P1]}
    looks = iter([KAFKA, grown])
    run = new_run()
    ledger = run.claim(
        connection, lambda: next(looks), "earliest", own_table, method=STREAMING, tokens_ahead=True, fold=service
    )
    assert ledger.committed == {P0: 105, P1: 5}


def test_partitions_that_appear_while_a_claim_asks_again_are_claimed_too(connection, new_run) -> None:
    service = Service()
    stream(new_run(), connection, service)
    service.covered = {P0: 104}
    grown = {P0: KafkaPartition("id", 0, 110), P1: KAFKA[P1], P2: KafkaPartition("id", 0, 1)}
    looks = iter([KAFKA, grown])
    with pytest.raises(ClaimAgainError, match="while the sink claimed"):
        new_run().claim(
            connection, lambda: next(looks), "earliest", own_table, method=STREAMING, tokens_ahead=True, fold=service
        )
    assert stream(new_run(), connection, service, grown).committed == {P0: 105, P1: 5, P2: 0}


def test_a_position_its_token_and_the_baseline_of_errors_move_together(connection, new_run) -> None:
    run, service = new_run(), Service()
    epoch = stream(run, connection, service).epoch
    service.covered = {P0: 6}
    moved = service.channel(P0, row_errors=3)
    with pytest.raises(ClaimAgainError, match="0 of 1"), transaction(connection):
        run.move(connection, epoch, "1-0", [Move(P0, 1, 7)], Totals(7), {P0: moved})
    assert run.positions(connection)[P0].channel == replace(moved, token=None, row_errors=0)
    with transaction(connection):
        run.move(connection, epoch, "1-0", [Move(P0, 0, 7)], Totals(7), {P0: moved})
    positions = run.positions(connection)
    assert (positions[P0].next_offset, positions[P0].channel) == (7, moved)
    assert positions[P1].channel == service.channel(P1)
    assert run.owner(connection).tokens_ahead
    with pytest.raises(ClaimAgainError), transaction(connection):
        run.move(connection, epoch, "1-1", [], channels={P2: moved})


def test_an_orderly_end_takes_the_sink_from_its_tasks_before_it_opens_channels(connection, new_run) -> None:
    """A cancelled task may live on: when its channel is taken, it opens it again and asks who may write."""
    run, service = new_run(), Service()
    epoch = stream(run, connection, service).epoch
    sealed = run.seal(connection, epoch)
    with pytest.raises(FencedError):
        run.check_epoch(connection, epoch)
    service.covered = {P0: 41, P1: 50}
    folded = service(run.owner(connection), run.positions(connection), {})
    run.settle(connection, sealed, folded, Totals(records=9))
    owner = run.owner(connection)
    assert (owner.tokens_ahead, owner.totals, offsets(run, connection)) == (False, Totals(records=9), {P0: 42, P1: 51})
    run.release(connection, epoch)
    assert run.owner(connection).run_id == ""
    assert claim(run, connection, method="SNOWPIPE").committed == {P0: 42, P1: 51}, "and nobody need open them"


def test_a_run_that_lost_the_sink_neither_seals_nor_settles_it(connection, new_run) -> None:
    older, newer, service = new_run(), new_run(), Service()
    epoch = stream(older, connection, service).epoch
    sealed = older.seal(connection, epoch)
    stream(newer, connection, service)
    service.covered = {P0: 41}
    with pytest.raises(FencedError):
        older.settle(connection, sealed, {P0: FoldedChannel(42, service.channel(P0))})
    with pytest.raises(FencedError):
        older.seal(connection, sealed)
    assert newer.owner(connection).tokens_ahead
    assert offsets(newer, connection)[P0] == 0


def test_a_reset_opens_channels_first_and_leaves_the_rest_behind_their_tokens(connection, new_run) -> None:
    service, person = Service(), new_run()
    epoch = stream(new_run(), connection, service).epoch
    service.covered = {P0: 41, P1: 50}
    before = person.positions(connection)
    chosen = {P0: Position(10, "id")}
    assert person.reset(connection, chosen, running_within=0, expected=before, fold=service) == epoch + 1
    asked, _, opened = service.opened[-1]
    assert (asked.epoch, asked.tokens_ahead, opened) == (epoch + 1, True, {P0, P1}), "writers of both are fenced"
    assert offsets(person, connection) == {P0: 10, P1: 51}
    owner = person.owner(connection)
    assert (owner.run_id, owner.tokens_ahead, owner.generation) == ("", False, epoch + 1)
    assert stream(new_run(), connection, service).committed == {P0: 10, P1: 51}, "older tokens say nothing"


def test_a_reset_that_was_killed_while_it_opened_channels_is_given_again(connection, new_run) -> None:
    service, person = Service(), new_run()
    epoch = stream(new_run(), connection, service).epoch
    service.covered = {P0: 41, P1: 50}
    chosen = {P0: Position(10, "id")}
    with pytest.raises(KilledError):
        person.reset(connection, chosen, running_within=0, fold=replace(service, then=killed))
    owner = person.owner(connection)
    assert (owner.epoch, owner.tokens_ahead, owner.generation) == (epoch + 1, True, epoch)
    assert offsets(person, connection) == {P0: 0, P1: 5}
    person.reset(connection, chosen, running_within=90, fold=service)
    assert offsets(person, connection) == {P0: 10, P1: 51}


def test_a_sink_that_starts_while_a_reset_opens_channels_is_not_reset(login, connection, new_run) -> None:
    service, person, started = Service(), new_run(), new_run()
    stream(new_run(), connection, service)
    service.covered = {P0: 41, P1: 50}

    def start() -> None:
        with connect(login) as own:
            stream(started, own, replace(service, then=lambda: None))

    with pytest.raises(TerminalError, match="was started"):
        person.reset(connection, {P0: Position(10, "id")}, running_within=0, fold=replace(service, then=start))
    assert offsets(started, connection) == {P0: 42, P1: 51}
    assert started.owner(connection).tokens_ahead


def test_tokens_of_a_sink_that_was_cleaned_away_say_nothing_to_the_next_of_its_name(connection, new_schema) -> None:
    """Where its channels could not be dropped they are still there, under the same names."""
    namespace, service = new_schema(), Service(covered={P0: 41})
    run, retirement = LedgerTable(namespace, "s", "run"), LedgerRetirement(namespace, "s")
    run.ensure(connection)
    assert stream(run, connection, service).committed[P0] == 42
    run.release(connection, 1)
    seen = retirement.look(connection)
    cleaned = retirement.begin(connection, running_within=90, seen=seen.owner, positions=seen.positions)
    retirement.end(connection, cleaned, lambda: None)
    again = stream(LedgerTable(namespace, "s", "another"), connection, service)
    assert (again.generation, again.committed[P0]) == (3, 0)


def test_a_ledger_has_one_id_that_no_other_ledger_has(connection, new_schema, new_run) -> None:
    first, second = new_run(), LedgerTable(new_schema(), "s", "run")
    assert second.ledger_id(connection) is None
    second.ensure(connection)
    own = first.ledger_id(connection)
    assert len(own) == 12
    assert own != second.ledger_id(connection)
    first.ensure(connection)
    assert claim(first, connection).ledger_id == own == claim(new_run(), connection).ledger_id


@pytest.mark.parametrize("sink", ["plain", "it's \\ odd"])
def test_tasks_of_all_runs_ask_the_ledger_by_one_text(connection, new_run, sink: str) -> None:
    """Without bound values or context functions, so that Snowflake may answer from its result cache."""
    asked: list[tuple[object, ...]] = []

    def asking(*given: object) -> list[dict[str, object]]:
        asked.append(given[1:])
        return query(*given)  # type: ignore[arg-type]

    name = f"{sink} {new_run()._sink}"
    claimed = claim(new_run(name), connection)
    with patch.object(rows, "query", asking):
        found = [new_run(name).standing(connection) for _ in range(2)]
        new_run(name).check_epoch(connection, claimed.epoch)
    assert found == [Standing(claimed.epoch, claimed.generation, {P0: 0, P1: 5})] * 2
    (text,) = set(asked)
    assert len(text) == 1
    assert "?" not in str(text).replace(name, "")
    assert new_run(f"unknown {name}").standing(connection) == Standing(0, 1, {})
