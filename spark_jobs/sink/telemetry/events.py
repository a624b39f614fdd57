"""What a run tells its supervisor beside its log: named events with data, each one line of the log.

The supervisor (`flows.prefect_ui.events`) finds them in the child's log; without one they are ordinary lines. Not for
progress in numbers, which is the ledger's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from firn.plural import counted

if TYPE_CHECKING:  # the supervisor reads events without loading Spark
    from spark_jobs.sink.batch import Committed

log = logging.getLogger(__name__)


def tell(event: str, sentence: str, *, sink: str, level: int = logging.INFO, **data: object) -> None:
    """Log `sentence` as the event `event` (firn.sink.<event>) of a sink, with `data`: plain values, no secrets."""
    log.log(level, "%s", sentence, extra={"firn_event": event, "firn_data": {"sink": sink, **data}})


def tell_committed(sink: str, batch: Committed) -> None:
    """A commit: what it brought and how long it took."""
    moved = f"{counted(len(batch.moves), 'partition')} moved"
    what = f"{counted(batch.rows, 'record')} in {counted(batch.files, 'file')}, {moved}"
    took = f"ship {batch.ship_seconds:.1f} s, commit {batch.commit_seconds:.1f} s"
    tell(
        "committed",
        f"committed batch {batch.batch}: {what} ({took})",
        sink=sink,
        batch=batch.batch,
        rows=batch.rows,
        bytes=batch.text_size,
        staged_bytes=batch.size,
        files=batch.files,
        partitions=len(batch.moves),
        ship_seconds=round(batch.ship_seconds, 3),
        commit_seconds=round(batch.commit_seconds, 3),
        bad_records=batch.bad_records,
        dead_letters=batch.dead_letters,
        schema_ids=list(batch.schema_ids),
    )
