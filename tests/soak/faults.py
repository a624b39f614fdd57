"""The faults of a soak by kind, each with its proof that it fired. Not for when they come (`schedule`).

A fault takes the world as it is, does its harm, and returns when the harm was done (Unix seconds) and what was seen of
it. An assertion that fails means that it did not fire: the soak is then no proof of anything, and fails.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.soak import data_faults, driver_faults, server_faults, streaming_faults
from tests.soak.schedule import Planned
from tests.soak.world import Fired, World

FAULTS: dict[str, Callable[[World, Planned], Fired]] = {
    "kill-driver": driver_faults.kill_driver,
    "kill-worker": driver_faults.kill_worker,
    "zombie-driver": driver_faults.zombie_driver,
    "stop-driver": driver_faults.stop_driver,
    "second-driver": driver_faults.second_driver,
    "kill-kafka": server_faults.kill_kafka,
    "kill-registry": server_faults.kill_registry,
    "kill-snowflake": server_faults.kill_snowflake,
    "snowflake-503": server_faults.snowflake_unavailable,
    "cut-requests": server_faults.cut_requests,
    "lose-answers": server_faults.lose_answers,
    "lose-commit-answer": server_faults.lose_commit_answer,
    "drop-staged-files": data_faults.drop_staged_files,
    "add-partition": data_faults.add_partition,
    "stream-429": streaming_faults.stream_throttled,
    "stream-503": streaming_faults.stream_unavailable,
    "stream-cut": streaming_faults.stream_cut,
    "stream-lost-answers": streaming_faults.stream_lost_answers,
    "stale-tokens": streaming_faults.stale_tokens,
    "invalidated-channel": streaming_faults.invalidated_channel,
    "slow-commits": streaming_faults.slow_commits,
}
