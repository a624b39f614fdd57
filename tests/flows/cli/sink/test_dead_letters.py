"""`firn sink dead-letters` through the public command: list, show and replay, which sends each record back once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka.admin import NewTopic
from typer.testing import CliRunner

from firn.connector.config import ErrorsConfig, SinkConfig
from firn.dead_letters.envelope import Origin, envelope_headers
from firn.dead_letters.offset_list import write_list
from firn.dead_letters.queue import queue_of
from firn.dead_letters.replay import Replay
from firn.errors import ConfigError, TerminalError, TransientError
from firn.kafka.transactional_producer import CommittedOffset, Message, TransactionalProducer
from firn.ledger.kafka_names import replay_group
from firn.settings import load_settings
from flows.cli.sink.dead_letters import app
from tests.support.kafka import Topic
from tests.support.sinks import connector_file, ledger_id_of

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module", autouse=True)
def _ledger(stack) -> None:
    """A replay asks the ledger under whose id Kafka remembers what was replayed."""
    ledger_id_of(stack.settings)


@pytest.fixture
def source(stack) -> Topic:
    return Topic(stack.settings, "replay-source")


@pytest.fixture
def letters(stack) -> Topic:
    return Topic(stack.settings, "replay-letters", partitions=1)


@pytest.fixture
def config(source: Topic, letters: Topic, tmp_path: Path) -> Path:
    """The connector file of the sink of `source`."""
    parameters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters.name}
    return connector_file(tmp_path, source, **parameters)


@pytest.fixture
def firn(stack, config: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `firn sink dead-letters <what> <config> ...` within this process."""
    monkeypatch.setenv("FIRN_HOME", str(stack.home))
    load_settings.cache_clear()
    runner = CliRunner()

    def run(what: str, *options: str, answer: str | None = None) -> Result:
        return runner.invoke(app, [what, str(config), *options], input=answer)

    return run


def sink_of(source: Topic) -> str:
    return f"s_{source.table}"


def letter(source: Topic, offset: int, value: bytes | None, *, sink: str = "", key: bytes | None = b"k") -> Message:
    """A letter as a sink publishes it; offset and partition are those of its record."""
    converter = "io.confluent.connect.avro.AvroConverter"
    origin = Origin(source.name, offset % 2, offset, sink or sink_of(source), False, converter, "wrong_magic", "byte 7")
    own = [("trace", b"\x00\xff"), ("trace", b"second")]
    return Message("", 0, key, value, own + envelope_headers(origin), 1_700_000_000_123, f"letter {offset}")


def publish(letters: Topic, *messages: Message) -> None:
    """Each in a transaction of its own, as batches do."""
    where = (letters.name, 0)
    with TransactionalProducer(
        letters.client, f"{letters.name}-test", letters.name, where, letters.name
    ) as transactions:
        for message in messages:
            named = [Message(letters.name, 0, *list(vars(message).values())[2:])]
            transactions.send(named, CommittedOffset(0, ""), lambda: None)


