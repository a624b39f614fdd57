"""Faults of the streaming service: throttled, unavailable, cut off, answers lost, channels taken away, slow commits."""

from __future__ import annotations

import time

from firn.channels.names import channel_name
from firn.kafka.partitions import TopicPartition
from tests.soak.schedule import Planned
from tests.soak.world import SETTLE_SECONDS, Fired, World
from tests.support.sinks import wait_until
from tests.support.streaming_faults import StreamingFaults

_SLOW_SECONDS, _USUAL_SECONDS = 5.0, 0.1


def stream_throttled(world: World, planned: Planned) -> Fired:
    """Appends are answered with 429 several times."""
    return _struck(world, planned, status=429, code="TOO_MANY_REQUESTS", message="Too many requests")


def stream_unavailable(world: World, planned: Planned) -> Fired:
    """Appends are answered with 503 several times."""
    return _struck(world, planned, status=503, code="SERVICE_UNAVAILABLE", message="Service unavailable")


def stream_cut(world: World, planned: Planned) -> Fired:
    """Connections end before the service has read what they carry."""
    return _struck(world, planned, cut=True)


def stream_lost_answers(world: World, planned: Planned) -> Fired:
    """The service takes rows, and the answer is lost: the client sends them again."""
    return _struck(world, planned, cut=True, apply=True)


def stale_tokens(world: World, planned: Planned) -> Fired:
    """A channel is told that somebody else has it: its writer has to open it again."""
    return _struck(world, planned, times=1, status=400, code="STALE_CONTINUATION_TOKEN_SEQUENCER", message="Reopen.")


def invalidated_channel(world: World, planned: Planned) -> Fired:
    """The service gives a channel up, with all that it had taken and not committed."""
    partition = planned.pick % world.traffic.busy.topic.partitions
    with world.connection() as connection, connection.cursor() as cursor:
        (ledger,) = cursor.execute("SELECT LEDGER_ID FROM FIRN_OFFSETS WHERE SINK = ''").fetchone()
    name = channel_name(str(ledger), world.sink, TopicPartition(world.traffic.busy.topic.name, partition))
    faults = StreamingFaults(world.stack.settings)
    wait_until(lambda: faults.invalidate(name), seconds=SETTLE_SECONDS, what=f"channel {name} is open and taken away")
    return Fired(time.time(), f"the channel of partition {partition} was taken away")


def slow_commits(world: World, planned: Planned) -> Fired:
    """Rows become durable seconds after they were taken; everything is lost that a kill meets before that."""
    faults, at = StreamingFaults(world.stack.settings), time.time()
    faults.set(commit_delay=_SLOW_SECONDS)
    time.sleep(planned.outage)
    workers = world.keeper.driver.workers() if planned.whole else []
    for each in workers:
        each.kill()
    faults.set(commit_delay=_USUAL_SECONDS)
    killed = f"; {len(workers)} workers were killed meanwhile" if planned.whole else ""
    return Fired(at, f"commits took {_SLOW_SECONDS:.0f} s for {planned.outage} s{killed}")


def _struck(world: World, planned: Planned, *, times: int = 0, **fault: object) -> Fired:
    """Put a fault in front of appends and wait until it has struck as often as it should."""
    faults, times = StreamingFaults(world.stack.settings), times or 1 + planned.pick % 5
    before = faults.fired("append")
    faults.add(api="append", times=times, after=planned.pick % 3, **fault)
    wait_until(lambda: faults.fired("append") >= before + times, seconds=SETTLE_SECONDS, what=f"{times} appends fail")
    return Fired(time.time(), f"{times} appends: {' '.join(f'{name} {value}' for name, value in fault.items())}")
