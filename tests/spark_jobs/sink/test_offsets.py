"""Where a sink stands and where it goes on: each state, each target, and runs that go on after a reset."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaOffset
from snowflake.connector import SnowflakeConnection

from firn.channels.recorded import RecordedChannel
from firn.connector.parse import parse_sink_config
from firn.errors import BadRecordError, ConfigError, PrivilegeError, TerminalError, TransientError
from firn.kafka import cluster
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.folding import FoldedPosition
from firn.ledger.kafka_names import dead_letter_group
from firn.ledger.owner import Owner
from firn.ledger.positions import LostPositionError, Position
from firn.ledger.table import LedgerTable
from firn.operations import offset_reset
from firn.operations.offset_reset import Step, Target, consequences, parse_target, plan, reset
from firn.operations.offsets import PartitionOffsets, SinkOffsets, look, running_within, select
from firn.operations.table_positions import TablePositions
from firn.settings import Settings
from firn.sinks.channel_folding import FoldedChannel
from firn.sinks.topics import partitions_of
from firn.snowflake.connection import connect, execute
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.run import SinkRun
from spark_jobs.sink.tables.pipes import target_of_pipe
from tests.support.kafka import Topic, framed
from tests.support.sinks import committed, connector, connector_file, landed, ledger_id_of, login_of, wait_until

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
SEEN = KafkaPartition("id", 10, 100)
NewRun = Callable[..., SinkRun]


def offsets(
    committed: int | None, seen: KafkaPartition | None = SEEN, *, where: TopicPartition = P0, start: int | None = None
) -> PartitionOffsets:
    row = None if committed is None else Position(committed, "id", datetime(2026, 11, 21, 10, tzinfo=UTC))
    return PartitionOffsets(where, "T", row, seen, committed if start is None else start)


def no_rows(partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    raise AssertionError(f"nobody asked for tables: {partitions}")


@pytest.mark.parametrize(
    ("found", "state", "lag"),
    [
        (offsets(40), "ok", 60),
        (offsets(100), "ok", 0),
        (offsets(None, start=10), "new", 90),
        (offsets(3), "expired", 90),
        (dataclasses.replace(offsets(101), start=None), "ahead", None),
        (dataclasses.replace(offsets(40, KafkaPartition("other", 0, 90)), start=None), "recreated", None),
        (dataclasses.replace(offsets(40, None), start=None), "gone", None),
        (dataclasses.replace(offsets(40), start=None, read=False), "unread", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_partition_has_one_state_and_the_lag_that_follows(
    found: PartitionOffsets, state: str, lag: int | None
) -> None:
    assert (found.state, found.lag) == (state, lag)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target("earliest")),
        ("table", Target("table")),
        ("latest", Target("latest")),
        ("0", Target("offset", 0)),
        (" 20261121 ", Target("offset", 20261121)),
        ("+1", Target("step", 1)),
        ("-10", Target("step", -10)),
        ("@1700000000000", Target("time", 1_700_000_000_000)),
        ("1970-01-01T00:00:01.5Z", Target("time", 1_500)),
        ("1970-01-01T02:00:01+02:00", Target("time", 1_000)),
        ("1970-01-02", Target("time", 86_400_000)),
        ("1970-01-01 00:00:01", Target("time", 1_000)),
    ],
)
def test_targets_are_words_offsets_steps_and_times(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text", ["", "soon", "Latest", "1.5", "++1", "@-1", "@now", "1969-12-31", "9" * 30, "2026-13-01"]
)
def test_what_is_no_target_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"earliest, latest, table .*, an offset|before 1970"):
        parse_target(text)


def test_a_time_without_a_zone_is_said_to_be_utc() -> None:
    assert parse_target("2026-11-21T10:00:00").spoken == "2026-11-21T10:00:00.000 UTC"


ALL_SEEN = SinkOffsets(
    "s", None, (offsets(1), offsets(1, where=P1), offsets(1, where=TopicPartition("u", 0))), absent=("v",)
)


@pytest.mark.parametrize(
    ("topic", "partition", "chosen"),
    [(None, None, ["t-0", "t-1", "u-0"]), ("t", None, ["t-0", "t-1"]), ("t", 1, ["t-1"])],
)
def test_a_topic_and_a_partition_choose(topic: str | None, partition: int | None, chosen: list[str]) -> None:
    assert [str(each.where) for each in select(ALL_SEEN, topic, partition)] == chosen


@pytest.mark.parametrize(
    ("topic", "partition", "message"),
    [("tt", None, "has no topic tt.*t"), ("u", 1, "no partition 1.*0"), (None, 0, "which topic.*t, u")],
)
def test_what_the_sink_does_not_have_is_refused_by_name(topic: str | None, partition: int, message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        select(ALL_SEEN, topic, partition)


def planned(found: PartitionOffsets, target: str) -> Step:
    (step,) = plan([found], parse_target(target), None, no_rows)  # type: ignore[arg-type]
    return step


@pytest.mark.parametrize(
    ("found", "target", "to", "again", "skipped", "expired"),
    [
        (offsets(40), "earliest", 10, 30, 0, 0),
        (offsets(40), "latest", 100, 0, 60, 0),
        (offsets(40), "40", 40, 0, 0, 0),
        (offsets(40), "+1", 41, 0, 1, 0),
        (offsets(40), "-5", 35, 5, 0, 0),
        (offsets(120), "earliest", 10, 90, 0, 0),
        (offsets(3), "earliest", 10, 0, 0, 7),
        (offsets(3), "15", 15, 0, 5, 7),
        (offsets(None, start=10), "12", 12, 0, 2, 0),
        (offsets(None, start=100), "earliest", 10, 0, 0, 0),
        (offsets(40, KafkaPartition("other", 0, 5)), "earliest", 0, 0, 0, 0),
        (dataclasses.replace(offsets(40, KafkaPartition("other", 0, 5)), start=None), "latest", 5, 0, 5, 0),
    ],
)
def test_a_plan_counts_what_is_read_again_left_out_and_gone(
    found: PartitionOffsets, target: str, to: int, again: int, skipped: int, expired: int
) -> None:
    step = planned(found, target)
    assert (step.to, step.again, step.skipped, step.expired) == (to, again, skipped, expired)


def test_all_targets_outside_of_what_kafka_holds_are_refused_at_once_with_the_range() -> None:
    found = [offsets(40), offsets(99, where=P1), offsets(None, start=0, where=TopicPartition("t", 2))]
    with pytest.raises(TerminalError, match="t-1: 101 is outside of 10 to 100") as raised:
        plan(found, Target("step", 2), None, no_rows)  # type: ignore[arg-type]
    assert "t-2: a step needs a position" in raised.value.what
    assert "t-0" not in raised.value.what
    with pytest.raises(TerminalError, match="9 is outside of 10 to 100"):
        planned(offsets(40), "9")


def test_partitions_that_are_gone_cannot_be_reset_and_do_not_hold_up_others() -> None:
    gone = offsets(40, None, where=P1)
    assert [step.where for step in plan([offsets(40), gone], Target("latest"), None, no_rows)] == [P0]  # type: ignore[arg-type]
    with pytest.raises(TerminalError, match="no partition to reset"):
        plan([gone], Target("latest"), None, no_rows)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "rows", "to", "beyond"),
    [
        (offsets(40), {P0: 70}, 70, 30),
        (offsets(40), {P0: 30}, 40, 0),  # what follows became no row
        (offsets(40), {}, 40, 0),
        (offsets(None), {P0: 70}, 70, 70),
    ],
)
def test_a_sink_goes_on_behind_the_newest_row_and_never_in_front_of_the_ledger(
    found: PartitionOffsets, rows: dict[TopicPartition, int], to: int, beyond: int
) -> None:
    (step,) = plan([found], parse_target("table"), None, lambda _: rows)  # type: ignore[arg-type]
    assert (step.to, step.beyond, step.again, step.skipped) == (to, beyond, 0, 0)
    said = consequences([step])[0]
    assert ("the ledger does not count and the table does: up to" in said) == bool(beyond)


@pytest.mark.parametrize(
    ("found", "rows", "why"),
    [
        (offsets(None), {}, "neither the ledger nor the table says how far it is, and its state is new"),
        (offsets(40, KafkaPartition("another", 0, 100)), {P0: 70}, "and its state is recreated"),
        (offsets(40), {P0: 101}, "101 is outside of 10 to 100"),
    ],
)
def test_a_table_that_does_not_say_where_a_partition_goes_on_resets_nothing(
    found: PartitionOffsets, rows: dict[TopicPartition, int], why: str
) -> None:
    with pytest.raises(TerminalError, match=why):
        plan([found], Target("table"), None, lambda _: rows)  # type: ignore[arg-type]


def test_consequences_are_said_in_plain_words() -> None:
    texts = consequences([planned(offsets(40), "earliest"), planned(offsets(40, where=P1), "+1")])
    assert ["up to 30" in texts[0], "TWICE" in texts[0], "up to 1." in texts[1], "NOT" in texts[1]] == [True] * 4
    other = consequences(
        [planned(offsets(3), "earliest"), planned(offsets(4, KafkaPartition("new", 0, 9)), "earliest")]
    )
    assert ["expired" in other[0], "made again: t" in other[1]] == [True, True]
    assert consequences([planned(offsets(40), "+0")]) == ["No record is read again and none is left out."]


@pytest.mark.parametrize(("heartbeat", "seconds"), [("30", 90), ("5", 60), ("0", 900)])
def test_a_run_counts_as_alive_for_three_heartbeats_and_a_minute_at_least(heartbeat: str, seconds: float) -> None:
    parameters = {"name": "s", "topics": "t", "firn.heartbeat.seconds": heartbeat}
    assert running_within(parse_sink_config(parameters, where="test")) == seconds


@pytest.mark.parametrize(
    ("owner", "says"),
    [
        (None, "not in the ledger yet"),
        (Owner(4, "run", 5), "epoch 4: running, last sign of life 5 seconds ago"),
        (Owner(4, "run", 200), "silent for 3 minutes: it counts as not running"),
        (Owner(4, "", 7200), "not running for 2 hours"),
    ],
)
def test_who_runs_the_sink_is_one_line(owner: Owner | None, says: str) -> None:
    assert says in SinkOffsets("s", owner, ()).spoken_owner(90)


@dataclasses.dataclass(frozen=True)
class FakeFold:
    """Opens channels without tokens; of these partitions they are gone. then: what happens meanwhile."""

    gone: set[TopicPartition]
    then: Callable[[], object] = lambda: None

    def once_more(self) -> FakeFold:
        return FakeFold(self.gone)

    def __call__(
        self,
        owner: Owner,
        positions: Mapping[TopicPartition, Position],
        partitions: Mapping[TopicPartition, KafkaPartition],
        *,
        replaced: Collection[TopicPartition] = (),
    ) -> Mapping[TopicPartition, FoldedPosition]:
        if owner.tokens_ahead and self.gone - {*replaced}:
            raise LostPositionError("A channel is gone.", next_step="`firn sink offsets <config> --reset table`")
        self.then()
        channel = RecordedChannel("P", 1, None, 0)
        return {
            where: FoldedChannel(at.next_offset, channel) for where, at in positions.items() if where not in replaced
        }


class Sink:
    """A sink of a new topic, without Spark."""

    def __init__(self, settings: Settings, connection: SnowflakeConnection, **parameters: str) -> None:
        self.topic, self.connection = Topic(settings, "where"), connection
        self.config = parse_sink_config(connector(self.topic, **parameters), where="test")
        self.table = LedgerTable(Namespace("STREAMING", "PUBLIC"), self.config.name)
        self.admin = cluster.admin_client(self.topic.client)
        self.letters_group = dead_letter_group(ledger_id_of(settings), self.config.name)

    def look(self) -> SinkOffsets:
        return look(self.config, self.table, self.connection, self.admin)

    def states(self) -> list[tuple[int, str, int | None]]:
        return [(each.where.partition, each.state, each.lag) for each in self.look().partitions]

    def plan(self, target: str) -> list[Step]:
        return plan(self.look().partitions, parse_target(target), self.admin, no_rows)

    def stream(self, gone: set[TopicPartition]) -> None:
        """A streaming run that claims, and is killed."""
        self.table.ensure(self.connection)
        run = LedgerTable(self.table._namespace, self.config.name, "a-run")
        try:
            run.claim(
                self.connection,
                lambda: partitions_of(self.admin, self.config),
                "earliest",
                lambda _: self.topic.table,
                method="SNOWPIPE_STREAMING",
                tokens_ahead=True,
                fold=FakeFold(gone),
            )
        finally:
            ago = "UPDATED_AT = DATEADD(HOUR, -1, UPDATED_AT)"
            statement = f"UPDATE FIRN_OFFSETS SET {ago} WHERE SINK = ? AND TOPIC = ''"
            execute(self.connection, statement, (self.config.name,))

    def tables(self) -> TablePositions:
        return TablePositions(self.connection, self.table._namespace, self.config, target_of_pipe)

    def land(self, partition: int, *offsets: int) -> None:
        """Rows of these records, as a sink writes them."""
        execute(self.connection, f"CREATE TABLE IF NOT EXISTS {self.topic.table} (RECORD_METADATA VARIANT)")
        for offset in offsets:
            metadata = json.dumps({"topic": self.topic.name, "partition": partition, "offset": offset})
            statement = f"INSERT INTO {self.topic.table} SELECT PARSE_JSON(?)"
            execute(self.connection, statement, (metadata,))

    def reset(self, target: str) -> int:
        return reset(self.config, self.table, self.connection, self.topic.client, self.plan(target), 60)

    def letters(self) -> dict[int, tuple[int, str]]:
        """What the dead letters' group holds: (offset, metadata) by partition."""
        asked = [KafkaOffset(self.topic.name, p) for p in range(self.topic.partitions)]
        request = ConsumerGroupTopicPartitions(self.letters_group, asked)
        (answer,) = self.admin.client.list_consumer_group_offsets([request]).values()
        return {p.partition: (p.offset, p.metadata or "") for p in answer.result(15).topic_partitions if p.offset >= 0}

    def publish_letters(self, offset: int) -> None:
        held = [KafkaOffset(self.topic.name, p, offset, "known") for p in range(self.topic.partitions)]
        request = ConsumerGroupTopicPartitions(self.letters_group, held)
        (answer,) = self.admin.client.alter_consumer_group_offsets([request]).values()
        answer.result(15)


