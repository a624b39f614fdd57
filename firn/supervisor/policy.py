"""What a supervisor is to do, as one value. Times are seconds. Not for what a sink does (its connector file)."""

from __future__ import annotations

from dataclasses import dataclass, field

from firn.connector.config import SinkConfig
from firn.operations.offsets import running_within
from firn.supervisor.stall_detector import Patience

SLEEPING_SECONDS = 600.0
"""Between two looks at Snowflake at an idle sink without heartbeats, whose warehouse is to sleep."""


@dataclass(frozen=True)
class Policy:
    """How one sink is supervised.

    keep_alive: a start by schedule: nothing is started that a person stopped or that failed for good, and a run that
    lives is watched instead of replaced. by: who starts it. alive_within: so long after its last sign of life a run
    counts as alive. look: between two looks while records flow; idle: between two that ask Snowflake while none do.
    restarts: in a row without progress; backoff_first to backoff_longest: pauses before them. lag_records,
    lag_seconds: from there on the event `lagging` is told; 0: never. stop: from TERM to KILL of a cancelled run.
    """

    patience: Patience = field(default_factory=Patience)
    keep_alive: bool = False
    by: str = ""
    alive_within: float = 90.0
    look: float = 5.0
    idle: float = 30.0
    restarts: int = 10
    backoff_first: float = 1.0
    backoff_longest: float = 60.0
    lag_records: int = 0
    lag_seconds: float = 300.0
    stop: float = 20.0


def patience_of(config: SinkConfig, *, stall: float, hang: float, patience: float) -> Patience:
    """What is normal for a sink. patience: FIRN_SINK_PATIENCE_SECONDS, for which a driver may wait in silence."""
    return Patience(
        stall=stall,
        flush=config.buffer.seconds,
        flush_records=config.buffer.records,
        hang=max(hang, patience + 2 * stall),
        heartbeat=config.heartbeat_seconds,
    )


def policy_of(
    config: SinkConfig,
    *,
    by: str,
    patience_seconds: float,
    stall_seconds: float = Patience.stall,
    hang_seconds: float = Patience.hang,
    restarts: int = Policy.restarts,
    keep_alive: bool = Policy.keep_alive,
    lag_records: int = Policy.lag_records,
    lag_seconds: float = Policy.lag_seconds,
) -> Policy:
    """The policy of a sink: what its configuration implies, and what is asked for."""
    return Policy(
        patience=patience_of(config, stall=stall_seconds, hang=hang_seconds, patience=patience_seconds),
        keep_alive=keep_alive,
        by=by,
        alive_within=running_within(config),
        idle=max(Policy.idle, config.heartbeat_seconds) if config.heartbeat_seconds else SLEEPING_SECONDS,
        restarts=restarts,
        lag_records=lag_records,
        lag_seconds=lag_seconds,
    )
