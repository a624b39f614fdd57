"""Whether the run that the ledger names is over, before somebody sets its positions or retires its name.

A run that lives says so in Kafka, and in the ledger only where Kafka takes nothing: silence there proves nothing by
itself. So the signs are observed for two of their intervals, by this machine's clock. A courtesy: a run that is taken
for dead and lives is fenced, and writes nothing more. Not for showing how a sink is (`health`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from firn.connector.config import SinkConfig
from firn.errors import FirnError, TerminalError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.ledger.kafka_names import sign_group
from firn.ledger.owner import Owner, SinkRunsError, spoken
from firn.operations.life import reader
from firn.operations.offsets import running_within
from firn.sinks.signs import Sign, SignReader

INTERVALS = 2
SLACK_SECONDS = 5.0
"""A sign may be late by so much."""
_LOOK_SECONDS = 1.0


class UnknownLifeError(TerminalError):
    """Nobody can say whether a run still holds the sink."""


def await_stillness(
    config: SinkConfig,
    owner: Owner | None,
    ledger_id: str | None,
    client: KafkaClient | None,
    *,
    force: bool = False,
    say: Callable[[str], None] = lambda _sentence: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Return once the run is known to be over; takes two intervals of signs where the run did not end in order.

    Returns for how many seconds from now backwards a sign of life in the ledger speaks against that: whoever changes
    the ledger asks it again, under its lock. owner: as the ledger has it. client: None where Kafka is not to be asked.
    force: go on where nobody can say. say: is told what is waited for. clock, sleep: in seconds.

    Raises SinkRunsError where a run lives, UnknownLifeError where nobody can say.
    """
    within = running_within(config)
    if owner is None or not owner.run_id or owner.runs(within) or not config.heartbeat_seconds:
        return within  # the ledger itself tells
    signs = _SignsOf(config, ledger_id, client)
    first = signs.newest()
    if first is None or first.epoch != owner.epoch:
        return _unknown(config, owner, signs.why, force=force)
    begun, seconds = clock(), INTERVALS * config.heartbeat_seconds + SLACK_SECONDS
    say(f"A run holds the sink and may live: waiting {seconds:.0f} s for a sign of life.")
    while clock() - begun < seconds:
        sleep(_LOOK_SECONDS)
        newest = signs.newest()
        if newest is None:
            return _unknown(config, owner, signs.why, force=force)
        if newest != first:
            raise SinkRunsError(
                f"Sink {config.name} runs: it gave a sign of life just now.",
                where=signs.where,
                next_step="Stop it first: `firn sink stop`, or cancel its flow run.",
            )
    return min(within, clock() - begun)


class _SignsOf:
    """The newest sign of a sink. why: there is none; where: it was looked for."""

    def __init__(self, config: SinkConfig, ledger_id: str | None, client: KafkaClient | None) -> None:
        self._reader: SignReader | None = None
        self.where, self.why = f"sink {config.name}", "Kafka was not asked"
        if client is not None and ledger_id:
            self._reader = reader(cluster.admin_client(client), ledger_id, config.name)
            self.where = f"group {sign_group(ledger_id, config.name)}"

    def newest(self) -> Sign | None:
        """The sign as it is now; None where there is none, or Kafka does not tell."""
        if self._reader is None:
            return None
        try:
            self.why = "Kafka has no sign of it"
            return self._reader.read().sign
        except FirnError as fault:
            self.why = fault.what.rstrip(".")
            return None


def _unknown(config: SinkConfig, owner: Owner, why: str, *, force: bool) -> float:
    """Nobody can say whether the run lives: 0.0 where that is to be no obstacle."""
    if force:
        return 0.0
    raise UnknownLifeError(
        f"Nobody can say whether sink {config.name} runs: the ledger says that a run holds it, silent for "
        f"{spoken(owner.silent_seconds)}, and the signs of life cannot tell: {why}.",
        where=f"sink {config.name}, epoch {owner.epoch}",
        next_step="Make sure that no driver of it runs, then give --force: one that still runs is fenced by that.",
    )