@pytest.fixture
def connection(settings: Settings) -> Iterator[SnowflakeConnection]:
    with connect(login_of(settings)) as opened:
        yield opened


@pytest.mark.stack
def test_times_find_the_first_record_from_then_on_or_the_end(
    settings: Settings, connection: SnowflakeConnection
) -> None:
    sink = Sink(settings, connection)
    for timestamp in (1_000_000, 2_000_000, 3_000_000):
        sink.topic.send([b"x"], timestamp=timestamp)
    sink.topic.send([b"x"], partition=1, timestamp=1_500_000)
    assert [step.to for step in sink.plan("@2000000")] == [1, 1]
    assert [step.to for step in sink.plan("1970-01-01T00:33:20.001")] == [2, 1]
    assert [step.to for step in sink.plan("@0")] == [0, 0]
    assert [step.to for step in sink.plan("2100-01-01")] == [3, 1]


@pytest.mark.stack
def test_a_reset_before_the_first_start_says_where_it_begins(
    settings: Settings, connection: SnowflakeConnection
) -> None:
    sink = Sink(settings, connection, consumer__override__auto__offset__reset="latest")
    sink.topic.send([b"x"] * 4)
    assert sink.states() == [(0, "new", 0), (1, "new", 0)]
    sink.reset("earliest")
    assert sink.states() == [(0, "ok", 4), (1, "ok", 0)]


