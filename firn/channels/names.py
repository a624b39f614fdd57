"""The names of channels and of the pipes that Snowflake makes by itself. Pure.

A channel belongs to one partition of one sink of one ledger, and to nobody else: who opens it fences who had it. So no
two may meet, whatever their parts hold, also where the service folds the case of a name, which no document rules out.
Not for pipes that a user made (`spark_jobs.sink.tables.pipes`).
"""

from __future__ import annotations

import hashlib
import re

from firn.kafka.partitions import TopicPartition

MAX_CHANNEL_NAME = 255
"""Characters, as of any name in Snowflake (https://docs.snowflake.com/en/sql-reference/identifiers)."""
_DIGITS = 32
_UNSAFE = re.compile(r"[^A-Za-z0-9._]")


def channel_name(ledger_id: str, sink: str, where: TopicPartition) -> str:
    """The name of a partition's channel: a digest of its parts with their lengths, then the parts for people to read.

    Only ASCII letters, digits, `.`, `_` and `-`: the name is part of a URL.
    """
    parts = (ledger_id, sink, where.topic, str(where.partition))
    exact = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.sha256(exact.encode()).hexdigest()[:_DIGITS]
    readable = "-".join(_UNSAFE.sub("_", part) for part in (sink, where.topic, str(where.partition)))
    return f"firn-{digest}-{readable}"[:MAX_CHANNEL_NAME]


def default_pipe(table: str) -> str:
    """The pipe that Snowflake makes for a table at its first use; `table` and the result as Snowflake keeps them.

    Source: https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-high-performance-pipe-object,
    "default pipe".
    """
    return f"{table}-STREAMING"
