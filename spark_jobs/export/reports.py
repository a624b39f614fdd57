"""What an export's task reports to the driver, as texts: batches that are published, and the error that ended it.

A task does not raise: Spark would turn the error into text and lose its kind. Rows never come back.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from firn.errors import FirnError
from firn.exports.published import PublishedBatch, read_published


@dataclass(frozen=True)
class ShardPublished:
    """What a task published of one shard of a source; marker_offset: where the newest marker is, -1 for none.

    reasons: how many dead letters for each reason. publish_seconds: in Kafka's transactions; settle_seconds: in the
    outbox's. error: what ended it early, if anything did.
    """

    source: str
    shard: int
    batches: tuple[PublishedBatch, ...] = ()
    marker_offset: int = -1
    reasons: Mapping[str, int] = field(default_factory=dict)
    publish_seconds: float = 0.0
    settle_seconds: float = 0.0
    error: FirnError | None = None


def dump(report: ShardPublished) -> str:
    """A report as JSON text."""
    document = {
        "source": report.source,
        "shard": report.shard,
        "batches": [each.document for each in report.batches],
        "marker_offset": report.marker_offset,
        "reasons": dict(report.reasons),
        "seconds": [report.publish_seconds, report.settle_seconds],
        "error": None if report.error is None else b64encode(pickle.dumps(report.error)).decode(),
    }
    return orjson.dumps(document).decode()


def load(text: str) -> ShardPublished:
    """The report that `dump` wrote."""
    read = orjson.loads(text)
    error = read["error"]
    publish_seconds, settle_seconds = read["seconds"]
    return ShardPublished(
        read["source"],
        read["shard"],
        tuple(map(read_published, read["batches"])),
        read["marker_offset"],
        read["reasons"],
        publish_seconds,
        settle_seconds,
        pickle.loads(b64decode(error)) if error else None,  # noqa: S301 - written by our own task just now
    )


def errors_of(reports: Sequence[ShardPublished]) -> list[FirnError]:
    """What ended tasks early."""
    return [each.error for each in reports if each.error is not None]
