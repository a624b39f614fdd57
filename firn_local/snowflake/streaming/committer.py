"""The thread that commits what waits in the channels, many in one transaction. Not for how rows are inserted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from firn_local.snowflake.streaming.channels import Channels, PendingBatch
from firn_local.snowflake.streaming.row_loader import Outcome, RowLoader

log = logging.getLogger("firn_local.snowflake")
_LOOK_SECONDS = 1.0


class Committer:
    """Commits until it is closed; then what waits is committed too, unless commits are paused."""

    def __init__(self, channels: Channels, loader: RowLoader) -> None:
        self._channels, self._loader = channels, loader
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streaming-commits", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Commit what waits, and stop."""
        self._closing.set()
        self._channels.wake()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._commit(_LOOK_SECONDS)
        while self._commit(0, everything=True):
            pass
        self._loader.close()

    def _commit(self, seconds: float, *, everything: bool = False) -> int:
        """Commit what is due; how many batches that were."""
        with self._channels.due(seconds, everything=everything) as batches:
            for database in dict.fromkeys(batch.pipe.database for batch in batches):
                mine = [batch for batch in batches if batch.pipe.database == database]
                self._channels.committed(mine, self._loaded(mine))
            return len(batches)

    def _loaded(self, batches: Sequence[PendingBatch]) -> Sequence[Outcome | None]:
        """What became of them. Where nothing can be committed (DuckDB is broken), their channels must be reopened."""
        try:
            return self._loader.load(batches)
        except Exception:
            log.exception("streamed rows cannot be committed; their channels have to be reopened")
            return [None] * len(batches)
