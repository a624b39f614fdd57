"""Whether a run holds an export, asked before somebody takes the export over. A courtesy: a claim fences it anyway.

A driver writes a sign of life into Kafka every half minute. Not for the state that a person sees (`observer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from firn.errors import TerminalError
from firn.exports import names
from firn.exports.context import ExportContext
from firn.exports.ledger import ExportStanding
from firn.kafka import cluster
from firn.ledger.owner import Owner, spoken
from firn.ledger.rows import View
from firn.operations.life import LifeWatch, hear

ALIVE_SECONDS = 90.0
"""A run that was silent for so long is over: three signs of life are missing."""


class ExportRunsError(TerminalError):
    """A run holds the export and gives signs of life."""


def owner_view(standing: ExportStanding | None) -> View:
    """The owner as the watch of life takes it. Its row says nothing after the claim: signs do."""
    if standing is None:
        return View("", None, {})
    by = standing.owner
    return View(standing.id, Owner(standing.epoch, str(by.get("run_id") or ""), 0.0), {}, _started(by))


def check_over(context: ExportContext, standing: ExportStanding) -> None:
    """Raise ExportRunsError where a run holds the export and was heard of lately, and as Kafka tells."""
    name = names.control_name(context.config.name)
    sign = hear(cluster.admin_client(context.kafka), standing.id, name).sign
    owner = LifeWatch().owner(owner_view(standing), sign)
    ended = bool(sign and sign.ended and sign.epoch == standing.epoch)
    if owner is not None and not ended and owner.runs(ALIVE_SECONDS):
        raise ExportRunsError(
            f"Export {context.config.name} runs: its last sign of life came {spoken(owner.silent_seconds)} ago.",
            where=f"epoch {owner.epoch}, host {standing.owner.get('host') or 'unknown'}",
            next_step="Run `firn export stop <config> --wait` first. After a kill: wait until it was silent for "
            f"{ALIVE_SECONDS:.0f} s.",
        )


def _started(by: Mapping[str, Any]) -> datetime:
    """When the run that claimed was started; now where somebody else wrote the row."""
    try:
        return datetime.fromisoformat(str(by.get("started"))).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)
