"""A task that follows a group of partitions: what is written when, and how the task ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from firn.channels.faults import BackpressureError, ChannelInvalidError
from firn.channels.tokens import Token
from firn.connector.config import ErrorsConfig, SinkConfig
from firn.dead_letters.published import PartitionLetters
from firn.errors import ClaimAgainError, FirnError, PrivilegeError, TransientError
from firn.kafka.follower import FollowedBatch
from firn.kafka.partitions import TopicPartition
from firn.sinks.signs import read_report
from firn.snowflake.columns import METADATA_COLUMN, Column, column_type
from spark_jobs.sink.dead_letters import tolerance as tolerances
from spark_jobs.sink.dead_letters.tolerance import Tolerance
from spark_jobs.sink.dead_letters.writer import Published
from spark_jobs.sink.decode.primitive.values import StringDecoder
from spark_jobs.sink.methods.base import Progress
from spark_jobs.sink.task import followed_partition, group_task
from spark_jobs.sink.task.followed_partition import Conversion, FollowedPartition, PartitionWork
from spark_jobs.sink.task.group_task import GroupTask
from spark_jobs.sink.task.partition_rows import PartitionRows
from spark_jobs.sink.values.reports import (
    Cut,
    Followed,
    Report,
    RowErrors,
    SchemaChangeRequest,
    Stopped,
    SuspectedStaleSchema,
)
from spark_jobs.sink.values.table_loaders import ColumnsLoader, TableLoader, VariantLoader
from tests.spark_jobs.sink.task.test_convert import batch
from tests.spark_jobs.sink.task.test_partition_task import Narrow

NONE = SinkConfig("s")
ALL = SinkConfig("s", errors=ErrorsConfig("all"))
LETTERS = SinkConfig("s", errors=ErrorsConfig("all", dead_letter_topic="dlq"))
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TABLE = ColumnsLoader((METADATA_COLUMN, Column("A", column_type("NUMBER(38,0)"))), exists=True, grow=True)


class Clock:
    """Time that passes when somebody waits, and a little with each look."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Channel:
    """What the service keeps of a partition: the offsets of its rows, and what it would take now."""

    events: list[str]
    where: TopicPartition
    rows: list[int] = field(default_factory=list)
    buffered: list[int] = field(default_factory=list)
    room: int = 1_000_000
    lag: int = 0
    invalid: int = 0
    errors: int = 0
    ledger: int = 0
    refuse: Callable[[int], bool] = lambda _offset: False

    def commit(self) -> None:
        """What is buffered becomes durable, or is refused."""
        refused = [at for at in self.buffered if self.refuse(at)]
        self.errors += len(refused)
        self.rows += [at for at in self.buffered if at not in refused]
        self.token = self.buffered[-1] if self.buffered else self.token
        self.buffered = []

    token: int = -1


class Writer:
    """A writer of a channel: rows are durable `lag` looks after they were written."""

    def __init__(self, channel: Channel) -> None:
        self.channel, self.text_bytes = channel, 0
        self._looks = self._rows = 0
        self._begin()

    def _begin(self) -> None:
        self._taken = self.channel.token + 1
        self.position = self.channel.ledger if self.channel.errors else self._taken

    def write(self, offsets: Any, columns: Sequence[pa.StringArray], _ids: Iterable[int] = ()) -> None:
        self._check()
        if len(offsets) > self.channel.room:
            raise BackpressureError("full")
        assert not self.channel.buffered or offsets[0] > self.channel.buffered[-1]
        assert offsets[0] > self.channel.token
        self.channel.room -= len(offsets)
        self.channel.buffered += offsets.tolist()
        self.channel.events.append(f"append {self.channel.where} {offsets[0]}-{offsets[-1]}")
        self.text_bytes += sum(len(text or "") for column in columns for text in column.to_pylist())

    def progress(self) -> Progress:
        self._check()
        self._looks += 1
        if self._looks > self.channel.lag:
            self._looks = 0
            self.channel.room += len(self.channel.buffered)
            self.channel.commit()
        token = str(Token(1, self.channel.token)) if self.channel.token >= 0 else None
        errors = self.channel.errors
        return Progress(self.channel.token + 1, token, self._rows, errors, errors, "does not fit" if errors else None)

    def reopen(self) -> None:
        self.channel.events.append(f"reopen {self.channel.where}")
        self.channel.buffered.clear()
        self.channel.invalid = 0
        self._begin()

    def flush(self) -> list[Any]:
        raise NotImplementedError

    def close(self, *, flush: bool) -> None: ...

    def _check(self) -> None:
        if self.channel.invalid:
            raise ChannelInvalidError("gone", code="STALE")


