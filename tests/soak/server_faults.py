"""Faults of the servers around the sink: killed and started again, unavailable, answers lost on their way."""

from __future__ import annotations

import time

from tests.soak.driver_faults import kill_driver
from tests.soak.schedule import Planned
from tests.soak.world import SETTLE_SECONDS, Fired, World
from tests.support.sinks import wait_until
from tests.support.toxics import Effect

_FOR_GOOD_SECONDS = 30.0


def kill_kafka(world: World, planned: Planned) -> Fired:
    """The broker is killed and comes back."""
    return _outage(world, "kafka", planned)


def kill_snowflake(world: World, planned: Planned) -> Fired:
    """Snowflake is killed and comes back: open transactions are gone, what was committed is there."""
    return _outage(world, "snowflake", planned)


def kill_registry(world: World, planned: Planned) -> Fired:
    """The registry is killed just when records of a schema that nobody has looked up yet arrive, and comes back."""
    schema, schema_id = world.traffic.register_version()
    at = time.time()
    seen = world.stack.kill("schema-registry")
    world.traffic.use(schema, schema_id)
    time.sleep(planned.outage)
    world.stack.start_again("schema-registry")
    return Fired(at, f"{seen}; schema id {schema_id} was new meanwhile")


def _outage(world: World, server: str, planned: Planned) -> Fired:
    at = time.time()
    seen = world.stack.kill(server)
    time.sleep(planned.outage)
    if planned.whole:
        kill_driver(world, planned)
        seen += "; the driver was killed meanwhile"
    world.stack.start_again(server)
    return Fired(at, seen)


def snowflake_unavailable(world: World, planned: Planned) -> Fired:
    """Snowflake answers 503 for a while."""
    at = time.time()
    toxic = world.proxy.add(Effect.UNAVAILABLE)
    time.sleep(planned.outage)
    wait_until(lambda: toxic.fired, seconds=SETTLE_SECONDS, what="a request is answered with 503")
    world.proxy.clear()
    return Fired(at, f"{toxic.fired} requests were answered with 503")


def cut_requests(world: World, planned: Planned) -> Fired:
    """Some requests to Snowflake never get there: the connection is cut."""
    return _struck(world, Effect.CUT, "", times=1 + planned.pick % 3, skip=planned.pick % 7)


def lose_answers(world: World, planned: Planned) -> Fired:
    """Snowflake does what it is asked, and the answers are lost on their way back."""
    return _struck(world, Effect.LOST_ANSWER, "", times=1 + planned.pick % 3, skip=planned.pick % 7)


def lose_commit_answer(world: World, planned: Planned) -> Fired:
    """The answer to COMMIT is lost: once, or also each time it is asked for again, for half a minute.

    A client that gives up for good does so after minutes: `test_a_lost_answer_to_commit_is_resolved_by_claiming_again`.
    """
    return _struck(world, Effect.LOST_ANSWER, '"COMMIT"', times=1, for_good=planned.whole)


def _struck(world: World, effect: Effect, text: str, *, times: int, skip: int = 0, for_good: bool = False) -> Fired:
    """Put a toxic in and wait until it has struck as often as it should."""
    toxic = world.proxy.add(effect, text, times=times, skip=skip, for_good=for_good)
    wait_until(lambda: toxic.fired == times, seconds=SETTLE_SECONDS, what=f"{times} requests are {effect.value}")
    at = time.time()
    time.sleep(_FOR_GOOD_SECONDS if for_good else 0)
    world.proxy.clear()
    return Fired(at, f"{times} requests: {effect.value}")