@pytest.mark.stack
def test_topics_of_the_ledger_stay_in_sight(settings: Settings, connection: SnowflakeConnection) -> None:
    sink = Sink(settings, connection)
    sink.topic.send([b"x"])
    sink.reset("latest")
    sink.config = dataclasses.replace(sink.config, topics=("no-such-topic",))
    assert sink.states() == [(0, "unread", None), (1, "unread", None)]
    assert sink.look().absent == ("no-such-topic",)
    sink.config = dataclasses.replace(sink.config, topics=(), topics_regex=sink.topic.name[:-1] + ".")
    assert sink.states() == [(0, "ok", 0), (1, "ok", 0)]
    sink.topic.delete()
    wait_until(lambda: sink.states() == [(0, "gone", None), (1, "gone", None)], what="the topic is gone")


@pytest.mark.stack
def test_a_ledger_that_moved_since_the_plan_is_not_reset(settings: Settings, connection: SnowflakeConnection) -> None:
    sink = Sink(settings, connection)
    sink.topic.send([b"x"] * 3)
    steps = sink.plan("latest")
    sink.reset("earliest")
    with pytest.raises(TerminalError, match="moved since"):
        reset(sink.config, sink.table, connection, sink.topic.client, steps, 60)
    assert sink.states() == [(0, "ok", 3), (1, "ok", 0)]


