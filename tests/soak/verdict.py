"""The verdict of a soak: what Snowflake and the dead-letter topic hold, against what Kafka acknowledged. SQL only.

Each topic's table is asked for rows that are there twice, offsets that are not there, sums, and the order of sequence
numbers; each offset must be one row or one letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from firn import kafka
from firn.settings import Settings
from firn.snowflake import connect, query
from spark_jobs.sink.ledger import TopicPartition
from tests.soak.traffic import Acknowledged
from tests.support.kafka import Topic
from tests.support.sinks import committed, login_of

_ROWS = """
SELECT RECORD_METADATA:partition::INT AS P, RECORD_METADATA:offset::INT AS O, RECORD_CONTENT:seq::INT AS S,
  RECORD_CONTENT:amount::INT AS A FROM {table}
"""
_SUMS = f"""
SELECT P, COUNT(*) AS N, COUNT(DISTINCT O) AS OFFSETS, MIN(O) AS FIRST, MAX(O) AS LAST, COUNT(S) AS GOOD,
  COUNT(DISTINCT S) AS SEQUENCES, SUM(A) AS AMOUNT FROM ({_ROWS}) GROUP BY P ORDER BY P
"""
_HOLES = f"""
SELECT P, O + 1 AS FROM_OFFSET, NEXT_O AS TO_OFFSET FROM (
  SELECT P, O, LEAD(O) OVER (PARTITION BY P ORDER BY O) AS NEXT_O FROM ({_ROWS})
) WHERE NEXT_O > O + 1 ORDER BY P, O
"""
_OUT_OF_ORDER = f"""
SELECT COUNT(*) AS N FROM (
  SELECT S, LAG(S) OVER (PARTITION BY P ORDER BY O) AS BEFORE FROM ({_ROWS}) WHERE S IS NOT NULL
) WHERE S <> COALESCE(BEFORE, -1) + 1
"""
Letters = Mapping[TopicPartition, Counter[int]]


@dataclass
class Verdict:
    """Counts, and a sentence for everything that is wrong."""

    rows: int = 0
    amount: int = 0
    letters: int = 0
    duplicates: int = 0
    losses: int = 0
    faults: list[str] = field(default_factory=list)


def judge(
    settings: Settings, topics: list[Topic], acknowledged: Mapping[TopicPartition, Acknowledged], letters: Letters
) -> Verdict:
    """Compare everything; takes some seconds."""
    verdict = Verdict(letters=sum(sum(each.values()) for each in letters.values()))
    for topic in topics:
        _judge_topic(verdict, settings, topic, acknowledged, letters)
    return verdict


def _judge_topic(
    verdict: Verdict,
    settings: Settings,
    topic: Topic,
    acknowledged: Mapping[TopicPartition, Acknowledged],
    letters: Letters,
) -> None:
    with connect(login_of(settings)) as connection:
        sums = {int(row["P"]): row for row in query(connection, _SUMS.format(table=topic.table))}
        holes: dict[int, set[int]] = {}
        for row in query(connection, _HOLES.format(table=topic.table)):
            holes.setdefault(int(row["P"]), set()).update(range(int(row["FROM_OFFSET"]), int(row["TO_OFFSET"])))
        out_of_order = int(query(connection, _OUT_OF_ORDER.format(table=topic.table))[0]["N"])
    if out_of_order:
        verdict.faults.append(f"{topic.name}: {out_of_order} sequence numbers do not follow the one before")
    ledger = committed(settings, topic)
    partitions = [TopicPartition(topic.name, number) for number in sorted(ledger)]
    ends = kafka.offsets(topic.admin, partitions, "latest")
    for where in partitions:
        end = ends[where]
        sent = acknowledged.get(where, Acknowledged())
        verdict.faults += _differ(f"{where}: end offset of Kafka and acknowledged", end, sent.end)
        verdict.faults += _differ(f"{where}: ledger and end offset", ledger[where.partition], end)
        _judge_partition(verdict, where, sums.get(where.partition), holes.get(where.partition, set()), sent, letters)
    unknown = sorted(where for where in acknowledged if where.topic == topic.name and where.partition not in ledger)
    verdict.faults += [f"{where}: not in the ledger" for where in unknown]


def _judge_partition(
    verdict: Verdict,
    where: TopicPartition,
    row: Mapping[str, Any] | None,
    holes: set[int],
    sent: Acknowledged,
    letters: Letters,
) -> None:
    found = {name: int(value or 0) for name, value in (row or {}).items()} or dict.fromkeys(
        ("N", "OFFSETS", "FIRST", "GOOD", "SEQUENCES", "AMOUNT"), 0
    )
    last = found.get("LAST", -1)
    own = letters.get(where, Counter())
    absent = holes | set(range(found["FIRST"])) | set(range(last + 1, sent.end))
    twice = found["N"] - found["OFFSETS"] + sum(own.values()) - len(own)
    lost, both = absent - set(own), set(own) - absent
    verdict.rows += found["N"]
    verdict.amount += found["AMOUNT"]
    verdict.duplicates += twice + len(both)
    verdict.losses += len(lost)
    if twice:
        verdict.faults.append(f"{where}: {twice} rows or letters are there again")
    if lost:
        verdict.faults.append(f"{where}: {len(lost)} offsets are neither row nor letter, the first is {min(lost)}")
    if both:
        verdict.faults.append(f"{where}: {len(both)} records are row and letter, the first at {min(both)}")
    verdict.faults += _differ(f"{where}: letters and malformed records", set(own), sent.malformed)
    verdict.faults += _differ(f"{where}: rows and acknowledged records", found["N"], sent.good + sent.tombstones)
    verdict.faults += _differ(f"{where}: rows with content and good records", found["GOOD"], sent.good)
    verdict.faults += _differ(f"{where}: sequence numbers and good records", found["SEQUENCES"], sent.good)
    verdict.faults += _differ(f"{where}: sum of amounts", found["AMOUNT"], sent.amount)


def _differ(what: str, found: Any, expected: Any) -> list[str]:
    if found == expected:
        return []
    if isinstance(found, set):
        found, expected = f"{len(found - expected)} more", f"{len(expected - found)} fewer"
    return [f"{what}: {found}, not {expected}"]
