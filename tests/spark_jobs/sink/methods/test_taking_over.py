"""One sink that changes its method, is reset, or meets tasks that live on: no row is lost and none comes twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from firn.channels.names import channel_name
from firn.connector.config import Method
from firn.errors import FencedError
from firn.kafka.partitions import TopicPartition
from firn.ledger.positions import LostPositionError, Position
from firn.ledger.table import LedgerTable
from firn.operations.table_positions import TablePositions
from firn.settings import Settings
from firn.sinks.channel_folding import ChannelFolder, clients_of
from spark_jobs.sink.methods import registry
from spark_jobs.sink.methods.base import ContinuousWriter
from spark_jobs.sink.tables.pipes import target_of_pipe
from tests.spark_jobs.sink.methods.contract import P0, P1, TABLE, TOPIC, Bench, rows_of, take
from tests.support.faults_checks import own_schema

pytestmark = pytest.mark.stack


@pytest.fixture
def streaming(settings: Settings, tmp_path: Path) -> Iterator[Bench]:
    made = Bench.of(registry.of(Method.SNOWPIPE_STREAMING), own_schema(settings), tmp_path)
    config = replace(made.context.config, topics=(TOPIC,), table_map=((TOPIC, TABLE),))
    made.context = replace(made.context, config=config)
    yield made
    made.close()


@pytest.fixture
def snowpipe(streaming: Bench) -> Bench:
    """The same sink with the other method."""
    return replace(streaming, method=registry.of(Method.SNOWPIPE))


def ledger_of(bench: Bench) -> LedgerTable:
    return LedgerTable(bench.namespace, bench.context.config.name)


def test_a_method_goes_on_where_the_other_one_was_killed(streaming: Bench, snowpipe: Bench) -> None:
    streaming.claim().write(p0=10, p1=3)  # durable, and the ledger does not know it
    owner, positions = streaming.ledger()
    assert (owner and owner.tokens_ahead, positions) == (True, {P0: 0, P1: 0})
    files = snowpipe.claim()
    assert files.claim.ledger.committed == {P0: 10, P1: 3}
    files.write(p0=15).commit()
    again = streaming.claim()
    assert again.claim.ledger.committed == {P0: 15, P1: 3}
    again.write(p0=20, p1=9).commit()
    again.driver.finish()
    assert snowpipe.claim().claim.ledger.committed == {P0: 20, P1: 9}
    assert streaming.rows() == rows_of(p0=20, p1=9)


def test_a_task_that_lives_on_after_the_orderly_end_appends_nothing(streaming: Bench, snowpipe: Bench) -> None:
    """The end takes its channel; opening it again, it learns that nobody runs the sink any more."""
    epoch = streaming.claim()
    epoch.write(p0=4).commit()
    late = cast(ContinuousWriter, epoch.writer(P0))
    epoch.driver.finish()
    take(late, P0, range(late.position, 9))
    with pytest.raises(FencedError):
        late.reopen()
    owner, positions = streaming.ledger()
    assert (owner and owner.tokens_ahead, positions) == (False, {P0: 4, P1: 0})
    snowpipe.claim().write(p0=6).commit()
    assert streaming.rows() == rows_of(p0=6, p1=0)


def test_a_dropped_channel_is_a_lost_position_and_the_table_knows_it(streaming: Bench, snowpipe: Bench) -> None:
    streaming.claim().write(p0=10, p1=3)
    table, connection = ledger_of(streaming), streaming.driver
    ledger_id = table.ledger_id(connection)
    assert ledger_id is not None
    client = clients_of(streaming.context)(f"{TABLE}-STREAMING")
    client.drop(channel_name(ledger_id, streaming.context.config.name, P0))
    client.close(flush=False)
    for bench in (streaming, snowpipe):
        with pytest.raises(LostPositionError, match="--reset table"):
            bench.claim()
    held = held_by_table(streaming, {P0, P1})
    assert held == {P0: 10, P1: 3}
    fold = ChannelFolder(streaming.context, ledger_id)
    table.reset(connection, {P0: Position(held[P0], "topic-id")}, running_within=0, fold=fold)
    again = streaming.claim()
    assert again.claim.ledger.committed == {P0: 10, P1: 3}, "the other one went on behind its token"
    again.write(p0=12).commit()
    assert streaming.rows() == rows_of(p0=12, p1=3)


def held_by_table(bench: Bench, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    ask = TablePositions(bench.driver, bench.namespace, bench.context.config, target_of_pipe)
    return ask(partitions)