@pytest.mark.stack
def test_a_lost_position_is_found_again_in_the_table(settings: Settings, connection: SnowflakeConnection) -> None:
    """A channel was dropped while its tokens were ahead: nothing but the table says how far its rows are."""
    sink = Sink(settings, connection)
    sink.topic.send([b"x"] * 9)
    sink.stream({})
    sink.land(0, 5, 6, 2)
    with pytest.raises(LostPositionError, match="--reset table"):
        sink.stream({TopicPartition(sink.topic.name, 0)})
    sink.publish_letters(4)
    held = sink.tables()
    steps = plan(sink.look().partitions, Target("table"), sink.admin, held)
    assert [(step.to, step.beyond, step.skipped) for step in steps] == [(7, 7, 0), (0, 0, 0)]
    reset(sink.config, sink.table, connection, sink.topic.client, steps, 60, fold=FakeFold(set()), held=held)
    assert committed(settings, sink.topic) == {0: 7, 1: 0}
    assert sink.table.owner(connection).tokens_ahead is False
    assert sink.letters() == {0: (4, "known"), 1: (4, "known")}, "what is published stays known"


@pytest.mark.stack
def test_rows_that_were_on_their_way_when_the_plan_was_made_stop_it(
    settings: Settings, connection: SnowflakeConnection
) -> None:
    sink = Sink(settings, connection)
    sink.topic.send([b"x"] * 9)
    sink.stream({})
    sink.land(0, 2)
    held = sink.tables()
    steps = plan(sink.look().partitions, Target("table"), sink.admin, held)
    fold = FakeFold(set(), then=lambda: sink.land(0, 3))
    with pytest.raises(TerminalError, match="came into the table since the plan was made"):
        reset(sink.config, sink.table, connection, sink.topic.client, steps, 60, fold=fold, held=held)
    assert committed(settings, sink.topic) == {0: 0, 1: 0}
    steps = plan(sink.look().partitions, Target("table"), sink.admin, held)
    reset(sink.config, sink.table, connection, sink.topic.client, steps, 60, fold=fold.once_more(), held=held)
    assert committed(settings, sink.topic) == {0: 4, 1: 0}


