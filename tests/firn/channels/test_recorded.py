"""The baseline of row errors stays with its channel, and no look at a channel adopts an error."""

from __future__ import annotations

from firn.channels.recorded import ChannelSeen, RecordedChannel

BEFORE = RecordedChannel("ORDERS-STREAMING", 1_000, "1:9", row_errors=2)


def test_the_same_channel_keeps_its_baseline_and_takes_the_new_token() -> None:
    seen = ChannelSeen(1_000, "1:20", row_errors=5)
    after = seen.recorded("ORDERS-STREAMING", BEFORE)
    assert after == RecordedChannel("ORDERS-STREAMING", 1_000, "1:20", row_errors=2)
    assert seen.unaccounted(after) == 3


def test_a_channel_of_another_pipe_or_another_age_begins_at_no_error() -> None:
    seen = ChannelSeen(1_000, None, row_errors=1)
    assert seen.recorded("ORDERS", BEFORE).row_errors == 0
    assert ChannelSeen(2_000, None, row_errors=1).recorded("ORDERS-STREAMING", BEFORE).row_errors == 0
    assert seen.recorded("ORDERS-STREAMING", None).row_errors == 0
