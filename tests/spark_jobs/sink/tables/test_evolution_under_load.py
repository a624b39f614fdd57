"""A table that changes twenty times while records flow into it: every record once, every value where it belongs.

Each record's values follow from its number, so that Snowflake itself can tell of every column whether it is right.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firn.connector.config import Method
from firn.operations.run_report import RunReport
from firn.settings import Settings
from spark_jobs.sink.run import SinkRun
from tests.spark_jobs.sink.tables.test_schematized import EVOLVING
from tests.spark_jobs.sink.test_run import running
from tests.support import faults_jobs
from tests.support.faults import Fault, Kind, Step
from tests.support.kafka import Topic, framed
from tests.support.sinks import committed, connector_file, landed, sql, wait_until

pytestmark = pytest.mark.stack
NewRun = Callable[..., SinkRun]

PHASES = 21
"""The first schema, and the one after each of twenty changes."""
PARTITIONS = 2
RECORDS = 200_000
TABLE = (
    "CREATE TABLE {table} (RECORD_METADATA VARIANT, ID NUMBER(38,0) NOT NULL, R1 NUMBER(38,0) NOT NULL, "
    "R2 VARCHAR NOT NULL, R3 BOOLEAN NOT NULL, W1 NUMBER(5,0), W2 VARCHAR(8), W3 NUMBER(6,2))"
)
DAY, MOMENT = date(2000, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
INSIDE = {"type": "record", "name": "Inside", "fields": [{"name": "n", "type": "long"}]}


@dataclass(frozen=True)
class Field:
    """A field of the phases `first` to `last`: its Avro type, its value in record n, and the same in SQL.

    actual: what the table has, from the column; expected: what it should have, from ID. Both are expressions.
    """

    name: str
    first: int
    last: int
    avro: Any
    value: Callable[[int], Any]
    expected: str
    actual: str = "{}"


FIELDS = (
    Field("id", 0, 20, "long", lambda n: n, "ID"),
    Field("r1", 0, 2, "long", lambda n: n + 1, "ID + 1"),  # 3: a required field is gone
    Field("r2", 0, 6, "string", lambda n: f"r{n}", "'r' || ID"),
    # 7: it may be null, and is
    Field("r2", 7, 20, ["null", "string"], lambda n: None if n % 3 else f"r{n}", "IFF(ID % 3 = 0, 'r' || ID, NULL)"),
    Field("r3", 0, 14, "boolean", lambda n: n % 2 == 0, "MOD(ID, 2) = 0"),  # 15: the last required one is gone
    Field("w1", 0, 3, "long", lambda n: n % 1000, "MOD(ID, 1000)"),
    Field("w1", 4, 20, "long", lambda n: 100_000 + n * 1_000_003, "100000 + ID * 1000003"),  # 4: wider
    Field("w2", 0, 7, "string", lambda n: f"t{n % 1000}", "'t' || MOD(ID, 1000)"),
    Field("w2", 8, 20, "string", lambda n: "é" * 20 + str(n), "REPEAT('é', 20) || ID"),  # 8: wider
    Field("w3", 0, 11, DECIMAL, lambda n: Decimal(n % 1000) + Decimal("0.25"), "MOD(ID, 1000) + 0.25"),
    Field("w3", 12, 20, DECIMAL, lambda n: Decimal(n) * 100_000 + Decimal("0.75"), "ID * 100000 + 0.75"),  # 12: wider
    Field("F1", 1, 10, "long", lambda n: n * 7, "ID * 7"),  # 1: added
    Field("F1", 11, 17, "double", lambda n: n * 7.0, "ID * 7"),  # 11: another type, and whole numbers still
    Field("F1", 18, 20, "string", lambda n: str(n * 7), "ID * 7"),  # 18: a text with a number
    Field("f2", 2, 13, "string", lambda n: f"s{n}", "'s' || ID"),  # 2: added; 14: gone
    Field("f2", 19, 20, ["null", "string"], lambda n: f"back {n}", "'back ' || ID"),  # 19: back again
    Field("f3", 5, 19, "double", lambda n: n / 4, "ID / 4"),
    # 20: a text, and not always one with a number
    Field("f3", 20, 20, "string", lambda n: "n/a" if n % 100 == 0 else f"{n}e-2", "ID / 100"),
    Field("f4", 6, 20, "boolean", lambda n: n % 3 == 0, "MOD(ID, 3) = 0"),
    Field("f5", 9, 20, ["null", DECIMAL], lambda n: Decimal(n) + Decimal("0.05"), "ID + 0.05"),
    Field(
        "f6", 10, 20, {"type": "int", "logicalType": "date"}, lambda n: DAY + timedelta(days=n % 9999),
        "TO_VARCHAR(DATEADD(day, MOD(ID, 9999), '2000-01-01'::DATE))", "TO_VARCHAR({})",
    ),
    Field(
        "f7", 13, 20, {"type": "long", "logicalType": "timestamp-millis"}, lambda n: MOMENT + timedelta(seconds=n),
        "TO_VARCHAR(DATEADD(second, ID, '2024-01-01'::TIMESTAMP_NTZ))", "TO_VARCHAR({})",
    ),
    Field("f8", 16, 20, {"type": "array", "items": "long"}, lambda n: [n, -n], "ID", "({0}[0]::INT - {0}[1]::INT) / 2"),
    Field("f9", 16, 20, INSIDE, lambda n: {"n": n * 3}, "ID * 3", "{}:n::INT"),
    Field("f10", 17, 20, "bytes", lambda n: f"b{n}".encode(), "HEX_ENCODE('b' || ID)", "HEX_ENCODE({})"),
)  # fmt: skip
CHANGES = (
    (1, 'ADD COLUMN IF NOT EXISTS "F1" NUMBER(38,0)'),
    (2, 'ADD COLUMN IF NOT EXISTS "F2" VARCHAR(16777216)'),
    (3, 'ALTER COLUMN "R1" DROP NOT NULL'),
    (4, 'ALTER COLUMN "W1" SET DATA TYPE NUMBER(38,0)'),
    (5, 'ADD COLUMN IF NOT EXISTS "F3" FLOAT'),
    (6, 'ADD COLUMN IF NOT EXISTS "F4" BOOLEAN'),
    (7, 'ALTER COLUMN "R2" DROP NOT NULL'),
    (8, 'ALTER COLUMN "W2" SET DATA TYPE VARCHAR(16777216)'),
    (9, 'ADD COLUMN IF NOT EXISTS "F5" NUMBER(38,2)'),
    (10, 'ADD COLUMN IF NOT EXISTS "F6" DATE'),
    (12, 'ALTER COLUMN "W3" SET DATA TYPE NUMBER(38,2)'),
    (13, 'ADD COLUMN IF NOT EXISTS "F7" TIMESTAMP_NTZ(6)'),
    (15, 'ALTER COLUMN "R3" DROP NOT NULL'),
    (16, 'ADD COLUMN IF NOT EXISTS "F8" ARRAY'),
    (16, 'ADD COLUMN IF NOT EXISTS "F9" VARIANT'),
    (17, 'ADD COLUMN IF NOT EXISTS "F10" BINARY(8388608)'),
)
"""What the table goes through, by phase. Other schemas change without it: their values fit."""


@dataclass
class Load:
    """`count` records in a topic, an equal share of them in each phase."""

    topic: Topic
    count: int

    def __post_init__(self) -> None:
        self.share = self.count // PHASES
        self.schema_ids: list[int] = []

    def numbers(self, phase: int) -> range:
        """The numbers of the records of a phase; the last one takes the rest."""
        return range(phase * self.share, self.count if phase == PHASES - 1 else (phase + 1) * self.share)

    def produce(self, run: SinkRun, done: Future[RunReport]) -> None:
        """Send all phases. A phase begins once the table has the change before; its records still flow."""
        for phase in range(PHASES):
            fields = [field for field in FIELDS if field.first <= phase <= field.last]
            schema = {"type": "record", "name": "Item", "fields": [{"name": f.name, "type": f.avro} for f in fields]}
            self.schema_ids.append(self.topic.register(schema))
            for partition in range(PARTITIONS):
                numbers = (n for n in self.numbers(phase) if n % PARTITIONS == partition)
                records = ({field.name: field.value(n) for field in fields} for n in numbers)
                self.topic.send(framed(self.schema_ids[phase], schema, records), partition=partition)
            wanted = sum(1 for at, _ in CHANGES if at <= phase)
            changed = partial(lambda wanted: done.done() or run.report.schema_changes >= wanted, wanted)
            wait_until(changed, seconds=180, what=f"change {phase}")

    def mismatches(self, field: str) -> str:
        """An aggregate: how many rows have another value in this field's column than their record had."""
        actual = next(each.actual for each in FIELDS if each.name == field).format(field.upper())
        cases = "".join(
            f" WHEN ID BETWEEN {self.numbers(f.first)[0]} AND {self.numbers(f.last)[-1]} THEN {f.expected}"
            for f in FIELDS
            if f.name == field
        )
        return f"COUNT_IF({actual} IS DISTINCT FROM CASE{cases} END)"


