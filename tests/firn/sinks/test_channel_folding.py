"""What channels say of positions when a sink is taken over, and when nobody may go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import SecretStr

from firn.channels.names import channel_name
from firn.channels.recorded import ChannelSeen, RecordedChannel
from firn.connector.config import SinkConfig
from firn.errors import TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Owner
from firn.ledger.positions import LostPositionError, Position
from firn.settings import Settings
from firn.sinks.channel_folding import ChannelFolder, FoldedChannel, UnaccountedRowsError
from firn.sinks.context import SinkContext
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.faults import MissingObjectError

LEDGER, SINK, PIPE, OWN_PIPE = "1d", "orders-sink", "ORDERS-STREAMING", "ORDERS"
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
AHEAD = Owner(7, "run", 0.0, method="SNOWPIPE_STREAMING", generation=3, tokens_ahead=True)
SETTLED = replace(AHEAD, tokens_ahead=False)
CREATED = 1_700_000_000_000


@dataclass
class Opened:
    seen: ChannelSeen


@dataclass
class Service:
    """Channels by pipe and name, as the service keeps them. missing: pipes that do not exist."""

    channels: dict[tuple[str, str], ChannelSeen] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    opened: list[tuple[str, str]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def put(self, where: TopicPartition, seen: ChannelSeen, pipe: str = PIPE) -> None:
        self.channels[pipe, channel_name(LEDGER, SINK, where)] = seen

    def client(self, pipe: str) -> Client:
        return Client(self, pipe)


@dataclass
class Client:
    service: Service
    pipe: str

    def connect(self) -> None:
        if self.pipe in self.service.missing:
            raise MissingObjectError(f"Pipe not found: {self.pipe}")

    def open(self, name: str) -> Opened:
        if self.pipe in self.service.missing:
            raise MissingObjectError(f"Pipe not found: {self.pipe}")
        self.service.opened.append((self.pipe, name))
        made = ChannelSeen(CREATED + 5_000, None, 0)
        return Opened(self.service.channels.setdefault((self.pipe, name), made))

    def close(self, *, flush: bool) -> None:
        assert not flush  # nothing was appended
        self.service.closed.append(self.pipe)


def context() -> SinkContext:
    login = SnowflakeLogin("acct", "u", "R", "W", "DB", "SC", "h", 443, "https", SecretStr(""))
    return SinkContext(SinkConfig(SINK), Settings.model_construct(), KafkaClient(()), None, None, login)


def at(next_offset: int, token: str | None = None, *, pipe: str = PIPE, row_errors: int = 0) -> Position:
    return Position(next_offset, "id", channel=RecordedChannel(pipe, CREATED, token, row_errors))


def fold(
    service: Service,
    owner: Owner,
    positions: Mapping[TopicPartition, Position],
    *,
    pipe: str | None = PIPE,
    **more: Any,
) -> dict[TopicPartition, FoldedChannel]:
    pipe_of = (lambda _where: pipe) if pipe else None
    folder = ChannelFolder(context(), LEDGER, pipe_of, service.client)
    partitions = {where: KafkaPartition("id", 0, 1_000) for where in positions} if pipe else {}
    return folder(owner, positions, partitions, **more)


def test_a_token_ahead_of_the_ledger_moves_the_position_behind_it() -> None:
    service = Service()
    service.put(P0, ChannelSeen(CREATED, "3:41", 0))
    service.put(P1, ChannelSeen(CREATED, "3:4", 0))
    folded = fold(service, AHEAD, {P0: at(10, "3:9"), P1: at(7, "3:4")})
    assert folded[P0] == FoldedChannel(42, RecordedChannel(PIPE, CREATED, "3:41", 0))
    assert folded[P1] == FoldedChannel(7, RecordedChannel(PIPE, CREATED, "3:4", 0))  # markers behind the last row
    assert service.closed == [PIPE]


def test_a_first_claim_makes_the_channels_and_stays_where_it_is() -> None:
    service = Service()
    folded = fold(service, AHEAD, {P0: Position(5, "id")})
    assert folded == {P0: FoldedChannel(5, RecordedChannel(PIPE, CREATED + 5_000, None, 0))}


def test_tokens_of_another_generation_count_as_none() -> None:
    service = Service()
    service.put(P0, ChannelSeen(CREATED, "2:900", 5))
    folded = fold(service, AHEAD, {P0: at(10, "2:900", row_errors=1)})
    assert folded == {P0: FoldedChannel(10, RecordedChannel(PIPE, CREATED, "2:900", 5))}  # errors of before the reset


def test_a_position_stays_in_front_of_rejected_rows_that_nobody_accounted_for() -> None:
    service = Service()
    service.put(P0, ChannelSeen(CREATED, "3:20", 8))
    service.put(P1, ChannelSeen(CREATED, "3:20", 2))
    folded = fold(service, AHEAD, {P0: at(10, "3:9", row_errors=2), P1: at(10, "3:9", row_errors=2)})
    assert folded[P0] == FoldedChannel(10, RecordedChannel(PIPE, CREATED, "3:20", 2), unaccounted=6)
    assert folded[P1] == FoldedChannel(21, RecordedChannel(PIPE, CREATED, "3:20", 2))


@pytest.mark.parametrize("pipe", [OWN_PIPE, None], ids=["another pipe", "another method"])
def test_nobody_leaves_a_channel_whose_rejected_rows_are_not_accounted_for(pipe: str | None) -> None:
    service = Service()
    service.put(P0, ChannelSeen(CREATED, "3:20", 8, last_error="too long", error_bound="3:15"))
    with pytest.raises(UnaccountedRowsError, match="6 in pipe ORDERS-STREAMING, at or before token 3:15: too long"):
        fold(service, AHEAD, {P0: at(10, "3:9", row_errors=2)}, pipe=pipe)
    assert fold(service, AHEAD, {P0: at(10, "3:9", row_errors=2)}, pipe=None, replaced=[P0]) == {}


@pytest.mark.parametrize(
    ("seen", "fault"),
    [
        (None, "was dropped: the one there is of 2023-11-14 22:13:25.000 UTC"),
        (ChannelSeen(CREATED + 1, "3:50", 0), "was dropped"),
        (ChannelSeen(CREATED - 1, "3:50", 0), "was dropped"),
        (ChannelSeen(CREATED, "3:8", 0), "is 3:8, and 3:9 was recorded"),
        (ChannelSeen(CREATED, None, 0), "is None, and 3:9 was recorded"),
        (ChannelSeen(CREATED, "other", 0), "is other, and 3:9 was recorded"),
    ],
    ids=["absent", "younger", "older", "lower", "none", "foreign"],
)
def test_a_channel_that_lost_its_token_is_a_lost_position_and_never_a_restart(
    seen: ChannelSeen | None, fault: str
) -> None:
    service = Service()
    if seen:
        service.put(P0, seen)
    service.put(P1, ChannelSeen(CREATED, "3:9", 0))
    for _ in ("at first", "again, though the fold itself has made the channel by now"):
        with pytest.raises(LostPositionError, match="--reset table") as raised:
            fold(service, AHEAD, {P0: at(10, "3:9"), P1: at(10, "3:9")})
        assert fault in raised.value.what
        assert str(P1) not in raised.value.what
    assert service.closed == [PIPE, PIPE]


def test_all_lost_positions_are_named_at_once() -> None:
    with pytest.raises(LostPositionError) as raised:
        fold(Service(), AHEAD, {P0: at(10, "3:9"), P1: at(10, "3:9")})
    assert all(str(where) in raised.value.what for where in (P0, P1))


def test_a_pipe_that_is_gone_took_the_tokens_with_it() -> None:
    with pytest.raises(LostPositionError, match="pipe ORDERS is gone"):
        fold(Service(missing={OWN_PIPE}), AHEAD, {P0: at(10, "3:9", pipe=OWN_PIPE)})


def test_after_an_orderly_end_the_ledger_alone_counts_whatever_became_of_the_channel() -> None:
    service = Service(missing={OWN_PIPE})
    folded = fold(service, SETTLED, {P0: at(10, "3:9"), P1: at(20, "3:19", pipe=OWN_PIPE, row_errors=4)})
    assert folded[P0] == FoldedChannel(10, RecordedChannel(PIPE, CREATED + 5_000, None, 0))
    assert folded[P1] == FoldedChannel(20, RecordedChannel(PIPE, CREATED + 5_000, None, 0))


def test_the_pipe_of_before_is_folded_before_the_new_one_is_opened() -> None:
    service = Service()
    service.put(P0, ChannelSeen(CREATED, "3:41", 1))
    folded = fold(service, AHEAD, {P0: at(10, "3:9", row_errors=1)}, pipe=OWN_PIPE)
    assert folded == {P0: FoldedChannel(42, RecordedChannel(OWN_PIPE, CREATED + 5_000, None, 0))}
    assert [pipe for pipe, _ in service.opened] == [PIPE, OWN_PIPE]


def test_the_pipe_of_before_comes_back_with_its_older_token() -> None:
    service = Service()
    service.put(P0, ChannelSeen(CREATED, "3:41", 0))
    service.put(P0, ChannelSeen(CREATED - 9, "3:17", 2), pipe=OWN_PIPE)  # errors that were accounted for then
    folded = fold(service, AHEAD, {P0: at(30, "3:29")}, pipe=OWN_PIPE)
    assert folded == {P0: FoldedChannel(42, RecordedChannel(OWN_PIPE, CREATED - 9, "3:17", 2))}


def test_a_new_pipe_that_does_not_exist_stops_the_claim() -> None:
    with pytest.raises(MissingObjectError):
        fold(Service(missing={OWN_PIPE}), SETTLED, {P0: Position(0, "id")}, pipe=OWN_PIPE)


def test_another_method_takes_in_the_tokens_and_opens_nothing_new() -> None:
    service = Service()
    service.put(P0, ChannelSeen(CREATED, "3:41", 0))
    folded = fold(service, AHEAD, {P0: at(10, "3:9"), P1: Position(3, "id")}, pipe=None)
    assert folded == {P0: FoldedChannel(42, RecordedChannel(PIPE, CREATED, "3:41", 0))}
    assert len(service.opened) == 1


def test_a_reset_fences_the_channel_of_a_partition_it_sets_and_asks_nothing_of_it() -> None:
    service = Service()
    service.put(P1, ChannelSeen(CREATED, "3:41", 0))
    folded = fold(service, AHEAD, {P0: at(10, "3:9"), P1: at(10, "3:9")}, pipe=None, replaced=[P0])
    assert folded == {P1: FoldedChannel(42, RecordedChannel(PIPE, CREATED, "3:41", 0))}
    assert len(service.opened) == 2


def test_a_service_that_is_away_is_waited_for_once_and_not_for_each_channel() -> None:
    tried: list[str] = []

    class Away(Client):
        def connect(self) -> None:
            tried.append(self.pipe)
            raise TransientError("no answer")

        def open(self, name: str) -> Opened:
            tried.append(name)
            raise TransientError("no answer")

    folder = ChannelFolder(context(), LEDGER, None, lambda pipe: Away(Service(), pipe))
    positions = {TopicPartition("orders", each): at(10, "3:9") for each in range(40)}
    with pytest.raises(TransientError):
        folder(AHEAD, positions, {})
    assert tried == [PIPE]


def test_a_service_that_does_not_answer_is_no_lost_position() -> None:
    class Down(Client):
        def open(self, name: str) -> Opened:
            raise TransientError(f"no answer about {name}")

    folder = ChannelFolder(context(), LEDGER, None, lambda pipe: Down(Service(), pipe))
    with pytest.raises(TransientError):
        folder(AHEAD, {P0: at(10, "3:9")}, {})
