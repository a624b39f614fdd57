"""Faults of what lies between Kafka and the table: files of the stage, the topic's partitions."""

from __future__ import annotations

import time

from tests.soak.schedule import Planned
from tests.soak.world import SETTLE_SECONDS, Fired, World
from tests.support.sinks import wait_until

_REFUSED = "COPY refused what was staged"


def drop_staged_files(world: World, planned: Planned) -> Fired:
    """Every file of the sink in the stage is removed by somebody else, between PUT and COPY: COPY must miss them."""
    log = world.keeper.driver.log
    before, removed, at = log.read_text().count(_REFUSED), 0, 0.0

    def strikes() -> bool:
        nonlocal removed, at
        rows = cursor.execute(f"REMOVE @FIRN_STAGE/{world.sink}/").fetchall()
        if rows:
            removed, at = removed + len(rows), time.time()
        return log.read_text().count(_REFUSED) > before

    with world.connection() as connection, connection.cursor() as cursor:
        wait_until(strikes, seconds=SETTLE_SECONDS, what="COPY misses a file that was removed")
    return Fired(at, f"{removed} staged files were removed, and COPY missed them")


def add_partition(world: World, planned: Planned) -> Fired:
    """The topic gets a partition that records flow into at once."""
    at = time.time()
    number = world.traffic.add_partition()
    topic = world.traffic.busy.topic.name
    with world.connection() as connection, connection.cursor() as cursor:
        statement = "SELECT NEXT_OFFSET FROM FIRN_OFFSETS WHERE SINK = ? AND TOPIC = ? AND PARTITION = ?"

        def moved() -> bool:
            row = cursor.execute(statement, (world.sink, topic, number)).fetchone()
            return bool(row and row[0] > 0)

        wait_until(moved, seconds=SETTLE_SECONDS, what=f"partition {number} is committed")
    return Fired(at, f"partition {number} of {topic} is there and in the ledger")