class Letters:
    """A dead-letter writer that notes its publications."""

    events: list[str]

    def __init__(
        self, _queue: object, where: TopicPartition, _id: str, before: PartitionLetters, _folder: Path
    ) -> None:
        self._where, self._before, self.size = where, before, 0
        self._offsets: list[int] = []

    def room(self, offsets: Sequence[int]) -> int:
        return len(offsets)

    def add(self, records: pa.RecordBatch, bad: Sequence[Any]) -> None:
        self._offsets += [records.column("offset")[each.row].as_py() for each in bad]

    def publish(self, end: int, _confirm: object) -> Published:
        Letters.events.append(f"letters {self._where} {self._offsets}")
        return Published(len(self._offsets), end, self._offsets)


class Documents:
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.said: list[Mapping[TopicPartition, tuple[int, str]]] = []
        self.fault: FirnError | None = None

    def offer(self, documents: Mapping[TopicPartition, tuple[int, str]]) -> bool:
        self.said.append(documents)
        return self.fault is None


class Source:
    """Gives out batches, one a poll, and reads again from where it is told."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self.paused = rig, set[TopicPartition]()
        self.batches: deque[list[FollowedBatch] | Callable[[], None]] = deque()
        self.log: dict[TopicPartition, list[FollowedBatch]] = {}

    def poll(self, seconds: float) -> list[FollowedBatch]:
        self._rig.events.append("poll")
        if not self.batches:
            self._rig.clock.sleep(max(seconds, 0.01))
            return []
        found = self.batches.popleft()
        if callable(found):
            found()
            return []
        for each in found:
            self.log.setdefault(each.where, []).append(each)
        return found

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused.update(partitions)
        self._rig.events.append(f"pause {sorted(map(str, partitions))}")

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= set(partitions)
        self._rig.events.append("resume")

    def seek(self, where: TopicPartition, offset: int) -> None:
        again = [each for each in self.log.pop(where, []) if each.next_offset > offset]
        cut = []
        for each in again:
            at = each.batch.column("offset").to_pylist() if each.batch is not None else []
            rows = each.batch.slice(next((n for n, o in enumerate(at) if o >= offset), len(at))) if at else None
            cut.append(FollowedBatch(where, rows if rows is not None and rows.num_rows else None, each.next_offset))
        for each in reversed(cut):
            self.batches.appendleft([each])
        self._rig.events.append(f"seek {where} {offset}")


class Rig:
    """A task over partitions 0 and 1 of topic t, with all that it talks to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.events: list[str] = []
        self.clock, self.documents = Clock(), Documents()
        self.source = Source(self)
        self.confirm: Callable[[Iterable[str]], None] = lambda topics: self.events.append(f"confirm {list(topics)}")
        self.channels = {where: Channel(self.events, where) for where in (P0, P1)}
        self.config, self.loader = NONE, VariantLoader()
        self.stale: Callable[[], bool] = lambda: False
        self.until: dict[TopicPartition, int] = {}
        self.published = PartitionLetters()
        self.idle_seconds = 5.0
        self._tmp = tmp_path
        Letters.events = self.events
        monkeypatch.setattr(tolerances, "DeadLetterWriter", Letters)
        monkeypatch.setattr(group_task.time, "sleep", self.clock.sleep)

    loader: TableLoader

    def task(self) -> GroupTask:
        context: Any = SimpleNamespace(config=self.config, kafka=None, value_registry=None)
        self.partitions = {}
        for where, channel in self.channels.items():
            conversion = Conversion(
                lambda letters, where=where: Tolerance(context, "x", where, "id", letters, self._tmp, lambda: None),
                lambda tolerance, write, where=where: PartitionRows(
                    context,
                    where,
                    self.loader,
                    (Narrow(), StringDecoder()),
                    tolerance,
                    write=write,
                    stale=lambda: self.stale(),
                ),
            )
            work = PartitionWork(where, "id", self.published, self.until.get(where))
            self.partitions[where] = FollowedPartition(work, Writer(channel), conversion, 7)
        return GroupTask(
            self.partitions, self.source, self.documents, lambda t: self.confirm(t), 3, self.idle_seconds, self.clock
        )

    def run(self) -> list[Report]:
        self.task().run()
        return self.reports()

    def reports(self) -> list[Report]:
        return [report for each in self.partitions.values() for report in each.reports()]

    def rows(self, where: TopicPartition = P0) -> list[int]:
        return self.channels[where].rows


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rig:
    return Rig(monkeypatch, tmp_path)