def rows(done: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_list_shows_the_newest_letters_of_this_sink(firn, source: Topic, letters: Topic) -> None:
    own = [letter(source, offset, b"x") for offset in range(5)]
    publish(letters, *own[:2], letter(source, 50, b"x", sink="another"), *own[2:])
    found = rows(firn("list", "--newest", "4", "--json"))
    assert [row["source_offset"] for row in found] == [1, 2, 3, 4]
    assert [row["source_partition"] for row in found] == [1, 0, 1, 0]
    assert [row["offset"] for row in found] == [2, 6, 8, 10]
    assert {(row["topic"], row["stage"], row["reason"], row["time"]) for row in found} == {
        (source.name, "VALUE_CONVERTER", "wrong_magic: byte 7", "2023-11-14T22:13:20.123+00:00")
    }
    assert len(rows(firn("list", "--all", "--json"))) == 5
    assert "wrong_magic: byte 7" in firn("list").stdout


def test_show_tells_all_of_one_letter(firn, source: Topic, letters: Topic) -> None:
    publish(letters, letter(source, 7, b"\x00\x01\xff", key=None), letter(source, 9, "größer".encode()))
    shown = json.loads(firn("show", "0", "0", "--json").stdout)
    assert (shown["topic"], shown["source_partition"], shown["source_offset"]) == (source.name, 1, 7)
    assert (shown["key"], shown["value"]) == (None, {"size": 3, "hex": "0001ff"})
    assert shown["headers"][:2] == [
        {"name": "trace", "size": 2, "hex": "00ff"},
        {"name": "trace", "size": 6, "text": "second"},
    ]
    printed = firn("show", "0", "2").stdout
    assert "größer" in printed
    assert "__connect.errors.exception.message" in printed
    absent = firn("show", "0", "1").exception
    assert isinstance(absent, ConfigError)
    assert "dead-letters list" in absent.next_step


def test_replay_sends_every_record_back_once(firn, source: Topic, letters: Topic) -> None:
    publish(letters, letter(source, 2, b"two"), letter(source, 3, None), letter(source, 4, b"x", sink="another"))
    planned = rows(firn("replay", "--dry-run", "--json"))
    assert planned == [{"topic": source.name, "partition": p, "letters": 1} for p in (0, 1)]
    for answer, code in (("n\n", 0), ("", 130)):
        refused = firn("replay", answer=answer)
        assert refused.exit_code == code
        assert refused.stderr.endswith("Nothing was changed.\n")
    assert source.read(0) == []
    assert "2 records sent back" in firn("replay", answer="y\n").stderr
    publish(letters, letter(source, 6, b"six"))
    assert rows(firn("replay", "--yes", "--json")) == [{"topic": source.name, "partition": 0, "letters": 1}]
    assert "There is nothing to replay" in firn("replay", "--yes").stderr
    two, six = source.read(0)
    assert (two.key(), two.value(), two.timestamp()[1]) == (b"k", b"two", 1_700_000_000_123)
    assert two.headers() == [("trace", b"\x00\xff"), ("trace", b"second")]
    assert six.value() == b"six"
    assert [record.value() for record in source.read(1)] == [None]


def test_one_letter_is_replayed_alone_and_not_again_with_the_others(firn, source: Topic, letters: Topic) -> None:
    publish(letters, *(letter(source, offset, b"%d" % offset) for offset in (0, 2, 4)))
    only = ("--partition", "0", "--offset", "2", "--yes")
    assert [row["letters"] for row in rows(firn("replay", *only, "--json"))] == [1]
    assert rows(firn("replay", *only, "--json")) == []
    assert [row["letters"] for row in rows(firn("replay", "--yes", "--json"))] == [2]
    assert rows(firn("replay", *only, "--json")) == []
    assert [record.value() for record in source.read(0)] == [b"2", b"0", b"4"]
    assert firn("replay", "--partition", "0").exit_code == 2


def test_letters_without_context_go_to_the_only_topic(firn, source: Topic, letters: Topic) -> None:
    publish(letters, Message("", 0, b"a", b"1", [("own", b"h")], 1_700_000_000_123, ""))
    assert rows(firn("list", "--json"))[0]["topic"] is None
    assert firn("replay", "--yes").exit_code == 0
    found = source.read(0) + source.read(1)
    assert [(record.value(), record.headers()) for record in found] == [(b"1", [("own", b"h")])]


def test_letters_that_nobody_can_place_stop_the_replay_before_it_sends(source: Topic, letters: Topic) -> None:
    publish(letters, letter(source, 2, b"two"), Message("", 0, b"a", b"1", [], 1_700_000_000_123, ""))
    errors = ErrorsConfig("all", dead_letter_topic=letters.name)
    several = SinkConfig(sink_of(source), topics=(source.name, "another"), errors=errors)
    queue = queue_of(several, letters.client, ledger_id_of(source.settings))
    assert queue is not None
    with pytest.raises(ConfigError, match="does not say its topic"):
        Replay(queue, several).count()
    foreign = SinkConfig(sink_of(source), topics=("another",), errors=errors)
    with pytest.raises(ConfigError, match="does not read"):
        Replay(queue, foreign).count()


def test_a_replay_that_another_one_overtook_sends_nothing(source: Topic, letters: Topic) -> None:
    publish(letters, letter(source, 2, b"two"))
    late, early = replay_of(source, letters), replay_of(source, letters)
    assert [row.letters for row in early.send()] == [1]
    with pytest.raises(TransientError):
        late.send()
    assert len(source.read(0)) == 1


def forget_group(source: Topic) -> None:
    """What the brokers do once the group was idle for offsets.retention.minutes."""
    group = replay_group(ledger_id_of(source.settings), sink_of(source))
    source.admin.client.delete_consumer_groups([group])[group].result(30)


def replay_of(source: Topic, letters: Topic) -> Replay:
    errors = ErrorsConfig("all", dead_letter_topic=letters.name)
    config = SinkConfig(sink_of(source), topics=(source.name,), errors=errors)
    queue = queue_of(config, letters.client, ledger_id_of(source.settings))
    assert queue is not None
    return Replay(queue, config)


def test_a_replay_sends_nothing_again_once_its_group_has_expired(firn, source: Topic, letters: Topic) -> None:
    publish(letters, *(letter(source, offset, b"%d" % offset) for offset in (0, 2, 4)))
    assert firn("replay", "--partition", "0", "--offset", "4", "--yes").exit_code == 0
    forget_group(source)
    assert [row["letters"] for row in rows(firn("replay", "--yes", "--json"))] == [2]
    forget_group(source)
    assert rows(firn("replay", "--dry-run", "--json")) == []
    assert rows(firn("replay", "--partition", "0", "--offset", "2", "--yes", "--json")) == []
    publish(letters, letter(source, 6, b"6"))
    assert [row["letters"] for row in rows(firn("replay", "--yes", "--json"))] == [1]
    assert [record.value() for record in source.read(0)] == [b"4", b"0", b"2", b"6"]


def left_open(source: Topic, name: str, record: Message) -> TransactionalProducer:
    """A replay that was killed after it had produced; it must stay referenced."""
    where = (source.name, 0)
    killed = TransactionalProducer(source.client, name, f"{source.name}-killed", where, record.topic).__enter__()
    killed._producer.begin_transaction()
    killed._produce([record])
    killed.flush()
    return killed


def test_what_a_killed_replay_left_open_counts_as_not_replayed(source: Topic, letters: Topic) -> None:
    publish(letters, letter(source, 2, b"two"))
    replay = replay_of(source, letters)
    positions, (partition,) = replay._positions, replay._partitions
    positions.ensure(1)
    uncommitted = positions.message((partition.topic_id, 0), CommittedOffset(1, write_list(partition.topic_id, ())))
    foreign = left_open(source, f"{source.name}-foreign", uncommitted)
    with pytest.raises(TransientError, match="stays open"):
        replay_of(source, letters)
    foreign._abort()
    own = left_open(source, replay._id(partition.topic_id, partition.where), uncommitted)
    assert [row.letters for row in replay_of(source, letters).send()] == [1]
    forget_group(source)
    assert replay_of(source, letters).send() == []
    assert [record.value() for record in source.read(0)] == [b"two"]
    del own


def test_replay_positions_that_nobody_can_rely_on_stop_the_replay(source: Topic, letters: Topic) -> None:
    publish(letters, letter(source, 2, b"two"))
    positions = replay_of(source, letters)._positions
    made = NewTopic(positions.topic, 1, 1, config={"cleanup.policy": "compact,delete"})
    source.admin.client.create_topics([made])[positions.topic].result(30)
    with pytest.raises(ConfigError, match="would forget"):
        replay_of(source, letters).send()
    where = (source.name, 0)
    with TransactionalProducer(source.client, f"{source.name}-x", source.name, where, positions.topic) as somebody:
        somebody.send([Message(positions.topic, 0, b"a", b"1", [], -1, "")], CommittedOffset(0, ""), lambda: None)
    with pytest.raises(TerminalError, match="is no replay position"):
        replay_of(source, letters)
    assert source.read(0) == []


def test_a_sink_never_reads_the_positions_of_its_replays(source: Topic, letters: Topic) -> None:
    errors = ErrorsConfig("all", dead_letter_topic=letters.name)
    config = SinkConfig(sink_of(source), topics_regex="firn-.*", errors=errors)
    queue = queue_of(config, letters.client, ledger_id_of(source.settings))
    assert queue is not None
    with pytest.raises(ConfigError, match="its own replays"):
        Replay(queue, config)


def test_the_command_belongs_to_the_sink(stack, source: Topic, letters: Topic, config: Path, tmp_path: Path) -> None:
    """Through a process of its own: results on stdout alone, errors with their exit code."""
    publish(letters, letter(source, 2, b"two"))
    listed = stack.run("sink", "dead-letters", "list", config, "--json")
    assert [row["source_offset"] for row in rows(listed)] == [2]
    without = tmp_path / "without.json"
    without.write_text(json.dumps({"name": "without", "config": {"topics": source.name}}))
    done = stack.run("sink", "dead-letters", "list", without, check=False)
    assert done.returncode == 3
    assert "errors.deadletterqueue.topic.name" in done.stderr
