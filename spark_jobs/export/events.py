"""What an export's run reports to its supervisor: named events with data, each one a line of its log."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


def emit(event: str, sentence: str, *, export: str, level: int = logging.INFO, **data: object) -> None:
    """Log `sentence` as the event `event` (firn.export.<event>) of an export, with plain values and no secrets."""
    log.log(level, "%s", sentence, extra={"firn_event": event, "firn_data": {"export": export, **data}})
