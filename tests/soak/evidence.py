"""What Snowflake, Kafka and the dead-letter topic hold of a soak's partitions: the questions, in SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from firn.kafka import cluster
from firn.kafka.partitions import TopicPartition
from firn.settings import Settings
from firn.snowflake.connection import connect, query
from tests.soak.verdict import Found
from tests.support.kafka import Topic
from tests.support.sinks import committed, login_of

_ROWS = """
SELECT RECORD_METADATA:partition::INT AS P, RECORD_METADATA:offset::INT AS O, RECORD_CONTENT:seq::INT AS S,
  RECORD_CONTENT:amount::INT AS A FROM {table}
"""
_SUMS = f"""
SELECT P AS "partition", COUNT(*) AS "rows", COUNT(DISTINCT O) AS "offsets", MIN(O) AS "first", MAX(O) AS "last",
  COUNT(S) AS "good", COUNT(DISTINCT S) AS "sequences", SUM(A) AS "amount" FROM ({_ROWS}) GROUP BY P
"""
_HOLES = f"""
SELECT P, O + 1 AS FROM_OFFSET, NEXT_O AS TO_OFFSET FROM (
  SELECT P, O, LEAD(O) OVER (PARTITION BY P ORDER BY O) AS NEXT_O FROM ({_ROWS})
) WHERE NEXT_O > O + 1
"""
_ASTRAY = f"""
SELECT P, COUNT(*) AS N FROM (
  SELECT P, S, LAG(S) OVER (PARTITION BY P ORDER BY O) AS BEFORE FROM ({_ROWS}) WHERE S IS NOT NULL
) WHERE S <> COALESCE(BEFORE, -1) + 1 GROUP BY P
"""


def evidence(
    settings: Settings, topic: Topic, letters: Mapping[TopicPartition, Counter[int]]
) -> dict[TopicPartition, Found]:
    """What is there of each partition that the ledger knows."""
    with connect(login_of(settings)) as connection:
        sums = {int(row.pop("partition")): row for row in query(connection, _SUMS.format(table=topic.table))}
        astray = {int(row["P"]): int(row["N"]) for row in query(connection, _ASTRAY.format(table=topic.table))}
        holes: dict[int, set[int]] = {}
        for row in query(connection, _HOLES.format(table=topic.table)):
            holes.setdefault(int(row["P"]), set()).update(range(int(row["FROM_OFFSET"]), int(row["TO_OFFSET"])))
    ledger = committed(settings, topic)
    ends = cluster.offsets(topic.admin, [(topic.name, number) for number in ledger], "latest")
    return {
        where: Found(
            committed=ledger[where.partition],
            end=ends[where],
            astray=astray.get(where.partition, 0),
            holes=frozenset(holes.get(where.partition, ())),
            letters=letters.get(where, Counter()),
            **{name: int(value or 0) for name, value in sums.get(where.partition, {}).items()},
        )
        for where in (TopicPartition(topic.name, number) for number in sorted(ledger))
    }
