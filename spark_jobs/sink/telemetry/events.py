"""What a run reports to its supervisor: named events with data, each one a line of its log.

The supervisor (`flows.prefect_ui.events`) finds them in the child's log; without one they are ordinary lines. Not for
progress in numbers, which is the ledger's.
"""

from __future__ import annotations

import logging

from firn.plural import counted
from spark_jobs.sink.values.batches import CommittedBatch

log = logging.getLogger(__name__)


def emit(event: str, sentence: str, *, sink: str, level: int = logging.INFO, **data: object) -> None:
    """Log `sentence` as the event `event` (firn.sink.<event>) of a sink, with `data`: plain values, no secrets."""
    log.log(level, "%s", sentence, extra={"firn_event": event, "firn_data": {"sink": sink, **data}})


def emit_committed(sink: str, batch: CommittedBatch) -> None:
    """A commit: what it brought and how long it took. Without a receipt, what a continuous run's tasks reported."""
    moved = f"{counted(len(batch.moves), 'partition')} moved"
    what, took = counted(batch.rows, "record"), f"in {batch.dispatch_seconds:.1f} s"
    if batch.receipts:
        what += f" in {counted(batch.receipts, 'file')}"
        took = f"dispatch {batch.dispatch_seconds:.1f} s, commit {batch.commit_seconds:.1f} s"
    emit(
        "committed",
        f"committed batch {batch.name}: {what}, {moved} ({took})",
        sink=sink,
        batch=batch.name,
        rows=batch.rows,
        bytes=batch.text_bytes,
        staged_bytes=batch.bytes,
        files=batch.receipts,
        partitions=len(batch.moves),
        ship_seconds=round(batch.dispatch_seconds, 3),
        commit_seconds=round(batch.commit_seconds, 3),
        bad_records=batch.bad_records,
        dead_letters=batch.dead_letters,
        schema_ids=list(batch.schema_ids),
    )