@pytest.mark.both_methods
@pytest.mark.full
def test_twenty_changes_while_records_flow(settings: Settings, new_run: NewRun) -> None:
    load = Load(Topic(settings, "load", partitions=PARTITIONS), RECORDS)
    table = load.topic.table
    sql(settings, TABLE.format(table=table))
    parameters = {"snowflake__enable__schematization": "true", "auto__evolve": "true", "errors__tolerance": "all"}
    # A batch is no multiple of a phase, so that batches with two schemas in them are the rule.
    limits = {
        "buffer__count__records": str(load.share // 5),
        "buffer__flush__time": "10",
        "firn__batch__records": str(load.share * 2 // 3),
    }
    stop = threading.Event()
    run = new_run(load.topic, once=False, stop=stop, **parameters, **limits)
    left_out = [n for n in load.numbers(20) if n % 100 == 0]
    with running(run, stop) as done:
        wait_until(lambda: done.done() or run.report.epoch, what="first claim")
        epoch = run.report.epoch
        load.produce(run, done)
        wait_until(
            lambda: done.done() or run.report.records + run.report.bad_records >= RECORDS, seconds=180, what="end"
        )
        stop.set()
        report = done.result(60)
    assert (report.epoch, report.records) == (epoch, RECORDS - len(left_out))
    assert report.reasons == {"unfitting_value": len(left_out)}
    assert landed_numbers(settings, table) == (RECORDS - len(left_out),) * 3 + (sum(range(RECORDS)) - sum(left_out),)
    names = list(dict.fromkeys(field.name for field in FIELDS))
    (row,) = sql(settings, f"SELECT {', '.join(f'{load.mismatches(name)} AS {name}' for name in names)} FROM {table}")
    assert row == {name.upper(): 0 for name in names}
    assert history(settings, load.topic) == [
        (load.schema_ids[phase], f"ALTER TABLE STREAMING.PUBLIC.{table} {change}") for phase, change in CHANGES
    ]


def landed_numbers(settings: Settings, table: str) -> tuple[int, ...]:
    """Rows, different places in the topic, different numbers, and the sum of the numbers."""
    place = "RECORD_METADATA:partition::INT, RECORD_METADATA:offset::INT"
    statement = f"SELECT COUNT(*), COUNT(DISTINCT ID), SUM(ID) FROM {table}"
    ((rows, numbers, total),) = (tuple(row.values()) for row in sql(settings, statement))
    (places,) = sql(settings, f"SELECT COUNT(*) AS N FROM (SELECT DISTINCT {place} FROM {table})")
    return rows, places["N"], numbers, total


def history(settings: Settings, topic: Topic) -> list[tuple[int, str]]:
    """Schema id and statement of each change, in their order; without the comment of a new column."""
    where = f"WHERE TOPIC = '{topic.name}' AND TABLE_NAME = '{topic.table}'"
    rows = sql(settings, f"SELECT SCHEMA_ID, STATEMENT FROM FIRN_SCHEMA_CHANGES {where} ORDER BY CHANGED_AT")
    return [(row["SCHEMA_ID"], row["STATEMENT"].split(" COMMENT ")[0]) for row in rows]


@pytest.mark.both_methods
@pytest.mark.full
def test_a_driver_killed_between_a_change_and_its_commit_loses_and_doubles_nothing(
    stack, tmp_path: Path, ingestion_method: Method
) -> None:
    settings, topic = stack.settings, Topic(stack.settings, "changed")
    sql(settings, f"CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, ID NUMBER(2,0) NOT NULL)")
    for partition in range(PARTITIONS):
        topic.send((json.dumps({"id": n, "f1": n * 7}).encode() for n in range(1_000)), partition=partition)
    file = connector_file(tmp_path, topic, **EVOLVING)
    # With streaming the first task that begins after the change: each has opened a channel before.
    step, nth = (Step.DISPATCHED, 1) if ingestion_method is Method.SNOWPIPE else (Step.OPENED, PARTITIONS + 1)
    fault = Fault(step, Kind.KILL, str(tmp_path / "fault"), nth)
    assert faults_jobs.run(stack, file, fault) == -signal.SIGKILL
    changes = history(settings, topic)
    assert len(changes) == 2
    assert landed(settings, topic) == []
    stack.run("sink", "run", file, "--once", timeout=180)
    assert landed(settings, topic) == [(p, n) for p in range(PARTITIONS) for n in range(1_000)]
    assert committed(settings, topic) == dict.fromkeys(range(PARTITIONS), 1_000)
    assert sql(settings, f"SELECT COUNT_IF(F1 IS DISTINCT FROM ID * 7) AS N FROM {topic.table}") == [{"N": 0}]
    assert history(settings, topic) == changes