def records(where: TopicPartition, first: int, *values: bytes, end: int | None = None) -> FollowedBatch:
    """What a poll gives of a partition."""
    found = batch(len(values), first=first)
    found = found.set_column(4, "value", pa.array(values, pa.binary()))
    return FollowedBatch(where, found, end if end is not None else first + len(values))


def of(kind: type[Any], reports: list[Report]) -> list[Any]:
    return [each for each in reports if isinstance(each, kind)]


def test_rows_are_written_after_a_look_at_the_topic_that_began_after_they_were_fetched(rig: Rig) -> None:
    rig.source.batches.extend([[records(P0, 0, b"a")], [records(P0, 1, b"b"), records(P1, 0, b"c")]])
    rig.run()
    happened = [each for each in rig.events if not each.startswith(("pause", "resume"))]
    assert happened[:8] == [
        "poll",
        "confirm ['t']",
        "append t-0 0-0",
        "poll",
        "confirm ['t']",
        "append t-0 1-1",
        "append t-1 0-0",
        "poll",
    ]
    assert (rig.rows(P0), rig.rows(P1)) == ([0, 1], [0])


def test_of_a_topic_that_was_made_again_nothing_is_written(rig: Rig) -> None:
    def gone(_topics: Iterable[str]) -> None:
        raise ClaimAgainError("made again")

    rig.confirm = gone
    rig.source.batches.append([records(P0, 0, b"a")])
    with pytest.raises(ClaimAgainError):
        rig.run()
    assert rig.rows() == rig.channels[P0].buffered == []


def test_letters_are_published_before_rows_behind_them_are_written(rig: Rig) -> None:
    rig.config = LETTERS
    rig.source.batches.append([records(P0, 0, b"a", b"bad"), records(P1, 0, b"x")])
    rig.source.batches.append([records(P0, 2, b"bad", b"b")])
    reports = rig.run()
    first, second = rig.events.index("letters t-0 [1]"), rig.events.index("letters t-0 [2]")
    assert first < rig.events.index("append t-0 0-0") < second < rig.events.index("append t-0 3-3")
    followed = next(each for each in of(Followed, reports) if each.where == P0)
    assert (followed.next_offset, followed.rows, followed.letters) == (4, 2, 2)
    assert followed.reasons == {"malformed_avro": 2}
    assert [sample[0] for sample in followed.samples] == [1, 2]


def test_a_letter_that_is_published_already_is_neither_row_nor_letter(rig: Rig) -> None:
    rig.config, rig.published = LETTERS, PartitionLetters(2, frozenset({0}))
    rig.source.batches.append([records(P0, 0, b"a", b"bad")])
    rig.run()
    assert rig.rows() == []
    assert [each for each in rig.events if each.startswith(("letters", "append"))] == ["letters t-0 [1]"]


@pytest.mark.parametrize(
    "follow",
    [
        lambda: FollowedBatch(P0, None, 40),
        lambda: records(P0, 30, end=40),
        lambda: records(P0, 38, b"bad", b"bad"),
    ],
    ids=["markers", "nothing", "bad"],
)
def test_ranges_without_rows_pass(rig: Rig, follow: Callable[[], FollowedBatch]) -> None:
    rig.config = ALL
    rig.source.batches.append([follow()])
    (followed, _) = of(Followed, rig.run())
    assert (followed.next_offset, followed.rows) == (40, 0)
    assert rig.rows() == []


