"""What must hold after any fault, and runs that are struck while they go on."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from firn.operations.run_report import RunReport
from firn.settings import Settings
from firn.snowflake.connection import connect, query
from firn.snowflake.faults import MissingObjectError
from spark_jobs.sink.run import SinkRun
from tests.support import methods
from tests.support.kafka import Topic
from tests.support.sinks import committed, landed, login_of, sql, wait_until
from tests.support.snowflake import make_schema

NewRun = Callable[..., SinkRun]
AT_ONCE = {"buffer__count__records": "1", "firn__topics__refresh__seconds": "1"}
"""Parameters of a run that goes on: it waits for nothing, and sees new partitions within a second."""


def landed_once(settings: Settings, topic: Topic, ends: dict[int, int]) -> None:
    """Every record of a topic without gaps is in the table once, and the ledger is at the ends."""
    assert landed(settings, topic) == [(p, n) for p, end in sorted(ends.items()) for n in range(end)]
    assert {p: end for p, end in committed(settings, topic).items() if end} == ends


def exactly_once(settings: Settings, topic: Topic, ends: dict[int, int]) -> None:
    """The same, and nothing is left in the stage."""
    landed_once(settings, topic, ends)
    assert staged(settings, topic) == []


def agrees(settings: Settings, topic: Topic) -> bool:
    """Whether the table holds exactly what the ledger says: each record below NEXT_OFFSET once, and none above.

    With streaming the ledger is a lower bound: there may be more rows, without a hole.
    """
    ends = committed(settings, topic)
    tables = sql(settings, f"SHOW TABLES LIKE '{topic.table}'")
    rows = landed(settings, topic) if tables else []
    if methods.of_running_test():
        rows_in = Counter(partition for partition, _ in rows)
        ends = {partition: max(end, rows_in[partition]) for partition, end in ends.items()}
    return rows == [(p, n) for p, end in sorted(ends.items()) for n in range(end)]


def staged(settings: Settings, topic: Topic) -> list[str]:
    """The files of a topic's sink in the stage, which streaming never makes."""
    with connect(login_of(settings)) as connection, suppress(MissingObjectError):
        return [str(row["name"]) for row in query(connection, f"LIST @FIRN_STAGE/s_{topic.table}/")]
    return []


@contextmanager
def going_on(new_run: NewRun, topic: Topic, **parameters: Any) -> Iterator[tuple[SinkRun, Future[RunReport]]]:
    """A run that does not end by itself, in a thread, stopped at the end of the block whatever happens in it."""
    stop = threading.Event()
    run = new_run(topic, once=False, stop=stop, **{**AT_ONCE, **parameters})
    with ThreadPoolExecutor() as pool:
        try:
            yield run, pool.submit(run.run)
        finally:
            stop.set()


def until_records(run: SinkRun, done: Future[RunReport], records: int) -> None:
    """Wait until a run has committed so many records; what ended it before is raised."""

    def arrived() -> bool:
        if done.done():
            done.result()
        return run.report.records >= records

    wait_until(arrived, what=f"{records} records committed")


def own_schema(settings: Settings) -> Settings:
    """Settings whose tables, stage and ledger nobody else uses: in a schema made just now."""
    name = f"FAULTS_{uuid.uuid4().hex[:8].upper()}"
    make_schema(settings, name)
    return settings.model_copy(update={"snowflake_schema": name})


def of_schema(settings: Settings) -> dict[str, str]:
    """Parameters of a sink in the schema of these settings."""
    return {"snowflake__schema__name": settings.snowflake_schema}


def impatient(run: SinkRun, seconds: float = 2.0) -> SinkRun:
    """The same run, which gives up after so long without progress."""
    run._deadline.seconds = seconds
    return run