@pytest.mark.stack
def test_a_table_whose_rows_do_not_name_their_records_says_nothing(
    settings: Settings, connection: SnowflakeConnection
) -> None:
    sink = Sink(settings, connection, snowflake__metadata__topic="false")
    with pytest.raises(ConfigError, match="does not say how far it is"):
        sink.tables()({TopicPartition(sink.topic.name, 0)})
    other = Sink(settings, connection)
    assert other.tables()({TopicPartition(other.topic.name, 0)}) == {}, "no table, no rows"


@pytest.mark.stack
def test_dead_letters_of_the_partitions_that_were_reset_are_forgotten_and_no_others(
    settings: Settings, connection: SnowflakeConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(settings, connection)
    sink.topic.send([b"x"] * 9)
    sink.publish_letters(7)
    step = sink.plan("latest")[:1]

    def fail(error: Exception) -> None:
        def forget(*_: object) -> None:
            raise error

        monkeypatch.setattr(offset_reset, "forget_published", forget)

    fail(TransientError("Kafka does not answer."))
    with pytest.raises(TransientError, match="but the published dead letters are not forgotten") as raised:
        reset(sink.config, sink.table, connection, sink.topic.client, step, 60)
    assert "run the same reset again" in raised.value.next_step
    assert sink.letters() == {0: (7, "known"), 1: (7, "known")}
    fail(PrivilegeError("Not allowed."))  # is no fault of a sink without dead letters
    reset(sink.config, sink.table, connection, sink.topic.client, sink.plan("latest")[:1], 60)
    monkeypatch.undo()
    reset(sink.config, sink.table, connection, sink.topic.client, sink.plan("latest")[:1], 60)
    assert sink.letters() == {0: (9, ""), 1: (7, "known")}


def items(topic: Topic, count: int, first: int = 0) -> list[bytes]:
    return framed(topic.register(ITEM), ITEM, ({"id": number} for number in range(first, first + count)))


@pytest.mark.both_methods
@pytest.mark.stack
def test_a_bad_record_is_skipped_by_a_step_and_the_sink_goes_on(
    stack, settings: Settings, new_run: NewRun, tmp_path: Path
) -> None:
    topic = Topic(settings, "skip")
    topic.send([*items(topic, 4), b"bad", *items(topic, 2, first=4)])
    topic.send(items(topic, 3), partition=1)
    with pytest.raises(BadRecordError):
        new_run(topic).run()
    file = connector_file(tmp_path, topic)
    done = stack.run(
        "sink", "offsets", file, "--reset", "+1", "--topic", topic.name, "--partition", "0", "--yes", "--json"
    )
    (step,) = map(json.loads, done.stdout.splitlines())
    assert (step["from"], step["to"], step["again"], step["skipped"]) == (4, 5, 0, 1)
    assert committed(settings, topic) == {0: 5, 1: 3}
    new_run(topic).run()
    assert landed(settings, topic) == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 5), (0, 6), (1, 0), (1, 1), (1, 2)]


