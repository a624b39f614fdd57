"""Which channel a record is about, and how many of its row errors nobody accounted for."""

from __future__ import annotations

from firn.channels.recorded import ChannelSeen, RecordedChannel

KNOWN = RecordedChannel("ORDERS-STREAMING", 1_000, "1:9", row_errors=2)


def test_a_channel_is_the_same_only_in_its_pipe_and_if_it_was_made_at_the_same_moment() -> None:
    assert KNOWN.is_same("ORDERS-STREAMING", 1_000)
    assert not KNOWN.is_same("ORDERS", 1_000)
    assert not KNOWN.is_same("ORDERS-STREAMING", 1_001)


def test_errors_beyond_the_baseline_are_unaccounted() -> None:
    assert ChannelSeen(1_000, "1:20", row_errors=5).unaccounted(KNOWN) == 3
    assert ChannelSeen(1_000, "1:20", row_errors=2).unaccounted(KNOWN) == 0