def test_a_bad_record_stops_its_partition_with_all_before_it_durable(rig: Rig) -> None:
    rig.channels[P0].lag = rig.channels[P1].lag = 3
    rig.source.batches.append([records(P0, 0, b"a", b"b"), records(P1, 0, b"c")])
    rig.source.batches.append([records(P0, 2, b"d", b"bad")])
    rig.source.batches.append([records(P0, 4, b"never")])
    reports = rig.run()
    assert rig.rows(P0) == [0, 1, 2]
    assert rig.rows(P1) == [0]
    assert of(Stopped, reports) == [Stopped("t", 0, 3, "malformed_avro", "d")]
    assert [each.next_offset for each in of(Followed, reports)] == [3, 1]
    assert len(rig.source.batches) == 1  # nothing more was fetched


def test_of_what_is_available_a_bad_record_stops_its_own_partition_alone(rig: Rig) -> None:
    rig.until, rig.idle_seconds = {P0: 3, P1: 2}, 1000.0
    rig.source.batches.append([records(P0, 0, b"a", b"bad", b"c")])
    rig.source.batches.append([records(P1, 0, b"x", b"y")])
    reports = rig.run()
    assert (rig.rows(P0), rig.rows(P1)) == ([0], [0, 1])
    assert len(of(Stopped, reports)) == 1


def test_rows_without_room_wait_and_nothing_that_was_fetched_is_thrown_away(rig: Rig) -> None:
    rig.channels[P0].room, rig.channels[P0].lag = 2, 8
    rig.source.batches.append([records(P0, 0, b"a", b"b")])
    rig.source.batches.append([records(P0, 2, b"c"), records(P1, 0, b"x")])
    rig.source.batches.append([records(P0, 3, b"d"), records(P1, 1, b"y")])
    rig.run()
    events = [each for each in rig.events if each.startswith(("append", "pause"))]
    assert events == ["append t-0 0-1", "append t-1 0-0", "append t-1 1-1", "append t-0 2-2", "append t-0 3-3"]


def test_rows_without_room_are_offered_from_time_to_time_and_nothing_is_fetched_meanwhile(rig: Rig) -> None:
    rig.channels = {P0: Channel(rig.events, P0, room=1, lag=20)}  # so many looks, a quarter of a second each
    rig.source.batches.extend([[records(P0, 0, b"a")], [records(P0, 1, b"b")], [records(P0, 2, b"c")]])
    task, offers = rig.task(), list[float]()
    writer = rig.partitions[P0]._writer
    write = writer.write

    def offered(offsets: Any, *rest: Any) -> None:
        offers.append(rig.clock.now)
        rig.events.append("offer")
        write(offsets, *rest)

    writer.write = offered  # type: ignore[method-assign]
    task.run()
    assert rig.rows() == [0, 1, 2]
    events = [each for each in rig.events if each in ("offer", "poll") or each.startswith("append")]
    waiting = events[events.index("append t-0 0-0") + 1 : events.index("append t-0 1-1")]
    assert waiting[:2] == ["poll", "offer"]
    assert set(waiting[2:]) == {"offer"}
    assert all(later - earlier >= group_task.OFFER_SECONDS for earlier, later in pairwise(offers[2 : len(waiting)]))


def test_a_partition_of_which_much_waits_rests_and_the_others_go_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_task, "MOST_HELD", 0)
    rig.channels[P0].room, rig.channels[P0].lag = 2, 4
    rig.source.batches.append([records(P0, 0, b"a", b"b")])
    rig.source.batches.append([records(P0, 2, b"c"), records(P1, 0, b"x")])
    rig.source.batches.append([records(P1, 1, b"y")])
    rig.run()
    events = rig.events
    assert rig.rows(P0) == [0, 1, 2]
    assert events.index("pause ['t-0']") < events.index("append t-1 1-1") < events.index("append t-0 2-2")
    assert events.index("append t-0 2-2") < events.index("resume")
    assert not rig.source.paused


