"""The channels of a retired sink: found and dropped, whatever became of their tables meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.channels.client import ChannelClient
from firn.channels.names import channel_name
from firn.channels.recorded import RecordedChannel
from firn.kafka.partitions import TopicPartition
from firn.ledger.positions import Position
from firn.operations.residue.finding import RetiredSink
from spark_jobs.sink.methods.streaming.residue import find_channel_residue
from tests.firn_local.snowflake.streaming.streaming_server import KEY, Streaming
from tests.support.streaming import streaming_login, streaming_settings

LEDGER_ID, SINK = "1d", "s"
KEPT, GONE = TopicPartition("kept", 0), TopicPartition("gone", 0)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Streaming]:
    server = Streaming(tmp_path / "data")
    yield server
    server.close()


def test_channels_are_dropped_and_those_that_went_with_their_table_are_no_fault(service: Streaming) -> None:
    settings = streaming_settings(service.endpoint.url, service.endpoint.ca_file)
    login, positions = streaming_login(KEY), dict[TopicPartition, Position]()
    for where in (KEPT, GONE):
        service.sql(f"CREATE TABLE {where.topic} (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
        pipe = f"{where.topic.upper()}-STREAMING"
        client = ChannelClient(login, settings, ("D", "PUBLIC", pipe))
        created = client.open(channel_name(LEDGER_ID, SINK, where)).seen.created_ms
        client.close(flush=False)
        positions[where] = Position(0, "id", None, RecordedChannel(pipe, created, None, 0))
    service.sql("DROP TABLE gone")
    sink = RetiredSink(SINK, login, settings, None, positions, LEDGER_ID)
    found = find_channel_residue(sink)
    assert [finding.name for finding in found.findings()] == [channel_name(LEDGER_ID, SINK, KEPT)]
    found.remove(None, 1)  # type: ignore[arg-type]  # channels need no session
    assert find_channel_residue(sink).findings() == []
