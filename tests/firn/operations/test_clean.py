"""Retiring a sink's name: what it left is found and removed, in an order that any interruption and start survives."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import Consumer
from snowflake.connector import SnowflakeConnection

from firn.errors import ConfigError, FencedError, TerminalError, TransientError
from firn.kafka import cluster
from firn.kafka.client import client_from_settings
from firn.kafka.partitions import TopicPartition
from firn.ledger.control import ControlTable
from firn.ledger.control_record import DesiredState, State
from firn.ledger.kafka_names import dead_letter_group
from firn.ledger.owner import CleaningError, SinkRunsError
from firn.ledger.positions import Position
from firn.ledger.rows import LedgerRows
from firn.ledger.table import LedgerTable
from firn.operations.clean import Cleaner, FindMethodResidue, Residue, consequences
from firn.operations.residue.consumer_groups import KafkaResidue
from firn.operations.residue.finding import Finding, RetiredSink
from firn.settings import Settings
from firn.snowflake import transactions as transactions
from firn.snowflake.connection import connect, execute, query
from spark_jobs.sink.methods import registry
from spark_jobs.sink.methods.snowpipe.residue import StageResidue
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.tables.pipes import target_of_pipe
from tests.support.kafka import Topic
from tests.support.leftovers import NOTHING, LeftSink
from tests.support.sinks import login_of, wait_until
from tests.support.snowflake import WRITER, admin_sql, drop_schema, make_schema


@pytest.fixture(scope="module")
def own_settings(settings: Settings) -> Iterator[Settings]:
    """Settings of a schema that nobody else uses."""
    schema = f"CLEAN_{uuid.uuid4().hex[:8].upper()}"
    make_schema(settings, schema)
    yield settings.model_copy(update={"snowflake_schema": schema})
    drop_schema(settings, schema)


@pytest.fixture(scope="module")
def topic(settings: Settings) -> Topic:
    return Topic(settings, "cleaned", partitions=1)


@pytest.fixture(scope="module")
def connection(own_settings: Settings) -> Iterator[SnowflakeConnection]:
    with connect(login_of(own_settings)) as opened:
        yield opened


@pytest.fixture
def sink(own_settings: Settings, topic: Topic, tmp_path: Path, connection: SnowflakeConnection) -> LeftSink:
    """A sink of a new name, of which nothing is there yet."""
    return LeftSink(own_settings, f"s{uuid.uuid4().hex[:8]}", topic.name, tmp_path, connection)


@pytest.fixture
def full(sink: LeftSink) -> LeftSink:
    """A sink that ended and left something everywhere."""
    epoch = sink.claim().epoch
    sink.stage_files(epoch, 2)
    sink.make_groups()
    return sink


def cleaner(sink: LeftSink, settings: Settings | None = None, *more: FindMethodResidue) -> Cleaner:
    find = [*(method.leftovers for method in registry.known()), *more]
    return Cleaner(sink.config, settings or sink.settings, sink.login, sink.connection, find, target_of_pipe)


def clean(sink: LeftSink) -> None:
    act = cleaner(sink)
    act.clean(act.look(), 60)


def table_of(found: Residue) -> list[tuple[str, str, int | None, int | None]]:
    return [(each.what, each.action, each.count, each.size) for each in found.findings()]


@pytest.mark.stack
def test_all_that_a_sink_left_is_found_and_removed_and_nothing_else(sink: LeftSink) -> None:
    epoch = sink.claim().epoch
    table = sink.namespace.qualified(f"T_{sink.name}")
    execute(sink.connection, f"CREATE TABLE {table} (N INT) AS SELECT 1")
    sink.stage_files(epoch, 3)
    sink.stage_files(epoch, 1, keep=True)
    foreign = sink.stage_foreign()
    sink.make_groups()
    sink.make_replay_positions(sink.name)
    other = sink.renamed(f"{sink.name}2")
    other.claim()
    others_files = other.stage_files(1)
    act = cleaner(sink)
    found = act.look()
    assert table_of(found) == [
        ("ledger: owner", "remove", 1, None),
        ("ledger: position", "remove", 1, None),
        ("staged files", "remove", 3, 15),
        ("kept files", "remove", 1, 5),
        *[("consumer group", "remove", 1, None)] * 6,
        ("replay positions", "remove", None, None),
        ("other file", "leave", 1, 4),
        ("table", "leave", 1, 0),
        ("ledger", "leave", None, None),
        ("stage", "leave", None, None),
        ("topic", "leave", None, None),
    ]
    act.clean(found, 60)
    assert act.look().removable == []
    assert sink.left() == NOTHING | {"files": [foreign]}
    assert (other.left()["files"], other.left()["rows"]) == (others_files, 2)
    assert query(sink.connection, f"SELECT N FROM {table}") == [{"N": 1}]


@dataclass
class OtherResidue:
    """What another method left."""

    names: list[str]
    newest_epoch: int

    def findings(self) -> list[Finding]:
        return [Finding("channel", name) for name in self.names]

    def shared(self) -> list[Finding]:
        return []

    def remove(self, _connection: SnowflakeConnection, epoch: int) -> None:
        if epoch >= self.newest_epoch:
            self.names.clear()


@pytest.mark.stack
def test_what_any_method_left_is_found_and_removed_with_the_rest(full: LeftSink) -> None:
    """The sink may have had another method before the one that its configuration names."""
    asked: list[RetiredSink] = []
    channels = OtherResidue(["channel-0"], newest_epoch=40)

    def find_channels(_connection: SnowflakeConnection, sink: RetiredSink) -> OtherResidue:
        asked.append(sink)
        return channels

    act = cleaner(full, None, find_channels)
    found = act.look()
    assert [row[:2] for row in table_of(found) if row[0] == "channel"] == [("channel", "remove")]
    act.clean(found, 60)
    assert not channels.names
    assert full.left() == NOTHING
    assert full.claim().epoch > 41, "above all that the channels knew"
    (sink,) = asked
    assert (sink.name, sink.namespace) == (full.name, full.namespace)
    assert (sink.owner, list(sink.positions)) == (found.ledger.owner, [TopicPartition(full.topic, 0)])
    assert sink.ledger_id == LedgerTable(full.namespace, full.name).ledger_id(full.connection)


@pytest.mark.stack
def test_the_findings_say_what_the_rows_say(full: LeftSink) -> None:
    act = cleaner(full)
    found = {each.what: each for each in act.look().findings()}
    assert f"{full.topic} into T_{full.name.upper()}" in found["ledger: owner"].detail
    assert "ended in order" in found["ledger: owner"].detail
    assert found["ledger: position"].name == f"{full.topic}-0"
    assert found["ledger: position"].detail.startswith("next offset 0, last moved 2")
    assert found["topic"].by_hand == f"kafka-topics --delete --topic '{full.topic}'"


STEPS = [(Stage, "remove_epoch"), (KafkaResidue, "remove"), (LedgerRows, "delete")]


@pytest.mark.stack
def test_a_clean_that_ends_between_two_steps_keeps_the_sink_out_until_it_was_given_again(
    full: LeftSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise SystemExit

    for step in STEPS:
        with monkeypatch.context() as patch:
            patch.setattr(*step, dies)
            with pytest.raises(SystemExit):
                clean(full)
        assert full.left()["rows"] == 2
        with pytest.raises(CleaningError, match="is being cleaned"):
            full.claim(run_id="another")
    assert full.left() == NOTHING | {"rows": 2}
    at = {TopicPartition(full.topic, 0): Position(3, "an-id")}
    with pytest.raises(CleaningError):
        LedgerTable(full.namespace, full.name).reset(full.connection, at, running_within=60)
    clean(full)
    assert full.left() == NOTHING
    assert full.claim().committed == {TopicPartition(full.topic, 0): 0}


@pytest.mark.stack
def test_a_lost_answer_to_the_last_commit_is_told_and_the_same_clean_ends_it(
    full: LeftSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    for happens in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(transactions, "execute", losing_the_second_commit(happens=happens))
            with pytest.raises(TransientError, match="has begun and not ended"):
                clean(full)
        assert full.left()["rows"] == (0 if happens else 2)
    clean(full)
    assert full.left() == NOTHING


def losing_the_second_commit(*, happens: bool) -> Callable[..., int]:
    commits = 0

    def losing(to: SnowflakeConnection, sql: str, params: tuple[object, ...] = ()) -> int:
        nonlocal commits
        commits += sql == "COMMIT"
        lost = sql == "COMMIT" and commits == 2
        changed = execute(to, sql if happens or not lost else "ROLLBACK", params)
        if lost:
            raise TransientError("the answer was lost")
        return changed

    return losing


@pytest.mark.stack
def test_a_fault_in_the_middle_says_that_the_clean_has_begun(full: LeftSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise TransientError("Kafka is away.", next_step="Wait.")

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "delete_groups", away)
        with pytest.raises(TransientError) as raised:
            clean(full)
    assert raised.value.what == f"The clean of sink {full.name} has begun and not ended: Kafka is away."
    assert raised.value.next_step.startswith("Wait. Then run `firn sink clean` again")
    clean(full)
    assert full.left() == NOTHING


@pytest.mark.stack
def test_a_start_waits_for_the_last_step_and_then_begins_anew(full: LeftSink, monkeypatch: pytest.MonkeyPatch) -> None:
    before = full.claim().epoch
    inside, go_on = threading.Event(), threading.Event()
    remove = KafkaResidue.remove

    def slowly(groups: KafkaResidue) -> None:
        inside.set()
        assert go_on.wait(60)
        remove(groups)

    monkeypatch.setattr(KafkaResidue, "remove", slowly)
    with ThreadPoolExecutor(2) as pool, connect(full.login) as cleans, connect(full.login) as starts:
        cleaning = pool.submit(clean, replace(full, connection=cleans))
        try:
            assert inside.wait(60)
            starting = pool.submit(replace(full, connection=starts).claim, run_id="new", ended=False)
            wait_until(lambda: waits_for_a_lock(full), what="the start waits for the ledger's lock")
            assert not starting.done()
        finally:
            go_on.set()
        cleaning.result(60)
        ledger = starting.result(60)
    assert ledger.committed == {TopicPartition(full.topic, 0): 0}
    assert ledger.epoch > before + 1
    assert full.left() == NOTHING | {"rows": 2}


def waits_for_a_lock(sink: LeftSink) -> bool:
    return any(row["status"] == "WAITING" for row in query(sink.connection, "SHOW LOCKS IN ACCOUNT"))


def record(sink: LeftSink) -> ControlTable:
    """Its rows in FIRN_SINKS and FIRN_REQUESTS, where the tables are made."""
    records = ControlTable(sink.namespace, sink.name)
    records.ensure(sink.connection)
    return records


@pytest.mark.stack
def test_the_row_of_its_supervisor_goes_too(full: LeftSink) -> None:
    records, others = record(full), record(full.renamed(f"{full.name}2"))
    records.report(full.connection, State.STOPPED)
    others.report(full.connection, State.STOPPED)
    clean(full)
    assert records.read(full.connection) is None
    assert others.read(full.connection) is not None


@pytest.mark.stack
@pytest.mark.parametrize("why", [DesiredState.PAUSED, DesiredState.STOPPED, State.FAILED])
def test_a_row_that_keeps_schedules_from_starting_the_sink_is_left_to_a_person(
    full: LeftSink, why: DesiredState | State
) -> None:
    records = record(full)
    if isinstance(why, DesiredState):
        records.request(full.connection, why, "ann")
    else:
        records.report(full.connection, why)
    (found,) = [each for each in cleaner(full).look().findings() if each.what == "supervisor's row"]
    assert found.action == "leave"
    assert found.detail.startswith(why.value)
    clean(full)
    kept = records.read(full.connection)
    assert kept is not None
    assert why in (kept.desired, kept.state)
    table = full.namespace.qualified("FIRN_REQUESTS" if isinstance(why, DesiredState) else "FIRN_SINKS")
    assert found.by_hand.startswith(f"DELETE FROM {table} WHERE SINK = '{full.name}';")


@pytest.mark.stack
def test_rows_that_a_pipe_put_elsewhere_are_found_there(full: LeftSink) -> None:
    name, into = full.namespace.qualified(f"T_{full.name}"), full.namespace.qualified(f"INTO_{full.name}")
    execute(full.connection, f"CREATE TABLE {into} (N INT) AS SELECT 1")
    schema = f"{full.settings.snowflake_database}.{full.settings.snowflake_schema}"
    admin_sql(full.settings, f"GRANT CREATE PIPE ON SCHEMA {schema} TO ROLE {WRITER}")
    execute(
        full.connection,
        f"CREATE PIPE {name} AS COPY INTO {into} FROM (SELECT $1:n FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))",
    )
    found = cleaner(full).look()
    by_hand = {each.what: each.by_hand for each in found.findings() if each.what in ("table", "pipe")}
    assert by_hand == {"table": f"DROP TABLE {into};", "pipe": f"DROP PIPE {name};"}
    assert f"the rows in {into} would be there TWICE" in " ".join(consequences(full.config, found))


@pytest.mark.stack
def test_a_sink_that_runs_is_not_cleaned(full: LeftSink) -> None:
    full.claim(run_id="runs", ended=False)
    before = full.left()
    with pytest.raises(SinkRunsError, match="last sign of life"):
        clean(full)
    assert full.left() == before


@pytest.mark.stack
def test_a_sink_that_ran_since_it_was_looked_at_is_not_cleaned(full: LeftSink) -> None:
    act = cleaner(full)
    found = act.look()
    full.claim(run_id="ran meanwhile")
    before = full.left()
    with pytest.raises(TerminalError, match="since it was looked at"):
        act.clean(found, 60)
    assert full.left() == before
    full.claim(run_id="as if nothing had been")


@pytest.mark.stack
def test_a_run_that_was_silent_and_lives_is_fenced(full: LeftSink) -> None:
    ledger = full.claim(run_id="frozen", ended=False)
    act = cleaner(full)
    act.clean(act.look(), 0)
    with pytest.raises(FencedError):
        LedgerTable(full.namespace, full.name, "frozen").beat(full.connection, ledger.epoch)


@pytest.mark.stack
def test_a_name_begins_above_every_epoch_that_it_had(sink: LeftSink) -> None:
    """Also above those that a ledger which was dropped knows nothing of."""
    sink.claim()
    sink.stage_files(40)
    sink.stage_files(50)
    clean(sink)
    assert sink.left() == NOTHING
    late = sink.stage_files(40)  # of a task that froze
    ledger = sink.claim(ended=False)
    assert ledger.epoch > 50
    Stage(sink.namespace, sink.name, ledger.epoch).remove_older(sink.connection, ())
    assert late
    assert sink.left() == NOTHING | {"rows": 2}


@pytest.mark.stack
def test_files_without_a_row_in_the_ledger_are_cleaned_too(sink: LeftSink) -> None:
    sink.stage_files(7)
    sink.stage_files(3)
    clean(sink)
    assert sink.left() == NOTHING


@pytest.mark.stack
def test_an_older_clean_does_not_touch_the_sink_that_began_since(
    full: LeftSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = StageResidue.remove

    def overtaken(older: StageResidue, connection: SnowflakeConnection, epoch: int) -> None:
        monkeypatch.undo()
        clean(full)
        new = full.claim(run_id="new life", ended=False).epoch
        full.make_groups()
        full.stage_files(new)
        remove(older, connection, epoch)

    monkeypatch.setattr(StageResidue, "remove", overtaken)
    with pytest.raises(TerminalError, match="Another clean"):
        clean(full)
    left = full.left()
    assert (left["rows"], left["groups"]) == (2, sorted(full.groups))
    assert len(left["files"]) == 1


@pytest.mark.stack
def test_another_sink_may_take_the_target_afterwards(full: LeftSink) -> None:
    other = full.renamed(f"{full.name}b")
    target = f"T_{full.name.upper()}"
    with pytest.raises(TerminalError, match="Another sink"):
        other.claim(target=target)
    clean(full)
    other.claim(target=target)


@pytest.mark.stack
def test_what_others_use_in_kafka_is_left(full: LeftSink, topic: Topic) -> None:
    more = Topic(topic.settings, "elsewhere", partitions=1)
    full.make_groups(more.name, [full.groups[0]])
    topic_of_positions = full.make_replay_positions(full.name, "another")
    act = cleaner(full)
    found = act.look()
    left = {each.name: each for each in found.findings() if each.by_hand}
    assert f"offsets of other topics: {more.name}" in left[full.groups[0]].detail
    assert left[full.groups[0]].by_hand == f"kafka-consumer-groups --delete --group '{full.groups[0]}'"
    assert "positions of sink another" in left[topic_of_positions].detail
    act.clean(found, 60)
    assert full.left() == NOTHING | {"groups": [full.groups[0]], "replay positions": [topic_of_positions]}


@pytest.mark.stack
def test_a_group_with_consumers_is_left(full: LeftSink) -> None:
    own = {"group.id": full.groups[0], "session.timeout.ms": "10000"}
    consumer = Consumer(client_from_settings(full.settings).librdkafka() | own)
    try:
        consumer.subscribe([full.topic])
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), what="the consumer joined")
        act = cleaner(full)
        found = {each.name: each for each in act.look().findings()}
        with pytest.raises(ConfigError, match="has consumers"):
            cluster.delete_groups(cluster.admin_client(client_from_settings(full.settings)), [full.groups[0]])
    finally:
        consumer.close()
    assert "it has 1 consumer" in found[full.groups[0]].detail
    assert found[full.groups[0]].action == "leave"


@pytest.mark.stack
def test_what_a_sink_of_the_name_has_in_another_ledger_is_shown_and_left(full: LeftSink) -> None:
    """It may run there: two accounts can share a cluster."""
    foreign = dead_letter_group("0123456789ab", full.name)
    full.make_groups(groups=[foreign])
    act = cleaner(full)
    found = act.look()
    (shown,) = [each for each in found.findings() if each.name == foreign]
    assert (shown.action, shown.by_hand) == ("leave", f"kafka-consumer-groups --delete --group '{foreign}'")
    assert "ledger 0123456789ab, perhaps of another account" in shown.detail
    act.clean(found, 60)
    admin = cluster.admin_client(client_from_settings(full.settings))
    assert list(cluster.find_groups(admin, [*full.groups, foreign])) == [foreign]
    cluster.delete_groups(admin, [foreign])


@pytest.mark.stack
def test_places_that_do_not_tell_hide_no_other(full: LeftSink) -> None:
    away = full.settings.model_copy(update={"kafka_secret_id": "none/such"})
    act = cleaner(full, away)
    found = act.look()
    assert list(found.faults) == ["kafka"]
    unseen = [each for each in found.findings() if each.unseen]
    assert [each.name for each in unseen] == full.groups
    assert {each.row()["action"] for each in unseen} == {"not looked at"}
    assert len([each for each in found.removable if each.what != "consumer group"]) == 3
    act.clean(act.look(kafka=False), 60)
    assert full.left() == NOTHING | {"groups": sorted(full.groups)}


@pytest.mark.stack
def test_it_says_what_a_new_start_would_do_while_the_table_has_rows(sink: LeftSink) -> None:
    sink.claim()

    def told(first_offset: Literal["earliest", "latest"]) -> str:
        return " ".join(consequences(replace(sink.config, first_offset=first_offset), cleaner(sink).look(kafka=False)))

    assert "Starting" not in told("earliest") + told("latest")
    execute(sink.connection, f"CREATE TABLE {sink.namespace.qualified(f'T_{sink.name}')} (N INT) AS SELECT 1")
    assert "AGAIN FROM THE START" in told("earliest")
    assert "TWICE" in told("earliest")
    assert "NOT loaded" in told("latest")