def test_what_a_channel_lost_is_read_and_written_again(rig: Rig) -> None:
    """Two rows are durable, two are lost with their channel, which is opened again."""
    channel = rig.channels[P0]
    channel.lag = 1

    def lose() -> None:
        channel.invalid = 1

    rig.source.batches.extend(
        [[records(P0, 0, b"a", b"b")], lambda: channel.commit(), [records(P0, 2, b"c", b"d")], lose]
    )
    reports = rig.run()
    assert "seek t-0 2" in rig.events
    assert channel.rows == [0, 1, 2, 3]
    assert of(Followed, reports)[0].rows == 4


def test_letters_of_before_are_skipped_when_a_channel_begins_again(rig: Rig) -> None:
    rig.config, channel = LETTERS, rig.channels[P0]
    channel.lag = 50

    def lose() -> None:
        channel.invalid, channel.lag = 1, 0

    rig.source.batches.extend([[records(P0, 0, b"a", b"bad", b"b")], lose])
    rig.run()
    assert channel.rows == [0, 2]
    assert [each for each in rig.events if each.startswith("letters")] == ["letters t-0 [1]"]


def test_refused_rows_end_the_task_and_count_as_not_durable(rig: Rig) -> None:
    rig.config = ALL
    rig.channels[P0].refuse = lambda offset: offset == 1
    rig.source.batches.extend([[records(P0, 0, b"a", b"b"), records(P1, 0, b"x")], lambda: rig.clock.sleep(1.0)])
    rig.source.batches.append([records(P0, 2, b"never")])
    reports = rig.run()
    (errors,) = of(RowErrors, reports)
    assert errors == RowErrors("t", 0, "1:1", 1, 1, "does not fit", None)
    assert [each.next_offset for each in of(Followed, reports)] == [0, 1]


def test_refused_rows_of_before_are_told_before_anything_is_read(rig: Rig) -> None:
    rig.config, rig.channels[P0].errors, rig.channels[P0].token = ALL, 3, 9
    rig.channels[P0].ledger = 4
    rig.source.batches.append([records(P0, 10, b"never")])
    reports = rig.run()
    assert len(of(RowErrors, reports)) == 1
    assert next(each for each in of(Followed, reports) if each.where == P0).next_offset == 4
    assert "poll" not in rig.events


def test_refused_rows_of_a_channel_that_was_opened_again_are_told_before_anything_is_read(rig: Rig) -> None:
    """They were on their way when the channel was taken, and nobody has looked since."""
    rig.config = ALL
    channel = rig.channels[P0]
    channel.lag, channel.refuse = 1000, lambda offset: offset == 1

    def lose() -> None:
        channel.commit()
        channel.invalid, channel.lag = 1, 0

    rig.source.batches.extend([[records(P0, 0, b"a", b"b")], lose, [records(P0, 2, b"never")]])
    reports = rig.run()
    assert of(RowErrors, reports) == [RowErrors("t", 0, "1:1", 1, 1, "does not fit", None)]
    assert next(each for each in of(Followed, reports) if each.where == P0).next_offset == 0
    assert channel.rows == [0]


