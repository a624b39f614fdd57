"""What a run tells its supervisor beside its log: named events with data, each one line of the log.

The supervisor (`flows.events`) finds them in the child's log; without one they are ordinary lines. Not for progress in
numbers, which is the ledger's.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


def tell(event: str, sentence: str, *, sink: str, **data: object) -> None:
    """Log `sentence` as the event `event` (firn.sink.<event>) of a sink, with `data`: plain values, no secrets."""
    log.info(sentence, extra={"firn_event": event, "firn_data": {"sink": sink, **data}})