@pytest.mark.both_methods
@pytest.mark.stack
def test_a_recreated_topic_is_taken_up_after_a_reset(
    stack, settings: Settings, new_run: NewRun, tmp_path: Path
) -> None:
    topic = Topic(settings, "anew", partitions=1)
    topic.send(items(topic, 5))
    new_run(topic).run()
    topic.delete()
    wait_until(topic.try_make, what="topic made again")
    topic.send(items(topic, 2))
    with pytest.raises(LostPositionError, match="firn sink offsets"):
        new_run(topic).run()
    done = stack.run("sink", "offsets", connector_file(tmp_path, topic), "--reset", "earliest", "--yes")
    assert "recreated" in done.stdout
    assert f"made again: {topic.name}" in done.stderr
    assert new_run(topic).run().records == 2
    assert landed(settings, topic) == [(0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (0, 3), (0, 4)]  # of both topics


@pytest.mark.both_methods
@pytest.mark.stack
def test_expired_offsets_are_passed_by_a_reset(settings: Settings, new_run: NewRun, connection) -> None:
    topic = Topic(settings, "old", partitions=1)
    topic.send(items(topic, 2))
    new_run(topic).run()
    topic.send(items(topic, 6, first=2))
    topic.admin.client.delete_records([KafkaOffset(topic.name, 0, 5)])
    run = new_run(topic)
    wait_until(lambda: cluster.offsets(topic.admin, [(topic.name, 0)], "earliest")[topic.name, 0] == 5, what="deleted")
    with pytest.raises(LostPositionError, match="offsets 2 to 4 expired"):
        run.run()
    table = LedgerTable(run._context.namespace, run._context.config.name)
    found = look(run._context.config, table, connection, topic.admin)
    steps = plan(found.partitions, Target("earliest"), topic.admin, no_rows)
    assert [(step.offsets.state, step.to, step.expired) for step in steps] == [("expired", 5, 3)]
    reset(run._context.config, table, connection, topic.client, steps, 60)
    assert new_run(topic).run().records == 3
    assert landed(settings, topic) == [(0, 0), (0, 1), (0, 5), (0, 6), (0, 7)]