def test_a_table_that_must_change_ends_the_task_behind_what_it_took(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    requested = SchemaChangeRequest("t", 0, "T", 1, {"B": "NUMBER"})
    convert, growing = PartitionRows.convert, set[PartitionRows]()

    def converted(rows: PartitionRows, found: pa.RecordBatch) -> None:
        convert(rows, found)
        if b"grow" in found.column("value").to_pylist():
            growing.add(rows)

    monkeypatch.setattr(PartitionRows, "convert", converted)
    monkeypatch.setattr(PartitionRows, "schema_report", property(lambda rows: requested if rows in growing else None))
    rig.source.batches.append([records(P0, 0, b"a")])
    rig.source.batches.append([records(P0, 1, b"b", b"grow"), records(P1, 0, b"x")])
    reports = rig.run()
    assert of(SchemaChangeRequest, reports) == [requested]
    assert rig.rows(P0) == [0]
    assert of(Followed, reports)[0].next_offset == 1


@pytest.mark.parametrize(("changed", "kind"), [(True, SuspectedStaleSchema), (False, Stopped)])
def test_a_record_without_a_place_in_the_table_counts_as_bad_only_if_the_table_is_as_it_was(
    rig: Rig, changed: bool, kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.sink.values.bad_records import UNKNOWN_FIELD

    monkeypatch.setattr("tests.spark_jobs.sink.task.test_partition_task.MALFORMED_AVRO", UNKNOWN_FIELD)
    rig.stale = lambda: changed
    rig.source.batches.append([records(P0, 0, b"a")])
    rig.source.batches.append([records(P0, 1, b"bad")])
    reports = rig.run()
    assert len(of(kind, reports)) == 1
    assert rig.rows() == [0]


def test_a_long_list_of_letters_ends_the_task_so_that_the_ledger_moves(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.config = LETTERS
    monkeypatch.setattr(followed_partition, "MOST_LISTED", 1)
    rig.source.batches.extend([[records(P0, 0, b"bad", b"bad", b"a")], [records(P0, 3, b"never")]])
    reports = rig.run()
    assert of(Cut, reports) == [Cut("t", 0, 3, "its list of dead letters is long")]
    assert rig.rows() == [2]


def test_a_run_that_takes_what_is_available_takes_exactly_that(rig: Rig) -> None:
    rig.until = {P0: 2, P1: 5}
    rig.idle_seconds = 1000.0
    rig.source.batches.append([records(P0, 0, b"a", b"b", b"late"), records(P1, 0, b"x")])
    rig.source.batches.append([FollowedBatch(P1, None, 5)])
    reports = rig.run()
    assert (rig.rows(P0), rig.rows(P1)) == ([0, 1], [0])
    assert [each.next_offset for each in of(Followed, reports)] == [2, 5]


def test_a_task_without_records_for_long_ends(rig: Rig) -> None:
    begun = rig.clock.now
    rig.source.batches.append([records(P0, 0, b"a")])
    rig.run()
    assert rig.rows() == [0]
    assert 5.0 < rig.clock.now - begun < 8.0


def test_rows_that_do_not_become_durable_are_told(rig: Rig) -> None:
    rig.channels[P0].lag = 10**9
    rig.source.batches.append([records(P0, 0, b"a", b"bad")])
    with pytest.raises(TransientError, match="did not become durable within 60 s"):
        rig.run()
    assert of(Followed, rig.reports())[0].next_offset == 0


def test_nothing_is_fetched_while_too_much_is_on_its_way(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_task, "MOST_WAITING", 0)
    rig.channels[P0].lag = 3
    durable: list[list[int]] = []
    rig.source.batches.extend(
        [[records(P0, 0, b"a")], lambda: durable.append(list(rig.rows())), [records(P0, 1, b"b")]]
    )
    rig.run()
    assert durable == [[0]]
    assert rig.rows() == [0, 1]


def test_reports_come_each_second_and_the_last_one_says_all(rig: Rig) -> None:
    rig.source.batches.extend([[records(P0, number, b"a")] for number in range(60)])
    reports = rig.run()
    said = [read_report(each[P0]) for each in rig.documents.said if P0 in each]
    assert all(report is not None and (report.epoch, report.attempt) == (3, 7) for report in said)
    counters = [report.counter for report in said if report]
    assert counters == sorted(set(counters))
    last = said[-1]
    assert last is not None
    assert (last.next_offset, last.rows, last.token) == (60, 60, "1:59")
    # A second apart while something moves, ten where nothing does.
    assert 3 <= len(rig.documents.said) <= 12
    assert of(Followed, reports)[0].counter > last.counter


def test_reports_that_kafka_does_not_allow_are_an_error(rig: Rig) -> None:
    rig.documents.fault = PrivilegeError("no rights on the group")
    with pytest.raises(PrivilegeError):
        rig.run()


def test_reports_that_kafka_does_not_take_now_end_nothing(rig: Rig) -> None:
    rig.documents.fault = TransientError("no answer")
    rig.source.batches.append([records(P0, 0, b"a")])
    rig.run()
    assert rig.rows() == [0]
